"""Several tasks at once: how many of them go to which host.

On one host where that is asked for or possible, else in one rack, else in one zone, else wherever; spread over hosts where
that is asked for; and never over two engines. Equal tasks need no search: a host's seats for them are simply counted.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from falaj.jobs.scheduler.table import Amounts, Ask, Table
from falaj.jobs.scheduler.values import Job, Seat


def tasks_by_row(table: Table, ask: Ask, job: Job, count: int, closed: list[int]) -> dict[int, int] | None:
    """Tasks by row of the table, in the order in which they are seated; None where there is no room for all."""
    seats = table.seats(ask, job)
    seats[closed] = 0
    np.minimum(seats, count, out=seats)
    if not table.layout.engines:
        return _together(table, ask, job, count, seats)
    parts = (_together(table, ask, job, count, np.where(hosts, seats, 0)) for hosts in table.layout.engines)
    found = [tasks for tasks in parts if tasks is not None]
    return (max if job.topology == "spread" else min)(found, key=len, default=None)


def _together(table: Table, ask: Ask, job: Job, count: int, seats: Amounts) -> dict[int, int] | None:
    if int(seats.sum()) < count:
        return None
    if job.topology == "spread":
        return _spread(seats, table.costs(ask, job), count)
    if (seats >= count).any():
        return {_cheapest(table, ask, job, count, seats): count}
    if job.topology == "host":
        return None
    for rows in _groups(table, job, seats, count):
        return _packed(table, ask, job, count, np.where(rows, seats, 0))
    return None


def spread_over(seats: Sequence[Seat]) -> list[Seat]:
    """One of each host in turn, so that the first few of an elastic job's tasks are apart as well."""
    by_host: dict[str, list[Seat]] = {}
    for seat in seats:
        by_host.setdefault(seat.node, []).append(seat)
    turns = max(len(own) for own in by_host.values())
    return [own[turn] for turn in range(turns) for own in by_host.values() if turn < len(own)]


def _cheapest(table: Table, ask: Ask, job: Job, count: int, seats: Amounts) -> int:
    return int(np.where(seats >= count, table.costs(ask, job, count), np.inf).argmin())


def _spread(seats: Amounts, costs: np.ndarray, count: int) -> dict[int, int]:
    """One task to each host, the cheapest first, and a second to each only when every host has one."""
    tasks: dict[int, int] = {}
    order = [int(row) for row in np.argsort(costs, kind="stable") if seats[row]]
    turn = 1
    while count:
        for row in [row for row in order if seats[row] >= turn][:count]:
            tasks[row] = turn
            count -= 1
        turn += 1
    return tasks


def _groups(table: Table, job: Job, seats: Amounts, count: int) -> Iterator[np.ndarray]:
    """Hosts that together hold a gang: of one rack, of one zone, all. Of several racks the one that it fills the most."""
    numberings = [table.layout.racks] if job.topology == "rack" else [table.layout.racks, table.layout.zones]
    for numbers in numberings:
        named = numbers >= 0
        together = np.bincount(numbers[named], weights=seats[named]) if named.any() else np.zeros(0)
        enough = np.where(together >= count, together, np.inf)
        if len(enough) and enough.min() < np.inf:
            yield numbers == int(enough.argmin())
    if job.topology == "any":
        yield np.ones(len(seats), dtype=bool)


def _packed(table: Table, ask: Ask, job: Job, count: int, seats: Amounts) -> dict[int, int]:
    """As few hosts as can be: those with the most seats, and for the rest of the gang the host where it costs least."""
    tasks: dict[int, int] = {}
    costs = table.costs(ask, job)
    for row in np.lexsort((costs, -seats)):
        if (seats >= count).any():
            tasks[_cheapest(table, ask, job, count, seats)] = count
            return tasks
        tasks[int(row)] = int(seats[row])
        count -= int(seats[row])
        seats[row] = 0
    raise AssertionError("a group was chosen that does not hold its gang")
