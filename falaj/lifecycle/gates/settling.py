"""The end of a run: what was found becomes evidence, with its leaf, and the run is over; in one transaction, and once.

A job that is over without having told anything has failed its gate, however it ended: killed, called off, lost, or in silence.
"""

import logging
from collections.abc import Mapping
from typing import Final

from falaj.base.caller import Identity
from falaj.base.clock import MINUTE, Moment
from falaj.base.errors import Conflict, TemporaryError
from falaj.base.failpoints import failpoint
from falaj.base.ids import PrincipalId
from falaj.database.work import Context, Database, UnitOfWork
from falaj.governance.gate import project_facts
from falaj.governance.projects.store import project_by_id
from falaj.jobs.store import jobs as job_store
from falaj.lifecycle.gates import store
from falaj.lifecycle.gates.planning import OWNER, pinned_of
from falaj.lifecycle.gates.store import Found
from falaj.lifecycle.gates.values import Finding, failed
from falaj.lifecycle.operations.gates import COMMANDS
from falaj.registry.evidence import Judgement, put_down
from falaj.registry.store import versions as version_store
from falaj.storage.service import BlobService, Owner

AT_ONCE: Final = 50
_ASIDE: Final = MINUTE  # for which a run waits that cannot be settled
_LATER: Final = (TemporaryError, Conflict)  # somebody else came between
_GONE: Final = "The version was deleted before the gate was over."
_ODD: Final = "The platform could not judge how it ended, and its log says why: run it again."
log = logging.getLogger(__name__)


class Settler:
    """Thread-safe. Two who settle one run do it once."""

    def __init__(self, database: Database, blobs: BlobService) -> None:
        self._database, self._blobs = database, blobs
        self._aside: dict[str, Moment] = {}  # until when

    def settle(
        self,
        context: Context,
        row: Found,
        finding: Finding,
        identity: Identity | None,
        found_on: Mapping[str, object] | None = None,
    ) -> None:
        """Of a run that is held and not over. `identity` is whoever told it; the platform itself saw the end of a job. It was
        found on what the run is about, where nothing else is given."""
        version = version_store.find_by_id(context.work, row.project, row.version)
        if version is None:
            state, words, evidence = store.VOID, _GONE, ""
        else:
            state, words = (store.PASSED if finding.passed else store.FAILED), finding.words
            judgement = Judgement(
                gate=row.gate,
                definition=row.digest,
                passed=finding.passed,
                words=finding.words,
                document={"kind": row.kind, **(_pinned(row) if found_on is None else found_on), **finding.document},
                job=row.job,
                by=row.created_by,
                against_alias=row.against_alias,
                against=row.against,
            )
            project = context.required_project.name
            evidence = put_down(
                context.work, project=project, version=version, judgement=judgement, identity=identity, now=context.now
            )
        store.end(context.work, row.id, state=state, words=words[:2000], evidence=evidence, now=context.now)
        if row.held:
            self._blobs.release(context, Owner(kind=OWNER, id=row.id))
        failpoint("gates.settled")

    def step(self, now: Moment) -> bool:
        """Whether there may be more to do at once."""
        self._aside = {id: until for id, until in self._aside.items() if now < until}
        over = self._database.read(lambda work: store.over(work, self._aside, AT_ONCE))
        for row in over:
            self._end(row, now)
        return len(over) == AT_ONCE

    def _end(self, row: Found, now: Moment) -> None:
        """What is odd about one does not hold up those of other projects, and has not passed."""
        self._aside[row.id] = Moment(now + _ASIDE)
        try:
            self._settled(row, now)
        except _LATER as error:
            log.warning("gate run %s waits: %s", row.id, error)
        except Exception:
            log.exception("gate run %s cannot be settled, and waits", row.id)
        else:
            del self._aside[row.id]

    def _settled(self, row: Found, now: Moment) -> None:
        try:
            self._database.write(lambda work: self._ended(work, row, now))
        except _LATER:
            raise
        except Exception:
            log.exception("gate run %s cannot be judged, and has failed", row.id)
            self._database.write(lambda work: self._ended(work, row, now, is_odd=True))

    def _ended(self, work: UnitOfWork, row: Found, now: Moment, *, is_odd: bool = False) -> None:
        held, project = store.find(work, row.project, row.id, hold=True), project_by_id(work, row.project)
        if held is None or held.state != store.RUNNING or project is None:
            return
        identity = Identity(principal=PrincipalId(""), kind="process", name="gates", token=None, zone="")
        context = Context(work=work, identity=identity, project=project_facts(project), now=now, request_id="", facts={})
        job = job_store.find(work, held.project, held.job)
        if job is None or job.ended is None:
            return
        if is_odd:
            self.settle(context, held, failed(_ODD), None, found_on={})
        else:
            self.settle(context, held, _of_command(held, job) if held.kind in COMMANDS else _silent(job), None)


def _of_command(row: Found, job: Found) -> Finding:
    """As its engine saw it end."""
    ended = {"state": job.state, "code": job.code, "cause": job.cause}
    if job.state == "done" and not job.code:
        source = pinned_of(row).get("source", "")
        return Finding(passed=True, words=f"It ended well, on the source {source[:12] or 'that has no files'}.", document=ended)
    return failed(f"It did not end well: {job.words or job.state} `falaj job logs {job.id}` shows what it said.", **ended)


def _silent(job: Found) -> Finding:
    told = job.words or f"it is {job.state}."
    return failed(f"Its job ended without a result: {told} `falaj job logs {job.id}` shows what it said.")


def _pinned(row: Found) -> dict[str, object]:
    """What it was found on, as far as it is worth keeping."""
    pinned = pinned_of(row)
    kept = {name: pinned[name] for name in ("on", "training", "source", "source_from", "command", "jobs") if pinned.get(name)}
    named = {name: pinned[name] for name in ("candidate", "incumbent") if pinned.get(name)}
    forms = {name: {file["name"]: file["digest"] for file in one["files"]} for name, one in named.items()}
    return kept | ({"files": forms} if forms else {})
