"""Watching what is served: drift, quality, experiments; alerts, and what they make happen."""
