"""What each queue is owed, may borrow and lends: the arithmetic of a tree of cohorts.

The rules are those of Kueue's hierarchical cohorts. A branch (queue or cohort) keeps back what it does not lend; what is used
beyond that counts in its parent. Fairness and preemption read these numbers; nothing here knows of jobs.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from falaj.base.errors import Invalid
from falaj.jobs.scheduler.values import Cohort, Queue, Quota

ABSURD: Final = 1 << 60  # more than any platform has of anything; larger numbers are mistakes
MODEL_PREFIX: Final = "gpu:"

Charge = tuple[tuple[int, int], ...]  # (index of a resource in its tree, amount)


class Branch:
    """A queue or a cohort in its tree. Lists are by the tree's index of resources."""

    __slots__ = (
        "average",
        "borrow",
        "children",
        "guaranteed",
        "name",
        "nominal",
        "parent",
        "path",
        "quotas",
        "rate",
        "subtree",
        "tree",
        "used",
        "weight",
        "whole",
    )

    def __init__(self, name: str, quotas: Mapping[str, Quota], weight: int) -> None:
        self.name, self.quotas, self.weight = name, quotas, weight
        self.parent: Branch | None = None
        self.children: list[Branch] = []
        self.path: tuple[Branch, ...] = ()  # from the root to this
        self.tree: Tree
        self.nominal: list[int] = []
        self.subtree: list[int] = []  # nominal, and what its children lend it
        self.whole: list[int] = []  # nominal of all below, lent or not
        self.guaranteed: list[int] = []
        self.borrow: list[int | None] = []
        self.used: list[int] = []
        self.rate: list[int] = []  # what all below use now, kept back or not
        self.average: list[float] = []  # of past use, as `fairness.Decay` keeps it


class Tree:
    """A root with all below it. `resources` are those that any of its quotas names; nothing else is limited in it."""

    def __init__(self, root: Branch) -> None:
        self.root = root
        self.branches = tuple(_below(root))
        names = sorted({name for branch in self.branches for name in branch.quotas})
        self.resources: dict[str, int] = {name: index for index, name in enumerate(names)}
        self.names: tuple[str, ...] = tuple(names)
        self.models: dict[str, int] = {
            name.removeprefix(MODEL_PREFIX): index for name, index in self.resources.items() if name.startswith(MODEL_PREFIX)
        }
        self.asked = False  # whether it is known when those who are owed may ask of the next that borrows
        for branch in self.branches:
            branch.tree = self
            branch.path = (*(branch.parent.path if branch.parent else ()), branch)
        for branch in reversed(self.branches):
            _sum_up(branch, self.names)


def _below(root: Branch) -> list[Branch]:
    found, place = [root], 0
    while place < len(found):
        found.extend(found[place].children)
        place += 1
    return found


def _sum_up(branch: Branch, names: tuple[str, ...]) -> None:
    """Children were summed up before. What is kept back is what neither lends."""
    given = [branch.quotas.get(name) for name in names]
    branch.nominal = [quota.nominal if quota else 0 for quota in given]
    branch.borrow = [quota.borrow if quota else None for quota in given]
    branch.subtree = list(branch.nominal)
    branch.whole = list(branch.nominal)
    for child in branch.children:
        for index in range(len(names)):
            branch.subtree[index] += child.subtree[index] - child.guaranteed[index]
            branch.whole[index] += child.whole[index]
    branch.guaranteed = [
        0 if quota is None or quota.lend is None else max(0, owed - quota.lend)
        for quota, owed in zip(given, branch.subtree, strict=True)
    ]
    branch.used = [0] * len(names)
    branch.rate = [0] * len(names)
    branch.average = [0.0] * len(names)


def plant(queues: Iterable[Queue], cohorts: Iterable[Cohort]) -> dict[str, Branch]:
    """Every queue's branch, in new trees. Raises `Invalid` for a cycle, an unknown cohort, a name twice, absurd numbers."""
    given = list(cohorts)
    of_cohort = _branches("cohort", given)
    _check_cycles({cohort.name: cohort.parent for cohort in given})
    for cohort in given:
        if cohort.parent:
            _graft(of_cohort[cohort.name], of_cohort[cohort.parent])
    wanted = list(queues)
    of_queue = _branches("queue", wanted)
    for queue in wanted:
        if queue.cohort and queue.cohort not in of_cohort:
            raise Invalid(
                f"queue {queue.name!r} names cohort {queue.cohort!r}, which does not exist: create it, or leave it out"
            )
        if queue.cohort:
            _graft(of_queue[queue.name], of_cohort[queue.cohort])
    for branch in (*of_cohort.values(), *of_queue.values()):
        if branch.parent is None:
            Tree(branch)
    return of_queue


