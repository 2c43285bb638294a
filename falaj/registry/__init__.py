"""Registered models: signed versions, aliases with their whole history, promotion under policy."""
