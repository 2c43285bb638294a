"""Running a model of a checked format: one protocol, one file per engine."""
