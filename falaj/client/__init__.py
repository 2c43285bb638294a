"""The typed client: every declared operation can be called with it, its request and result types checked by mypy."""
