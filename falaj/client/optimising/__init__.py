"""Optimising a model: `asking` submits the job, `job` is the program that it runs; `rows` reads what it needs, `comparing`
holds variants against the original, `workshop` is the process in which candidates are made, `reporting` tells the platform."""
