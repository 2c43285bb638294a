"""By name, how the processes of a training share its work: one file for each way."""

from falaj.training.recipes import Wishes
from falaj.training.sharding import Shards
from falaj.training.splitting import Split
from falaj.training.together import Alone, Copies, Together


def named(strategy: str, wishes: Wishes) -> Together:
    if strategy == "tensor":
        return Split(wishes.tensor_plan)
    return {"single": Alone, "ddp": Copies, "fsdp": Shards}[strategy]()
