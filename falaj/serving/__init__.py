"""Models behind names that clients call: endpoints and their revisions, and the plane that answers."""
