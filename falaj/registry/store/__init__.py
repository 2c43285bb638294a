"""The tables of the registry and all its SQL, by noun."""
