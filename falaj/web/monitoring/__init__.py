"""What the pages of monitoring ask for, and what they make of the answers."""
