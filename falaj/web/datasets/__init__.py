"""The pages of datasets, their versions, and feature views. They only read."""
