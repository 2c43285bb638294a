"""Versions that are made of others, by SQL, by a function or by a join, and known again by what they were made of."""
