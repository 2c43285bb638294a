"""What the pages of optimised models ask for, and what they make of the answers."""
