"""The tables of this room and all of its SQL."""
