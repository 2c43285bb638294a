"""The story of a version as people read it: a page of the console, and one file to send on, from the same chapters."""
