"""The second of two processes leaves before the first has met it."""

import sys

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
if dist.get_rank() == 1:
    sys.exit(3)
dist.all_reduce(torch.ones(1))