def _branches(kind: str, given: Sequence[Queue] | Sequence[Cohort]) -> dict[str, Branch]:
    branches: dict[str, Branch] = {}
    for one in given:
        if one.name in branches:
            raise Invalid(f"{kind} {one.name!r} is given twice: name each one once")
        _check_numbers(kind, one.name, one.quotas, one.weight)
        branches[one.name] = Branch(one.name, one.quotas, one.weight)
    return branches


def _graft(child: Branch, parent: Branch) -> None:
    child.parent = parent
    parent.children.append(child)


def _check_cycles(parents: Mapping[str, str]) -> None:
    sound: set[str] = set()
    for start in parents:
        walked: list[str] = []
        name = start
        while name and name not in sound:
            if name in walked:
                cycle = " -> ".join([*walked[walked.index(name) :], name])
                raise Invalid(f"cohorts form a cycle: {cycle}. Leave one of them without a parent")
            if name not in parents:
                raise Invalid(
                    f"cohort {walked[-1]!r} names parent {name!r}, which does not exist: create it first, or leave it out"
                )
            walked.append(name)
            name = parents[name]
        sound.update(walked)


def _check_numbers(kind: str, name: str, quotas: Mapping[str, Quota], weight: int) -> None:
    if not 0 <= weight < ABSURD:
        raise Invalid(f"{kind} {name!r} has weight {weight}: expected 0 (borrows last) or more; 1000 is usual")
    for resource, quota in quotas.items():
        for word, amount in (("nominal", quota.nominal), ("borrow", quota.borrow), ("lend", quota.lend)):
            if amount is not None and not 0 <= amount < ABSURD:
                raise Invalid(f"{kind} {name!r} has {word} {amount} of {resource}: expected 0 to {ABSURD - 1}")


def available(branch: Branch, index: int) -> int:
    """How much more a branch may use now. What it keeps back is there even where the rest of the tree is over its quota."""
    room = ABSURD
    for place in branch.path:
        used, kept = place.used[index], place.guaranteed[index]
        if place.parent is None:
            room = max(0, place.subtree[index] - used)
            continue
        limit = place.borrow[index]
        if limit is not None:
            room = max(0, min(room, place.subtree[index] - max(used, kept) + limit))
        if kept > used:
            room += kept - used
    return room


def ceiling(branch: Branch, index: int) -> int:
    """The most a branch could ever use, were everybody else idle."""
    most = 0
    for place in branch.path:
        if place.parent is None:
            most = place.subtree[index]
            continue
        limit = place.borrow[index]
        if limit is not None:
            most = min(most, place.subtree[index] - place.guaranteed[index] + limit)
        most += place.guaranteed[index]
    return most


def charge(branch: Branch, amounts: Charge) -> None:
    for index, amount in amounts:
        place: Branch | None = branch
        while place is not None and amount > 0:
            kept = max(0, place.guaranteed[index] - place.used[index])
            place.used[index] += amount
            amount -= kept
            place = place.parent


def discharge(branch: Branch, amounts: Charge) -> None:
    for index, amount in amounts:
        place: Branch | None = branch
        while place is not None and amount > 0:
            above = max(0, place.used[index] - place.guaranteed[index])
            place.used[index] -= amount
            amount = min(amount, above)
            place = place.parent


def borrows(branch: Branch, amounts: Charge) -> bool:
    """Whether a queue that took this too would use more than it is owed of any of it."""
    return any(branch.used[index] + amount > branch.subtree[index] for index, amount in amounts)


def share_of(branch: Branch, index: int) -> tuple[int, int, int, int]:
    """Nominal, used, borrowed and lent. What others borrow comes from all that lend, in proportion to what each leaves idle."""
    queues = [place for place in branch.tree.branches if not place.children]
    idle = {
        id(place): min(max(0, place.nominal[index] - place.used[index]), place.subtree[index] - place.guaranteed[index])
        for place in queues
    }
    borrowed = sum([max(0, place.used[index] - place.nominal[index]) for place in queues])
    to_lend = sum(idle.values())
    lent = idle[id(branch)] * min(borrowed, to_lend) // to_lend if to_lend else 0
    nominal, used = branch.nominal[index], branch.used[index]
    return nominal, used, max(0, used - nominal), lent
