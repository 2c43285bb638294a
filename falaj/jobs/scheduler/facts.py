"""Everything a scheduler must know to go on from a moment: what another one, built from it, would decide the same on.

And what is known of the recent past, from which the future is guessed: nothing here depends on it but forecasts.
"""

from collections.abc import Mapping
from dataclasses import replace

from falaj.base.clock import Moment
from falaj.base.values import value
from falaj.jobs.scheduler.scheduler import Scheduler
from falaj.jobs.scheduler.values import Cohort, Job, Node, Queue, Rules, Running


@value
class Past:
    """What was used before, in resource-microseconds, decayed to `at`: of a queue, by one user of one project."""

    queue: str
    used: Mapping[str, int]
    at: Moment
    project: str = ""
    user: str = ""


@value
class Took:
    """How long one that is over took, and how long it was expected to when it came; 0 where nobody knew."""

    queue: str
    cards: int
    expected: int
    took: int


@value
class Recent:
    """What happened of late. `came` are jobs as they were submitted, oldest first, since `since`; `took` are the last ones that
    ended, oldest first. `kin` says of a job, by its id, which others it is like; `learned` how long the last of those took.
    """

    since: Moment = Moment(0)
    came: tuple[Job, ...] = ()
    took: tuple[Took, ...] = ()
    kin: Mapping[str, str]
    learned: Mapping[str, tuple[int, ...]]


UNKNOWN = Recent(kin={}, learned={})


@value
class Facts:
    nodes: tuple[Node, ...] = ()
    queues: tuple[Queue, ...] = ()
    cohorts: tuple[Cohort, ...] = ()
    past: tuple[Past, ...] = ()
    waiting: tuple[Job, ...] = ()
    running: tuple[Running, ...] = ()
    recent: Recent = UNKNOWN

    def scheduler(self, rules: Rules) -> Scheduler:
        made = Scheduler(rules, nodes=self.nodes, queues=self.queues, cohorts=self.cohorts)
        for past in self.past:
            made.remember(past.queue, dict(past.used), past.at, project=past.project, user=past.user)
        for running in self.running:
            made.running(running)
        for job in self.waiting:
            made.submitted(job)
        return made

    def heads(self, most: int, keep: str = "") -> "Facts":
        """The same with only the first `most` of jobs that are alike, where that is fewer: what is decided now is decided on
        those. `keep` stays, wherever it stands."""
        seen: dict[object, int] = {}
        kept = []
        for job in sorted(self.waiting, key=lambda one: (-one.priority, one.submitted, one.id)):
            alike = (job.queue, job.project, job.user, job.shape, job.count, job.least, job.zones, job.label)
            seen[alike] = seen.get(alike, 0) + 1
            if seen[alike] <= most or job.id == keep:
                kept.append(job)
        return replace(self, waiting=tuple(sorted(kept, key=lambda one: (one.submitted, one.id))))
