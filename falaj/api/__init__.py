"""Falaj's HTTP face: every route is a declared operation. The only room that knows HTTP status codes."""
