"""SQL of this room."""
