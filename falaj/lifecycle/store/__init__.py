"""Tables and SQL of this room, by noun."""
