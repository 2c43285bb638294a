"""Rows that are pushed as they happen: taken in at the door, and made a version in batches."""
