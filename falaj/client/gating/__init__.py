"""Measuring for gates: `job` is the program that a gate's job runs, `models` asks the versions, `leaks` looks at the rows."""
