"""Conformance suites: what every backend of a protocol promises, as tests. Imported by tests only."""
