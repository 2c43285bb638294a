"""Logged calls after they were taken in: batches of an hour become few, and what is too old or too much is let go of.

A batch keeps its row wherever its calls lie, so that whoever knows a call by its batch and its place there goes on to find it.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

from falaj.base.caller import Identity
from falaj.base.clock import HOUR, MINUTE, Moment
from falaj.base.errors import Corrupt, FalajError, Forbidden, NotFound
from falaj.base.ids import PrincipalId
from falaj.base.values import value
from falaj.database.work import Context, Database, UnitOfWork
from falaj.governance.gate import project_facts
from falaj.governance.projects.store import Project, project_by_id
from falaj.keys.errors import KeyDestroyed
from falaj.serving.logs import LOG, MEDIA_TYPE, documents_in, encoded
from falaj.serving.store import endpoints as endpoint_store
from falaj.serving.store import logs as store
from falaj.serving.store.tables import Found
from falaj.storage.service import BlobService, Owner, Received

AT_ONCE: Final = 100  # batches that are let go of
BATCHES_AT_ONCE: Final = 500  # that are gone through
LARGEST: Final = 256 * 1024  # bytes; a label reads all that its prediction lies with
_CLOSED_FOR: Final = 5 * MINUTE  # an hour is over for all who write by then
_FOR_GOOD: Final = (NotFound, Corrupt, KeyDestroyed, Forbidden)


@value
class Together:
    """Batches, and what was sealed of all their calls; `counts` says how many each had."""

    endpoint: Found
    project: Project
    batches: tuple[Found, ...]
    counts: tuple[int, ...]
    received: Received


class LogKeeping:
    """Under a lease. `kept` is how long calls are kept, in microseconds; `most` how many bytes of an endpoint."""

    def __init__(self, database: Database, blobs: BlobService, *, kept: int, most: int) -> None:
        self._database, self._blobs = database, blobs
        self._kept, self._most = kept, most

    def step(self, now: Moment) -> bool:
        """A bounded piece at a time; whether there is more."""
        old = self._database.read(lambda work: store.older_than(work, Moment(now - self._kept), AT_ONCE))
        if old:
            self._database.write(lambda work: self._forget(work, old, now))
        more = len(old) == AT_ONCE
        for endpoint, excess in self._database.read(lambda work: store.larger(work, self._most)):
            more |= self._database.write(partial(self._shrink, endpoint=endpoint, excess=excess, now=now))
        before, settled = Moment((now - _CLOSED_FOR) // HOUR * HOUR), 0
        for endpoint in self._database.read(lambda work: store.to_settle(work, before)):
            if settled < BATCHES_AT_ONCE:
                settled += self._settle(endpoint, before, now)
        return more or settled >= BATCHES_AT_ONCE

    # Letting go

    def _shrink(self, work: UnitOfWork, *, endpoint: str, excess: int, now: Moment) -> bool:
        """Without its oldest calls; whether it has too many still."""
        oldest = store.oldest_of(work, endpoint, AT_ONCE)
        for batch in {row.holder: row for row in oldest}.values():
            if excess > 0:
                excess -= self._forget(work, [batch], now)
        return excess > 0 and bool(oldest)

    def _forget(self, work: UnitOfWork, batches: Sequence[Found], now: Moment) -> int:
        """With all that lie in the same blobs, which are of the same hour; how many bytes there were."""
        for batch in {row.holder: row for row in batches}.values():
            project = project_by_id(work, batch.project)
            if project is not None:
                self._blobs.release(_inside(work, project, "", now), Owner(kind=LOG, id=batch.holder))
        return store.forget(work, {row.holder for row in batches})

    # Putting together

    def _settle(self, id: str, before: Moment, now: Moment) -> int:
        """1. read; 2. seal together; 3. put in the place of those that it was made of, if they are all there still. How many
        batches were gone through: none where that did not work, so that it holds nobody else up."""
        batches = self._database.read(lambda work: store.not_settled(work, id, before, BATCHES_AT_ONCE))
        endpoint = self._database.read(lambda work: endpoint_store.find_by_id(work, id))
        project = None if endpoint is None else self._database.read(lambda work: project_by_id(work, endpoint.project))
        if endpoint is None or project is None:
            return 0
        try:
            for group in _groups(batches):
                self._put_together(endpoint, project, group, now)
        except FalajError:  # storage or the key ring does not answer, or somebody let go of some at this moment: later
            return 0
        return len(batches)

    def _put_together(self, endpoint: Found, project: Project, group: Sequence[Found], now: Moment) -> None:
        """What cannot be opened any more stays as it is."""
        read = {batch.id: self._documents(endpoint, project, batch, now) for batch in group} if len(group) > 1 else {}
        opened = [batch for batch in group if read.get(batch.id)]
        if len(opened) > 1:
            documents = [one for batch in opened for one in read[batch.id] or ()]
            together = Together(
                endpoint=endpoint,
                project=project,
                batches=tuple(opened),
                counts=tuple(len(read[batch.id] or ()) for batch in opened),
                received=self._blobs.receive(project_facts(project), endpoint.zone, iter((encoded(documents),))),
            )
            self._database.write(lambda work: self._enter(work, together, now))
        alone = [batch.id for batch in group if len(opened) < 2 or batch not in opened]
        if alone:
            self._database.write(lambda work: store.settle(work, alone))

    def _documents(self, endpoint: Found, project: Project, batch: Found, now: Moment) -> list[Any] | None:
        try:
            reader = self._database.read(lambda work: self._blobs.open(_inside(work, project, endpoint.zone, now), batch.blob))
            return documents_in(b"".join(reader.read()))
        except _FOR_GOOD:
            return None

    def _enter(self, work: UnitOfWork, one: Together, now: Moment) -> None:
        """What was shredded or let go of meanwhile does not come back: then nothing of this is done. Each blob is held until
        the end, so that it is not shredded at this moment either."""
        context, holder, first = _inside(work, one.project, one.endpoint.zone, now), one.batches[0].id, 0
        for batch in sorted(one.batches, key=lambda batch: str(batch.blob)):
            owner = Owner(kind=LOG, id=batch.holder)
            self._blobs.refer(context, batch.blob, owner)
            self._blobs.release(context, owner)
        blob = self._blobs.keep(context, one.received, Owner(kind=LOG, id=holder), media_type=MEDIA_TYPE)
        for batch, count in zip(one.batches, one.counts, strict=True):
            if not store.move(work, batch.id, blob=blob.id, holder=holder, first=first):
                raise NotFound("Some of these calls were let go of at this moment.")
            first += count


def _groups(batches: Sequence[Found]) -> Iterator[list[Found]]:
    """Those of one hour, as many as one blob takes. The last of as many as were asked for may be cut short."""
    group: list[Found] = []
    for batch in batches:
        if group and (batch.at // HOUR != group[0].at // HOUR or sum(one.size for one in group) + batch.size > LARGEST):
            yield group
            group = []
        group.append(batch)
    if group:
        yield group


def _inside(work: UnitOfWork, project: Project, zone: str, now: Moment) -> Context:
    """Of what the platform does by itself."""
    identity = Identity(principal=PrincipalId(""), kind="process", name="logs", token=None, zone=zone)
    return Context(work=work, identity=identity, project=project_facts(project), now=now, request_id="", facts={})
