"""The scheduler's memory between two decisions, and the decision itself.

It is told what happened and asked what to do; what it answers it takes as done, so a controller that could not write a plan
throws it away and builds another from the database. The same facts in the same order give the same plans.
"""

from collections.abc import Iterable
from typing import Final

from falaj.base.clock import Moment
from falaj.jobs.scheduler.explaining import why
from falaj.jobs.scheduler.memory import Memory
from falaj.jobs.scheduler.round import Round
from falaj.jobs.scheduler.values import Cohort, Job, Node, Plan, Queue, Rules, Running, Wait

SHIPPED: Final = Rules()


class Scheduler:
    def __init__(
        self,
        rules: Rules = SHIPPED,
        *,
        nodes: Iterable[Node] = (),
        queues: Iterable[Queue] = (),
        cohorts: Iterable[Cohort] = (),
    ) -> None:
        self._memory = Memory(rules)
        for node in nodes:
            self._memory.put_node(node)
        self._memory.put_queues(queues, cohorts)

    def put_node(self, node: Node) -> None:
        self._memory.put_node(node)

    def drop_node(self, name: str) -> None:
        """What ran there must have ended (`ended`) before."""
        self._memory.drop_node(name)

    def put_queues(self, queues: Iterable[Queue], cohorts: Iterable[Cohort]) -> None:
        """All of them as they now are. Raises `Invalid` for a cycle or an unknown cohort. Quotas below what is used stop
        nothing by themselves: they let nothing new start, and others reclaim what they are owed."""
        self._memory.put_queues(queues, cohorts)

    def remember(self, queue: str, used: dict[str, int], at: Moment, *, project: str = "", user: str = "") -> None:
        """Past use of a queue (resource-microseconds, decayed to `at`): what a controller that starts anew has in its records.

        Of attempts that have ended: what runs is counted from its `started`. Told once per project and user where those are
        known, so that fair shares between them are remembered too."""
        self._memory.remember(queue, used, at, project, user)

    def submitted(self, job: Job) -> None:
        self._memory.submitted(job)

    def running(self, running: Running) -> None:
        """One that holds its seats already: at a controller's start."""
        self._memory.hold(running)

    def checkpointed(self, job: str, at: Moment) -> None:
        self._memory.checkpointed(job, at)

    def ended(self, job: str, now: Moment) -> None:
        """Over, cancelled or lost, waiting or running: it holds nothing any more. What is to run again is submitted again."""
        self._memory.ended(job, now)

    def decide(self, now: Moment) -> Plan:
        """1 heads, 2 snapshot, 3 nominate, 4 order, 5 admit, 6 place, 7 preempt, 8 requeue. A job that is to give back (`Stop`)
        holds its seats until `ended`; the controller then submits it again, with what it was served."""
        self._memory.advance(now)
        return Round(self._memory).run()

    def why(self, job: str) -> Wait | None:
        """Why a job waits, as of the last decision; None for one that does not. Counts who is before it, so it takes longer
        than a decision where many wait."""
        return why(self._memory, job)

    def shares(self) -> dict[str, dict[str, tuple[int, int, int, int]]]:
        """By queue and resource: nominal, used, borrowed, lent."""
        return self._memory.shares()

    # What people ask

    def could_ever(self, job: Job) -> str:
        """Empty where idle hosts could take it, else one sentence that says what stands in the way."""
        return self._memory.floor.room.could_ever(job, job.least or job.count)

    def free(self) -> dict[str, int]:
        """By resource, what no job holds on hosts that are open."""
        return self._memory.floor.room.free()

    def available(self, queue: str, resource: str) -> int:
        """How much more of a resource a queue may use now, borrowing included; what its hosts have is another matter."""
        return self._memory.available(queue, resource)

    def fair_share(self, queue: str) -> float:
        """How much of what its cohort shares a queue borrows, now and of late, by its weight."""
        return self._memory.fair_share(queue)
