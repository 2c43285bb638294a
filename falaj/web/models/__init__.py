"""What the pages of registered models ask for, and what they make of the answers."""
