"""The key ring, which wraps every other key, and the platform's signing keys."""
