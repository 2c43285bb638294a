"""What a pool is, and how one of its hosts stands."""

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final, Literal

from falaj.base.clock import MINUTE, SECOND, Moment
from falaj.base.values import value
from falaj.jobs.scheduler.values import Job, Node

# `adding`: its command is to be run, or runs. `starting`: that has ended, and its engine does not know of it yet. `removing`
# likewise; `gone`: given back, and its engine may still speak of it.
State = Literal["adding", "starting", "ready", "draining", "removing", "gone"]
ON_THE_WAY: Final = ("adding", "starting")
GOING: Final = ("draining", "removing", "gone")
HOST_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,199}")  # as engines may call one


@value
class Pool:
    """Hosts of one kind, of which there may be `least` to `most`. `host` is what each has; its name is empty.

    `add` and `remove` are commands, given the name of a host in place of `{name}`. Each may be run again for the same name,
    where nobody can say whether it came to an end: adding one that is there does nothing, and so does removing one that is not.
    """

    name: str
    engine: str
    host: Node
    most: int
    least: int = 0
    queues: tuple[str, ...] = ()  # whose jobs it is there for; none: every queue's
    add: tuple[str, ...]
    remove: tuple[str, ...]
    delay: int = 10 * SECOND  # so long jobs must have been short of room before one more is added
    cool_down: int = 10 * MINUTE  # so long one must have been idle before it is given back
    starts_within: int = 15 * MINUTE  # by when one that was added must be there
    command_within: int = 5 * MINUTE  # by when a command must have ended

    def serves(self, job: Job) -> bool:
        return not self.queues or job.queue in self.queues

    def imagined(self, count: int) -> tuple[Node, ...]:
        """So many of its hosts, as if they were there."""
        return tuple([replace(self.host, name=f"{self.name}+{number}", open=True) for number in range(1, count + 1)])


@value
class PoolHost:
    """One host, from the moment it was decided on. `name` is ours; `node` is what its engine calls it, once it does;
    `printed` is the last line that its `add` command wrote, where that could be the name of a host."""

    name: str
    pool: str
    state: State
    node: str = ""
    printed: str = ""
    tries: int = 0  # of the command of its state, that failed
    not_before: Moment = Moment(0)
    since: Moment = Moment(0)
    trouble: str = ""

    def is_called(self, node: str) -> bool:
        """Whether that is what its engine calls it: its own name, or one that begins with it, or what its command printed."""
        return node == self.name or node.startswith((f"{self.name}-", f"{self.name}.")) or (node == self.printed != "")


def of_pool(pool: Pool, hosts: Iterable[PoolHost]) -> list[PoolHost]:
    return [host for host in hosts if host.pool == pool.name]
