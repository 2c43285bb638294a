"""Everything that one turn of the controller writes, gathered first and written in one transaction, many rows at a time."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from falaj.base.clock import Moment
from falaj.base.encoding import canonical
from falaj.base.values import Nothing
from falaj.database.work import UnitOfWork
from falaj.governance.ledger import recording
from falaj.jobs.operations.scheduling import TURN
from falaj.jobs.store import attempts, controllers, engines, events, jobs, metering, news, nodes, queues, tokens

Rows = list[dict[str, Any]]


class Runs(Protocol):
    """The runs that jobs write to; `tracking` has them."""

    def finish(self, work: UnitOfWork, project: str, run: str, state: str, ended: Moment) -> None:
        """Its job is over: done, failed or cancelled. Nothing happens where the run is over, too, or not there any more."""
        ...


class Superseded(Exception):
    """Another controller took over: what this one knows may be wrong, and none of it was written."""


class Turn:
    """Belongs to one thread. The leaf says what was done by a digest of it; the rows say the rest, and are kept."""

    def __init__(self, now: Moment) -> None:
        self.now = now
        self.heard: list[str] = []
        self.planned: Rows = []
        self.job_plans: Rows = []
        self.started: Rows = []
        self.job_runs: Rows = []
        self.stops: Rows = []
        self.job_stops: Rows = []
        self.ends: Rows = []
        self.again: Rows = []
        self.over: Rows = []
        self.runs_over: Rows = []
        self.events: Rows = []
        self.metering: Rows = []
        self.minted: Rows = []
        self.revoked: list[str] = []
        self.nodes: Rows = []
        self.lost_nodes: list[str] = []
        self.engines: Rows = []
        self.samples: Rows = []
        self.used: Rows = []
        self.odd: Rows = []
        self.cards: Rows = []
        self.owners: Rows = []
        self.utilisation: Rows = []
        self.past_use: Rows = []

    def tell(self, job: str, project: str, kind: str, words: str, attempt: int = 0) -> None:
        self.events.append(events.event(job, project, self.now, kind, words, attempt))

    @property
    def is_empty(self) -> bool:
        return not any(rows for rows, _ in self._writes())

    def write(self, work: UnitOfWork, epoch: int) -> None:
        """Raises `Superseded`, and then nothing of it is there."""
        if not controllers.count(work, epoch):
            raise Superseded
        for rows, write in self._writes():
            if rows:
                write(work, rows)
        if self.planned or self.stops or self.ends or self.over:
            self._record(work, epoch)

    def _writes(self) -> Sequence[tuple[Sequence[Any], Callable[[UnitOfWork, Any], None]]]:
        now = self.now
        return (
            (self.heard, news.remove),
            (self.nodes, nodes.put),
            (self.lost_nodes, lambda work, names: nodes.lose(work, names, now)),
            (self.engines, engines.note),
            (self.started, attempts.start),
            (self.job_runs, jobs.run),
            (self.used, attempts.use),
            (self.odd, attempts.flag),
            (self.ends, attempts.end),
            (self.again, jobs.wait_again),
            (self.over, jobs.end),
            # After what ended: a job that goes on with other seats gets its next attempt in the same turn.
            (self.planned, attempts.add),
            (self.job_plans, jobs.plan),
            (self.stops, attempts.stop),
            (self.job_stops, jobs.stop),
            (self.events, events.add),
            (self.metering, metering.add),
            (self.minted, lambda work, rows: tokens.add(work, rows, now)),
            (self.revoked, lambda work, ids: tokens.revoke(work, ids, now)),
            (self.samples, metering.add_samples),
            (self.utilisation, metering.add_utilisation),
            (self.cards, metering.add_card_utilisation),
            (self.owners, metering.add_owner_utilisation),
            (self.past_use, queues.remember),
        )

    def _record(self, work: UnitOfWork, epoch: int) -> None:
        done: Mapping[str, list[list[Any]]] = {
            "started": [[row["job"], row["id"], row["seats"], row["token"]] for row in self.planned],
            "stopped": [[row["attempt"], row["stop_for"], row["stop_by"]] for row in self.stops],
            "ended": [[row["attempt"], row["cause"], row["code"]] for row in self.ends],
            "over": [[row["job"], row["new_state"], row["new_cause"]] for row in self.over],
        }
        facts: dict[str, Any] = {name: len(rows) for name, rows in done.items()}
        facts |= {"controller": epoch, "digest": hashlib.sha256(canonical(done)).hexdigest()}
        recording.append(
            work,
            operation=TURN,
            request=Nothing(),
            identity=None,
            project="",
            now=self.now,
            request_id="",
            facts=facts,
        )
