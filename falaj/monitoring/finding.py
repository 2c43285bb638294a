"""Where logged predictions lie, so that labels find theirs: by digests of their ids and entities, made when labels ask.

Calls are logged in sealed batches. For an endpoint that gets labels, the batches are gone through once each, the newest first,
a bounded number of blobs for a request: whoever asks for more waits and asks again.
"""

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import groupby
from typing import Any, Final

from falaj.base.clock import HOUR, Moment
from falaj.base.errors import Conflict, Corrupt, NotFound
from falaj.base.ids import earliest_id
from falaj.base.values import value
from falaj.database.work import Database, UnitOfWork
from falaj.governance.cache import Bounded
from falaj.governance.ledger import recording
from falaj.governance.projects.store import Project
from falaj.keys.errors import KeyDestroyed
from falaj.monitoring.joined import Logged
from falaj.monitoring.operations.labels import ADD_LABELS, AddLabels
from falaj.monitoring.sealing import Documents, inside
from falaj.monitoring.store import labels as store
from falaj.monitoring.store.tables import Found
from falaj.storage.service import Received

LABEL_KEY: Final = "monitor-label-key"  # the kind of owner that the key of digests has
BLOBS_AT_ONCE: Final = 100  # for one request
BATCHES_AT_ONCE: Final = 5000  # that lie in them
ROWS_AT_ONCE: Final = 5000  # of one transaction
GONE: Final = (NotFound, Corrupt, KeyDestroyed)  # what reading something raises that nobody will read again
_KEY_BYTES: Final = 32
_LATE: Final = HOUR  # nobody enters a batch with an id that is so old
_REMEMBERED: Final = 256


@value
class Digests:
    """Ids and entities as the database knows them: nobody finds out by trying which they are of, without the key."""

    key: bytes

    def of(self, *parts: str) -> str:
        text = json.dumps(parts, ensure_ascii=False).encode(errors="surrogatepass")
        return blake2b(text, key=self.key, digest_size=16).hexdigest()

    def call(self, id: str, row: int) -> str:
        return self.of("call", id, str(row))

    def entity(self, keys: Mapping[str, str]) -> str:
        return self.of("entity", *(part for name in sorted(keys) for part in (name, keys[name])))


