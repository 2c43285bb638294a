"""The `falaj` command: what people type. It speaks HTTP through `client`;
only what works on the home itself goes through `app`.
"""
