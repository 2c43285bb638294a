"""Running declared operations: the one dispatcher, idempotency, and the leased loop that all background work uses."""
