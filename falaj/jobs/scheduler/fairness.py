"""Who had less than its share: weighted dominant-resource shares of what is borrowed, and use that is forgotten by halves.

Past use is kept inflated by the age of the memory instead of being decayed at every look: `average` grows by `rate x inflation`
when use ends and falls by it when use begins, so one number per account is true at every moment.
"""

import math
from typing import Final

from falaj.jobs.scheduler.quotas import Branch

REBASE: Final = 256.0  # half-lives after which inflated numbers are brought down again
EPSILON: Final = 1e-9
MOST_LEVELS: Final = 64


class Decay:
    """The inflation of memory: doubles with every half-life since `since`."""

    def __init__(self, half_life: int) -> None:
        self.half_life = max(1, half_life)
        self.since: int | None = None

    def at(self, moment: int) -> float:
        if self.since is None:
            self.since = moment
        return math.pow(2.0, max(-REBASE, min(REBASE * 2, (moment - self.since) / self.half_life)))

    def stale(self, moment: int) -> bool:
        return self.since is not None and (moment - self.since) / self.half_life > REBASE

    def rebased(self, moment: int) -> float:
        """Begins anew at a moment; what was kept is to be divided by this."""
        inflation = self.at(moment)
        self.since = moment
        return inflation

    def per_average(self, amount_microseconds: float) -> float:
        """Use (amount x time) as the average over the memory that it amounts to."""
        return amount_microseconds * math.log(2) / self.half_life


def share(branch: Branch, inflation: float) -> float:
    """How much of what its parent has to share a branch borrows, now and on average of the past, by its weight."""
    if branch.parent is None:
        return 0.0
    most = 0.0
    for index, to_share in enumerate(branch.parent.subtree):
        owed = branch.subtree[index]
        now = branch.used[index] - owed
        past = branch.average[index] / inflation + branch.rate[index] - branch.whole[index]
        borrowed = (now if now > 0 else 0) + (past if past > 0 else 0)
        if borrowed > EPSILON:
            most = max(most, borrowed / max(1, to_share))
    return most * 1000 / branch.weight if branch.weight else (math.inf if most else 0.0)


def shares(branch: Branch, inflation: float) -> tuple[float, ...]:
    """From the root's child down to the queue: two queues are compared where their ways part."""
    return tuple([share(place, inflation) for place in branch.path[1:]])


class Account:
    """What one project, or one user of it, has used of a queue. `rate` is what it uses now, in cards."""

    __slots__ = ("average", "rate", "users", "waiting")

    def __init__(self) -> None:
        self.average = 0.0
        self.rate = 0.0
        self.waiting = 0
        self.users: dict[str, Account] = {}

    def began(self, rate: float, inflation: float) -> None:
        self.rate += rate
        self.average -= rate * inflation

    def stopped(self, rate: float, inflation: float) -> None:
        self.rate -= rate
        self.average += rate * inflation

    def use(self, inflation: float) -> float:
        return max(0.0, self.average / inflation + self.rate)


def levels(accounts: dict[str, Account], inflation: float) -> dict[str, int]:
    """By account: how often its use doubles an equal share among those that wait. Small differences are none."""
    uses = {name: account.use(inflation) for name, account in accounts.items() if account.waiting}
    equal = sum(uses.values()) / len(uses) if uses else 0.0
    if len(uses) < 2 or equal <= EPSILON:
        return dict.fromkeys(uses, 0)
    return {name: _doublings(use / equal) for name, use in uses.items()}


def _doublings(times: float) -> int:
    if times <= 1 + EPSILON:
        return 0
    return min(MOST_LEVELS, math.ceil(math.log2(times) - EPSILON))
