"""Cedar: the built-in rules, those that projects add, and saying which rule decided."""
