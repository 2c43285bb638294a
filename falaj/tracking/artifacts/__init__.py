"""Artifacts: files of runs and logged models, sealed, each under a relative name."""
