"""Datasets whose rows stay where they are: pinned, read when somebody reads them, and held against what was pinned."""
