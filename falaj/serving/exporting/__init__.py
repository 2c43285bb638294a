"""Endpoints for servers of others: what their files say. Nothing here asks the platform."""
