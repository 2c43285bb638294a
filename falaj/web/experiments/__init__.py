"""What the pages of experiments and runs ask for, and what they make of the answers."""
