"""Logs of attempts that ended: put away as sealed blobs of their projects, in the zones the jobs ran in, before engines forget
them. Apart from the controller, so that a slow storage keeps nothing from being started."""

import logging
from collections.abc import Iterator, Mapping
from typing import Final

from falaj.base.clock import DAY, Clock, Moment
from falaj.base.errors import FalajError, NotFound, TemporaryError
from falaj.base.failpoints import failpoint
from falaj.base.values import Nothing, value
from falaj.database.work import Context, Database, UnitOfWork
from falaj.governance.gate import ANONYMOUS, project_facts
from falaj.governance.ledger import recording
from falaj.governance.projects.store import Project, project_by_id
from falaj.jobs.engines.engine import Engine
from falaj.jobs.operations.scheduling import KEEP_LOG
from falaj.jobs.store import attempts
from falaj.jobs.store.tables import Found
from falaj.storage.service import BlobService, Owner, Received

LOG: Final = "job-log"  # the kind of owner that a log's blob has
AT_ONCE: Final = 500
PART: Final = 1 << 20
TRY_FOR: Final = 7 * DAY  # an engine that does not answer has taken the log with it
log = logging.getLogger(__name__)


@value
class Stored:
    """A log that is stored and sealed, and counts for nothing until it is kept."""

    attempt: Found
    project: Project
    received: Received


class LogKeeper:
    """For one thread, under a lease. Doing all of it again changes nothing."""

    def __init__(
        self, database: Database, blobs: BlobService, engines: Mapping[str, Engine], clock: Clock, *, only: str = ""
    ) -> None:
        """`only` names the engine whose attempts are its to see to; empty for all. Of engines that are not among `engines`
        others keep the logs, or nobody does."""
        self._database = database
        self._blobs = blobs
        self._engines = engines
        self._clock = clock
        self._only = only
        self._after = ""

    def step(self) -> bool:
        """Whether there is more to do at once."""
        found = self._database.read(lambda work: attempts.unlogged(work, self._after, AT_ONCE, self._only))
        # What cannot be read now must not stand in the way of the rest: the walk goes on behind it and starts over at the end.
        self._after = found[-1].id if len(found) == AT_ONCE else ""
        mute, empty = set[str](), list[Found]()
        going = self._going({attempt.engine for attempt in found})
        for attempt in found:
            if attempt.engine in mute or attempt.id in going or self._is_anothers(attempt):
                continue
            try:
                stored = self._store(attempt)
            except TemporaryError as error:
                log.warning("the log of attempt %s cannot be kept now: %s", attempt.id, error)
                mute.add(attempt.engine)
                continue
            if stored is None:
                empty.append(attempt)
            else:
                self._keep(stored)
        if empty:
            self._database.write(lambda work: attempts.keep_logs(work, {attempt.id: "" for attempt in empty}))
            for attempt in empty:
                self._forget(attempt)
        return len(found) == AT_ONCE

    def _going(self, names: set[str]) -> set[str]:
        """Attempts that still run, whatever the records say: late ones, whose last words are still to come."""
        going = set[str]()
        for name in names & self._engines.keys():
            try:
                going |= {seen.attempt for seen in self._engines[name].look() if seen.state != "ended"}
            except TemporaryError:
                continue  # asking it for logs will say so
        return going

    def _is_anothers(self, attempt: Found) -> bool:
        return attempt.engine not in self._engines and not self._is_late(attempt)

    def _is_late(self, attempt: Found) -> bool:
        return bool(self._clock.now() - attempt.ended > TRY_FOR)

    def _store(self, attempt: Found) -> Stored | None:
        """None where it wrote nothing, or what it wrote cannot be had or kept any more."""
        engine, late = self._engines.get(attempt.engine), self._is_late(attempt)
        if engine is None:
            return None
        try:
            first, following = engine.log(attempt.id, 0, PART)
            if not first:
                return None
            project = self._database.read(lambda work: project_by_id(work, attempt.project))
            if project is None:
                return None
            chunks = _rest(engine, attempt.id, first, following)
            received = self._blobs.receive(project_facts(project), attempt.zone, chunks)
        except TemporaryError:
            if late:
                return None
            raise
        except NotFound:
            return None
        except FalajError as error:
            log.warning("the log of attempt %s is not kept: %s", attempt.id, error)
            return None
        failpoint("jobs.log-stored")
        return Stored(attempt=attempt, project=project, received=received)

    def _keep(self, stored: Stored) -> None:
        now = self._clock.now()
        try:
            self._database.write(lambda work: self._kept(work, stored, now))
        except TemporaryError:
            raise
        except FalajError as error:  # its project was shredded, or gave up the zone, since the bytes came in
            log.warning("the log of attempt %s is not kept: %s", stored.attempt.id, error)
            self._database.write(lambda work: attempts.keep_logs(work, {stored.attempt.id: ""}))
        failpoint("jobs.log-kept")
        self._forget(stored.attempt)

    def _kept(self, work: UnitOfWork, stored: Stored, now: Moment) -> None:
        attempt, project = stored.attempt, stored.project
        context = Context(
            work=work, identity=ANONYMOUS, project=project_facts(project), now=now, request_id="", facts={"attempt": attempt.id}
        )
        blob = self._blobs.keep(context, stored.received, Owner(kind=LOG, id=attempt.id), media_type="text/plain")
        attempts.keep_logs(work, {attempt.id: blob.id})
        recording.append(
            work,
            operation=KEEP_LOG,
            request=Nothing(),
            identity=None,
            project=project.id,
            now=now,
            request_id="",
            facts=context.facts,
        )

    def _forget(self, attempt: Found) -> None:
        if (engine := self._engines.get(attempt.engine)) is None:
            return
        try:
            engine.forget(attempt.id)
        except FalajError as error:  # the controller comes back to what an engine still speaks of
            log.warning("the engine %s still has attempt %s: %s", attempt.engine, attempt.id, error)


def _rest(engine: Engine, attempt: str, first: bytes, following: int) -> Iterator[bytes]:
    part = first
    while part:
        yield part
        part, following = engine.log(attempt, following, PART)
