"""Predictions for whole versions of datasets: `asking` submits the job, `job` is the program that it runs, `predicting` is the
model inside it."""
