"""What a line's next job may take of its queue's quota, and whether that would be borrowed or is owed."""

from falaj.jobs.scheduler.lines import Line
from falaj.jobs.scheduler.quotas import available


def borrows_for(line: Line) -> bool:
    """Whether a line's next job would have its queue use more than it is owed."""
    branch, tasks = line.lineup.branch, line.kind.least
    if branch is None or branch.parent is None:
        return False
    return any(branch.used[index] + amount * tasks > branch.subtree[index] for index, amount in line.demand)


def may_be_owed(line: Line) -> bool:
    """Whether a line's next job stays within its queue's own share while others of the tree borrow."""
    branch = line.lineup.branch
    if branch is None or branch.parent is None or borrows_for(line):
        return False
    others = [place for place in branch.tree.branches if place.parent is not None and place is not branch]
    return any(place.used[index] > place.subtree[index] for place in others for index, _ in line.demand)


def allowance(line: Line, index: int) -> int:
    """What a line's jobs may take of a resource now. What cannot be taken back is not lent."""
    branch = line.lineup.branch
    assert branch is not None  # nosec B101 - said for the types alone
    left = available(branch, index)
    return left if line.preemptible else min(left, branch.subtree[index] - branch.used[index])
