"""Queues with their cohorts as a tree: who is owed what, uses what, borrows from whom and lends."""

from collections.abc import Iterable, Sequence
from typing import Any

from markupsafe import Markup

from falaj.base.values import value
from falaj.jobs.operations.queues import ListQueues
from falaj.web.drawing.quotas import share_bar
from falaj.web.jobs.amounts import amount, money, resource_name
from falaj.web.visits import Visit


@value
class Share:
    resource: str
    bar: Markup
    used: str
    owed: str
    borrowed: str
    lent: str


@value
class Branch:
    """A cohort, or a queue where `queue` is there; `depth` is how far down the tree it stands."""

    depth: int
    name: str
    queue: Any = None
    cohort: Any = None
    shares: tuple[Share, ...] = ()
    quotas: tuple[str, ...] = ()


def asked(visit: Visit) -> ListQueues:
    return ListQueues(project=visit.project)


def tree(visit: Visit) -> dict[str, Any]:
    found = visit.loaded["queues"]
    if found is None:
        return {"branches": [], "money": money, "totals": {}}
    return {
        "branches": list(_branches(found)),
        "money": money,
        "totals": {
            "waiting": sum(queue.waiting for queue in found.queues),
            "running": sum(queue.running for queue in found.queues),
            "borrowed": sum(any(share.borrowed for share in queue.shares) for queue in found.queues),
            "lent": sum(any(share.lent for share in queue.shares) for queue in found.queues),
            "oldest": min((queue.oldest for queue in found.queues if queue.oldest is not None), default=None),
        },
    }


def _branches(found: Any) -> Iterable[Branch]:
    """Cohorts from the top, each with its queues and then what is below; queues of no cohort come last."""
    whole = _widest(found.queues)
    known = {cohort.name for cohort in found.cohorts}

    def below(parent: str, depth: int) -> Iterable[Branch]:
        for cohort in found.cohorts:
            if cohort.parent == parent or (not parent and cohort.parent not in known):
                quotas = tuple(f"{amount(one.resource, one.nominal)} {resource_name(one.resource)}" for one in cohort.quotas)
                yield Branch(depth=depth, name=cohort.name, cohort=cohort, quotas=quotas)
                yield from queues(cohort.name, depth + 1)
                yield from below(cohort.name, depth + 1)

    def queues(cohort: str, depth: int) -> Iterable[Branch]:
        for queue in found.queues:
            if queue.spec.cohort == cohort:
                shares = tuple(_share(share, whole) for share in queue.shares)
                yield Branch(depth=depth, name=queue.spec.name, queue=queue, shares=shares)

    yield from below("", 0)
    yield from queues("", 0)


def _widest(queues: Sequence[Any]) -> dict[str, int]:
    """By resource, what the longest bar stands for."""
    widest: dict[str, int] = {}
    for queue in queues:
        for share in queue.shares:
            widest[share.resource] = max(widest.get(share.resource, 0), share.nominal + share.borrowed)
    return widest


def _share(share: Any, whole: dict[str, int]) -> Share:
    bar = share_bar(owed=share.nominal, used=share.used, borrowed=share.borrowed, lent=share.lent, whole=whole[share.resource])
    return Share(
        resource=resource_name(share.resource),
        bar=bar,
        used=amount(share.resource, share.used),
        owed=amount(share.resource, share.nominal),
        borrowed=amount(share.resource, share.borrowed) if share.borrowed else "",
        lent=amount(share.resource, share.lent) if share.lent else "",
    )
