"""Signing in: one-time codes, and the identity provider by OpenID Connect."""
