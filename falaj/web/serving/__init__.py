"""What the pages of endpoints ask for, and what they make of the answers."""
