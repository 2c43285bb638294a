"""Checks: what must hold of a dataset's rows, held against a version before it is published."""
