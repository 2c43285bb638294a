"""Logged models: what runs made, before anybody registered it."""
