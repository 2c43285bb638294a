"""The story of a model version: gathered by its reader's own right, put on a time line, and held against the ledger."""
