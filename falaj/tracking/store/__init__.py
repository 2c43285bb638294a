"""The tables of experiments, runs and metrics, and all SQL about them."""
