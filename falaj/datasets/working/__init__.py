"""The outside of data workers: processes inside walls, how they are handed orders, and what of their answers is believed."""
