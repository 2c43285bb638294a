"""The room's tables and its SQL."""
