"""Pipelines as people write them, in Python: traced on their machine into a definition that the platform checks and runs; and
the program that a step's function runs in."""
