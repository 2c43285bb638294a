"""Which hosts would take a job that waits were they not drained, and what people are told of it."""

from dataclasses import replace
from typing import Final

from falaj.database.work import Database, UnitOfWork
from falaj.jobs.scheduler.facts import Facts
from falaj.jobs.scheduler.obstacles import alike, obstacle
from falaj.jobs.scheduler.room import Room
from falaj.jobs.scheduler.values import Job, Node
from falaj.jobs.scheduler.wording import listed
from falaj.jobs.store import engines, nodes

_NAMED: Final = 3  # hosts that are shown


class Drains:
    """Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def for_want_of_room(self, facts: Facts, job: Job) -> str:
        """Of hosts that have room for a task of it now; empty where there are none."""
        closed = self._drained(facts, job)
        room = Room([replace(node, open=True) for node in closed])
        there = {node.name for node in closed}
        for running in facts.running if closed else ():
            room.take(running.job, tuple(seat for seat in running.placement if seat.node in there))
        found: list[str] = []
        while len(found) <= _NAMED and (seats := room.find(job, 1, avoiding=found)):
            found.append(seats[0].node)
        what = "it" if (job.least or job.count) == 1 else "tasks of it"
        return _told(f"has room for {what} but is drained", f"have room for {what} but are drained", sorted(found))

    def for_all_else(self, facts: Facts, job: Job) -> str:
        """Where no host is open on which it could run, whatever else it lacks; empty where there is one."""
        if any(node.open and _suits(node, job) for node in facts.nodes):
            return ""
        fit = [node.name for node in self._drained(facts, job) if _suits(node, job)]
        return _told("is drained, and it could run nowhere else", "are drained, and it could run nowhere else", sorted(fit))

    def _drained(self, facts: Facts, job: Job) -> list[Node]:
        """Of its zones. Those that are closed because their engines do not answer are told of elsewhere."""
        closed = [node for node in facts.nodes if not node.open and node.zone in job.zones]
        drained = self._database.read(_names) if closed else frozenset()
        return [node for node in closed if node.name in drained]


def starts_as_others_end(facts: Facts, job: Job) -> bool:
    """Whether anything runs where it might run too."""
    hosts = {node.name for node in facts.nodes if node.open and node.zone in job.zones}
    return any(seat.node in hosts for running in facts.running for seat in running.placement)


def _names(work: UnitOfWork) -> frozenset[str]:
    silent = engines.silent(work)
    return frozenset(row.name for row in nodes.every(work) if row.draining and row.engine not in silent)


def _suits(node: Node, job: Job) -> bool:
    """Whether it could take a task were it idle."""
    return not obstacle(replace(job, topology="any"), 1, alike([node]))


def _told(one: str, many: str, hosts: list[str]) -> str:
    if not hosts:
        return ""
    if len(hosts) == 1:
        return f"Host {hosts[0]} {one}: an operator resumes it with `falaj node resume {hosts[0]}`."
    shown = hosts if len(hosts) <= _NAMED else [*hosts[:_NAMED], "others"]
    return f"Hosts {listed(shown, 'and')} {many}: an operator resumes each with `falaj node resume NAME`."
