"""Telling people and programs outside of an alert: by signed webhooks, and by apprise. Knows nothing of tables."""
