"""The tables of datasets and all SQL about them."""
