"""The tables of this room and all their SQL, by noun."""
