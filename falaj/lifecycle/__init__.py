"""Durable pipelines: what is to be done in which order, gates before a promotion, and the whole story of a version."""
