"""Feeding a training from a table in row groups: an order by seed, shares for processes, reading ahead, going on mid-epoch.

`torch_batches` and `tensorflow_batches` give tensors; what they share needs numpy alone. Where the rows lie is not known here.
"""
