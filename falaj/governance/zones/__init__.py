"""Places under a jurisdiction, each with its storage and its engines."""
