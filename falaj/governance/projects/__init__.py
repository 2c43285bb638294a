"""Tenants: what owns everything below it, who belongs to it, and which zones it may use."""