class Predictions:
    """Thread-safe. Used outside any transaction."""

    def __init__(self, database: Database, documents: Documents) -> None:
        self._database, self._documents = database, documents
        self._keys: Bounded[str, Digests] = Bounded(_REMEMBERED)

    def digests(self, project: Project, endpoint: Found, now: Moment) -> Digests:
        """The key is made when the first labels come."""
        row = self._database.read(lambda work: store.labelling(work, endpoint.id))
        if row is None:
            received = self._documents.receive(project, endpoint.zone, secrets.token_bytes(_KEY_BYTES))
            row = self._database.write(lambda work: self._begun(work, project, endpoint, received, now))
        return self._keys.get(row.key) or self._keys.put(row.key, self._opened(project, endpoint, row.key, now))

    def _begun(self, work: UnitOfWork, project: Project, endpoint: Found, received: Received, now: Moment) -> Found:
        known = store.labelling(work, endpoint.id)
        if known is not None:  # somebody else's first labels came meanwhile: what was received is nobody's
            return known
        context = inside(work, project, endpoint.zone, now)
        counts = dict.fromkeys(("places", "judged", "taken", "repeated", "refused", "unknown"), 0)
        key = self._documents.keep(context, received, LABEL_KEY, endpoint.id)
        row = {
            "endpoint": endpoint.id,
            "project": project.id,
            "zone": endpoint.zone,
            "key": key,
            "names": "[]",
            "gathered": "",
            **counts,
        }
        made = store.labelling(work, endpoint.id) if store.add_labelling(work, row) else None
        if made is None:
            raise Conflict("The first labels came at the same moment; send these again.")
        recording.append(
            work,
            operation=ADD_LABELS,
            request=AddLabels(project=project.name, endpoint=endpoint.name, labels=()),
            identity=None,
            project=project.id,
            now=now,
            request_id="",
            facts={"endpoint": endpoint.id, "key": key},
        )
        return made

    def _opened(self, project: Project, endpoint: Found, blob: str, now: Moment) -> Digests:
        try:
            key = self._database.read(lambda work: self._documents.read(inside(work, project, endpoint.zone, now), blob))
        except GONE:
            key = b""
        if len(key) != _KEY_BYTES:
            raise NotFound(f"Labels of {endpoint.name!r} cannot be taken any more: the key they are found by was shredded.")
        return Digests(key=key)

    def gather(self, project: Project, endpoint: Found, digests: Digests, now: Moment) -> bool:
        """Make logged calls findable; whether some are left for the next time. Of those that are looked through but for the
        newest it is written down, so that nobody looks for them again."""
        row = self._database.read(lambda work: store.labelling(work, endpoint.id))
        since = "" if row is None else row.gathered
        batches = self._database.read(lambda work: store.not_indexed(work, endpoint.id, since, BATCHES_AT_ONCE))
        lying = [(blob, list(some)) for blob, some in groupby(batches, key=lambda batch: str(batch.blob))]
        more = len(batches) == BATCHES_AT_ONCE or len(lying) > BLOBS_AT_ONCE
        for blob, some in lying[:BLOBS_AT_ONCE]:
            more |= not self._index(project, endpoint, digests, blob, some, now)
        done = earliest_id(Moment((now - _LATE) // HOUR * HOUR))
        if not more and done > since:
            self._database.write(lambda work: store.change_labelling(work, endpoint.id, gathered=done))
        return more

    def _index(
        self, project: Project, endpoint: Found, digests: Digests, blob: str, batches: Sequence[Found], now: Moment
    ) -> bool:
        """False where they were put elsewhere before they could be read."""
        calls, ids = self.calls(project, endpoint, blob, now), [batch.id for batch in batches]
        if not calls and self._database.read(lambda work: store.lie_elsewhere(work, ids, blob)):
            return False
        rows = [row for batch in batches for row in _placed(batch, calls[batch.first : batch.first + batch.calls], digests)]
        for start in range(0, len(rows), ROWS_AT_ONCE):
            self._database.write(lambda work, some=rows[start : start + ROWS_AT_ONCE]: store.index(work, some))  # type: ignore[misc]
        self._database.write(lambda work: store.index_done(work, batches))
        return True

    def calls(self, project: Project, endpoint: Found, blob: str, now: Moment) -> list[dict[str, Any]]:
        """Of one blob; none of one that was shredded or let go of meanwhile. Raises where storage or the key ring does not
        answer: what cannot be read now may be read later."""
        try:
            content = self._database.read(lambda work: self._documents.read(inside(work, project, endpoint.zone, now), blob))
            return list(json.loads(content))
        except (*GONE, ValueError):
            return []


def moment_of(call: Logged, batch_at: int) -> int:
    """When it was made. A plane whose clock is ahead tells of moments that have not been yet: no prediction is younger than
    what told of it."""
    return max(0, min(call.at, batch_at))


def _placed(batch: Found, calls: Sequence[Mapping[str, Any]], digests: Digests) -> Iterator[dict[str, Any]]:
    """Where each row of each call that was answered lies, by its id and by its entity."""
    for place, told in enumerate(calls):
        call = Logged(told)
        entities, at, caller = call.entities(), moment_of(call, batch.at), digests.of("caller", call.caller)
        for row in range(call.rows):
            keys = [digests.call(call.id, row)] if call.id else []
            keys += [digests.entity(entities[row])] if row < len(entities) else []
            for key in keys:
                where = {"batch": batch.id, "place": place, "row": row, "caller": caller}
                yield {"endpoint": batch.endpoint, "key": key, "at": at, **where}
