"""All queues of a platform as one document: what ships, how it is checked, and how the scheduler reads it."""

from collections.abc import Iterable
from typing import Final

import msgspec

from falaj.base.errors import Invalid
from falaj.base.values import Message, value
from falaj.jobs.operations.queues import CohortSpec, PriorityClass, QueueSpec, Quotas
from falaj.jobs.scheduler.values import Cohort, Queue, Quota

DEFAULT_QUEUE: Final = "default"
NORMAL: Final = "normal"
PRIORITIES: Final = (
    PriorityClass(name="low", value=-100),
    PriorityClass(name=NORMAL, value=0),
    PriorityClass(name="high", value=100),
    PriorityClass(name="urgent", value=1000),
)


@value
class Document(Message):
    """Queues, cohorts and priority classes that hold together."""

    queues: tuple[QueueSpec, ...]
    cohorts: tuple[CohortSpec, ...] = ()
    priorities: tuple[PriorityClass, ...] = PRIORITIES

    def queue(self, name: str) -> QueueSpec | None:
        return next((queue for queue in self.queues if queue.name == name), None)

    def priority(self, name: str) -> PriorityClass:
        """Raises `Invalid` for a class nobody made."""
        found = next((one for one in self.priorities if one.name == name), None)
        if found is None:
            known = ", ".join(one.name for one in self.priorities)
            raise Invalid(f"There is no priority class {name!r}; there are {known}.")
        return found

    def outranks(self, priority: int) -> bool:
        """Whether it goes before what is submitted without saying a priority."""
        return priority > next((one.value for one in self.priorities if one.name == NORMAL), 0)


# A laptop's: one queue for everybody, bounded by the machine alone.
SHIPPED: Final = Document(queues=(QueueSpec(name=DEFAULT_QUEUE),))


def write(document: Document) -> str:
    return msgspec.json.encode(document).decode()


def read(text: str) -> Document:
    return msgspec.json.decode(text, type=Document)


def check(document: Document) -> None:
    """Raises `Invalid` for what does not hold together: doubles, unknown parents, cycles, limits without a meaning."""
    for kind, names in (
        ("queue", [queue.name for queue in document.queues]),
        ("cohort", [cohort.name for cohort in document.cohorts]),
        ("priority class", [one.name for one in document.priorities]),
    ):
        if double := next((name for name in names if names.count(name) > 1), None):
            raise Invalid(f"There are two of the {kind} {double!r}.")
    if not document.priorities:
        raise Invalid("There is no priority class; leave them out to have low, normal, high and urgent.")
    parents = {cohort.name: cohort.parent for cohort in document.cohorts}
    members = [(f"Cohort {one.name!r}", one.parent) for one in document.cohorts]
    members += [(f"Queue {one.name!r}", one.cohort) for one in document.queues]
    for what, parent in members:
        if parent and parent not in parents:
            raise Invalid(f"{what} belongs to the cohort {parent!r}, which is not there.")
    for cohort in document.cohorts:
        _check_above(cohort.name, parents)
        _check_quotas(f"Cohort {cohort.name!r}", cohort.quotas, lends=bool(cohort.parent))
    for queue in document.queues:
        _check_quotas(f"Queue {queue.name!r}", queue.quotas, lends=bool(queue.cohort))


def _check_above(name: str, parents: dict[str, str]) -> None:
    seen = [name]
    while above := parents[seen[-1]]:
        if above in seen:
            raise Invalid(f"These cohorts are each other's parents: {' > '.join([*seen, above])}.")
        seen.append(above)


def _check_quotas(what: str, quotas: Quotas, *, lends: bool) -> None:
    names = [quota.resource for quota in quotas]
    if double := next((name for name in names if names.count(name) > 1), None):
        raise Invalid(f"{what} has two quotas of {double!r}.")
    for quota in quotas:
        if not lends and (quota.borrow is not None or quota.lend is not None):
            raise Invalid(f"{what} belongs to no cohort, so it neither borrows nor lends {quota.resource!r}.")


def _quotas(given: Quotas) -> dict[str, Quota]:
    return {one.resource: Quota(nominal=one.nominal, borrow=one.borrow, lend=one.lend) for one in given}


def scheduled(document: Document, spent: dict[str, int]) -> tuple[Iterable[Queue], Iterable[Cohort]]:
    """As the scheduler reads it. `spent` is what each queue has cost in the last 30 days."""
    queues = [
        Queue(
            name=one.name,
            cohort=one.cohort,
            quotas=_quotas(one.quotas),
            weight=one.weight,
            order=one.order,
            preempt=one.preempt,
            reclaim=one.reclaim,
            open=one.open,
            budget=one.monthly_budget,
            spent=spent.get(one.name, 0),
        )
        for one in document.queues
    ]
    cohorts = [
        Cohort(name=one.name, parent=one.parent, quotas=_quotas(one.quotas), weight=one.weight) for one in document.cohorts
    ]
    return queues, cohorts
