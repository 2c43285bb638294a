"""Places in the future, which nobody may take who ranks behind."""

from falaj.jobs.scheduler.lines import Holding, Waiting


class Claim:
    """A place in the future: for whom, where, when, and which jobs are to give back until then.

    `forced` ones are being stopped for it; otherwise it waits for those that will be over. Nobody who ranks behind may take it.
    """

    __slots__ = ("asked", "at", "forced", "moved", "nodes", "owed", "tasks", "waiting", "yielding")

    def __init__(
        self, waiting: Waiting, tasks: int, *, at: int, nodes: frozenset[str], yielding: dict[str, Holding], forced: bool
    ) -> None:
        self.waiting, self.tasks, self.at, self.forced = waiting, tasks, at, forced
        self.nodes, self.yielding = nodes, yielding
        self.owed = False  # whether it is for what a queue is owed, when borrowers may be stopped
        self.asked = at  # when they are, where they are not yet
        self.moved: frozenset[str] = frozenset()  # those that only move for it
