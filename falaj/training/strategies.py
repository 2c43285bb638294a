"""By name, how the processes of a training share its work: one file for each way."""

import os

import torch.distributed as processes

from falaj.base.errors import Invalid
from falaj.training.recipes import Wishes
from falaj.training.sharding import Shards
from falaj.training.splitting import Split
from falaj.training.together import Alone, Copies, Together

_TOLD = {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}  # by whoever starts several processes, where they meet


def named(strategy: str, wishes: Wishes) -> Together:
    if strategy != "single" and not processes.is_initialized() and not os.environ.keys() >= _TOLD:
        raise Invalid(
            f"strategy {strategy!r} was asked for, and this process was told of no others: start the training by `falaj train "
            "--nodes 2`, by `--processes` or by torchrun, or leave the strategy out"
        )
    if strategy == "tensor":
        return Split(wishes.tensor_plan)
    return {"single": Alone, "ddp": Copies, "fsdp": Shards}[strategy]()
