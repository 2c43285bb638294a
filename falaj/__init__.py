"""Falaj: one platform from raw data to a monitored, governed model in production."""

__version__ = "0.1.0"
