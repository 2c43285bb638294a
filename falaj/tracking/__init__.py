"""Experiments and runs: what was tried, with which parameters, on which data, and what came out."""
