"""Chapters of the demo, each about one promise. They stand on what the story left, or on something small of their own."""
