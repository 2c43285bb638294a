"""The processes of one training, and words among them that meet none of the training's own collectives."""

from datetime import timedelta
from typing import Any, Final, TypeVar

import torch
import torch.distributed as dist

T = TypeVar("T")

_PATIENCE: Final = timedelta(minutes=10)  # with a process that has gone silent while a checkpoint is made


class Workers:
    """Made by all processes of the training together, after `init_process_group` where there are several; or by one `alone`.

    Saving talks in a thread of its own while the loop talks, too: each has a group of its own, for what is said in one group
    has to be said in the same order everywhere.
    """

    def __init__(self, *, alone: bool = False) -> None:
        self.together = not alone and dist.is_available() and dist.is_initialized()
        self.rank = dist.get_rank() if self.together else 0
        self.count = dist.get_world_size() if self.together else 1
        self.saving: Any = dist.new_group(backend="gloo", timeout=_PATIENCE) if self.together else None
        self.looping: Any = dist.new_group(backend="gloo", timeout=_PATIENCE) if self.together else None

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def first_says(self, what: T, group: Any) -> T:
        """What the first process says; the others' own is not looked at."""
        if not self.together:
            return what
        said = [what]
        dist.broadcast_object_list(said, src=0, group=group)
        return said[0]

    def all_say(self, what: T, group: Any) -> list[T]:
        if not self.together:
            return [what]
        said: list[Any] = [None] * self.count
        dist.all_gather_object(said, what, group=group)
        return said


class Agreement:
    """Yes or no for several questions at once, yes where any process says yes, the same answer everywhere.

    Among several processes the answer is that to the step before: it travels while the step computes, and nobody waits for it.
    """

    def __init__(self, workers: Workers, questions: int) -> None:
        self._workers = workers
        self._asked = torch.zeros(questions, dtype=torch.int32)
        self._under_way: Any = None

    def on(self, *answers: bool) -> tuple[bool, ...]:
        if not self._workers.together:
            return answers
        agreed = self.conclude()
        self._asked = torch.tensor([int(one) for one in answers], dtype=torch.int32)
        self._under_way = dist.all_reduce(self._asked, op=dist.ReduceOp.MAX, group=self._workers.looping, async_op=True)
        return agreed

    def conclude(self) -> tuple[bool, ...]:
        """The answer that is still on its way."""
        if self._under_way is not None:
            self._under_way.wait()
            self._under_way = None
        return tuple(bool(one) for one in self._asked.tolist())
