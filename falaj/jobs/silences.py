"""What people are told while an engine does not answer."""

from typing import Final

from falaj.base.clock import DAY, Moment
from falaj.database.work import Database, UnitOfWork
from falaj.jobs.scheduler.values import Job
from falaj.jobs.store import engines, nodes

SAID_FOR: Final = DAY  # of one whose hosts are lost: after that it is nobody's news


def silence(engine: str, since: Moment) -> str:
    return f"Its engine {engine} does not answer since {str(since)[:19]}Z."


class Silences:
    """Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def words(self, job: Job, now: Moment) -> str:
        """Which hosts that the job might run on cannot be asked to; empty where all can."""
        told = self._database.read(lambda work: self._told(work, job, now))
        return " ".join(told)

    def _told(self, work: UnitOfWork, job: Job, now: Moment) -> list[str]:
        silent = engines.silent(work)
        if not silent:
            return []
        hosts: dict[str, list[str]] = {}
        for row in nodes.every(work):
            since = silent.get(row.engine)
            if since is not None and row.zone in job.zones and (row.lost is None or now - since < SAID_FOR):
                hosts.setdefault(row.engine, []).append(row.name)
        return [
            f"Nothing starts on {_named(names)} engine {engine} does not answer since {str(silent[engine])[:19]}Z."
            for engine, names in sorted(hosts.items())
        ]


def _named(hosts: list[str]) -> str:
    return f"{hosts[0]}: its" if len(hosts) == 1 else f"{len(hosts)} hosts: their"
