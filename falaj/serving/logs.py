"""Sampled calls, sealed under the project's key in the endpoint's zone; `log_keeping.py` puts them together, and lets go."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from falaj.base.clock import Moment
from falaj.base.errors import Corrupt, FalajError, NotFound
from falaj.base.ids import new_id
from falaj.base.pages import cursor_after, read_cursor
from falaj.base.values import value
from falaj.database.binding import Bound, bind_prepared
from falaj.database.work import Context, Database, UnitOfWork
from falaj.governance.gate import project_facts
from falaj.governance.projects.store import Project, project_by_id
from falaj.serving.operations import endpoints as declared
from falaj.serving.operations.endpoints import LoggedCall, LoggedCalls
from falaj.serving.operations.planes import CallReport
from falaj.serving.store import endpoints as endpoint_store
from falaj.serving.store import logs as store
from falaj.serving.store.tables import Found
from falaj.serving.veiling import Veil, veiled
from falaj.serving.views import required_endpoint
from falaj.storage.errors import Altered
from falaj.storage.service import BlobService, Owner, Reader, Received

LOG: Final = "endpoint-log"  # the kind of owner that a batch of calls has
AT_ONCE: Final = 100
_ALL: Final = 2**31  # more than a batch has
MEDIA_TYPE: Final = "application/json"


@value
class Sealed:
    """Calls of one endpoint that are stored and sealed, and count for nothing until they are kept."""

    endpoint: Found
    project: Project
    received: Received
    calls: int


class CallLogs:
    """Thread-safe."""

    def __init__(self, database: Database, blobs: BlobService, veil: Veil) -> None:
        self._database, self._blobs, self._veil = database, blobs, veil

    def bindings(self) -> list[Bound]:
        return [bind_prepared(declared.READ_LOGS, self.read, self.answer)]

    # What reports bring

    def seal(self, calls: Sequence[CallReport], endpoints: Mapping[str, Found]) -> tuple[Sealed, ...]:
        """Outside any transaction. Calls of endpoints that are not given are dropped, and so are those of a project that takes
        no bytes any more: what a plane goes on sending must not keep the rest of its report from counting."""
        by_endpoint: dict[str, list[CallReport]] = {}
        for call in calls:
            if call.endpoint in endpoints:
                by_endpoint.setdefault(call.endpoint, []).append(call)
        found = (self._sealed(endpoints[id], several) for id, several in by_endpoint.items())
        return tuple(one for one in found if one is not None)

    def _sealed(self, endpoint: Found, calls: Sequence[CallReport]) -> Sealed | None:
        project = self._database.read(lambda work: project_by_id(work, endpoint.project))
        if project is None or project.archived:
            return None
        try:
            received = self._blobs.receive(project_facts(project), endpoint.zone, iter((_written(calls),)))
        except FalajError:
            return None
        return Sealed(endpoint=endpoint, project=project, received=received, calls=len(calls))

    def keep(self, context: Context, sealed: Sequence[Sealed]) -> None:
        for one in sealed:
            within = replace(context, project=project_facts(one.project), facts={})
            id = new_id(context.now)
            blob = self._blobs.keep(within, one.received, Owner(kind=LOG, id=id), media_type=MEDIA_TYPE)
            row = {
                "id": id,
                "project": one.project.id,
                "endpoint": one.endpoint.id,
                "blob": blob.id,
                "calls": one.calls,
                "at": context.now,
                "first": 0,
                "size": one.received.size,
                "holder": id,
                "settled": False,
            }
            store.add(context.work, row)

    # Reading

    def read(self, context: Context, request: declared.ReadLogs) -> LoggedCalls:
        """The files are read outside any transaction."""
        try:
            return self._page(context, request)
        except Altered:  # put together with others at this moment, and collected
            return self._page(context, request)

    def _page(self, context: Context, request: declared.ReadLogs) -> LoggedCalls:
        until, skipped = _position(request.cursor)

        def look(work: UnitOfWork) -> tuple[Sequence[Found], dict[str, Reader | None]]:
            within = replace(context, work=work)
            endpoint = required_endpoint(within, request.endpoint)
            batches = store.batches_until(work, endpoint.id, until, AT_ONCE)
            return batches, {blob: self._opened(within, blob) for blob in {batch.blob for batch in batches}}

        (batches, readers), items = self._database.read(look), list[LoggedCall]()
        contents: dict[str, list[Any]] = {}
        for batch in batches:
            if batch.blob not in contents:  # batches that were put together lie one after the other
                contents = {batch.blob: _content(readers[batch.blob])}
            start = skipped if batch.id == until else 0
            calls = contents[batch.blob][batch.first : batch.first + batch.calls]
            taken = calls[start : start + request.limit - len(items)]
            items += map(_read, taken)
            if len(items) == request.limit:
                return LoggedCalls(items=tuple(items), next=cursor_after(batch.id, start + len(taken)))
        following = cursor_after(batches[-1].id, _ALL) if len(batches) == AT_ONCE else ""
        return LoggedCalls(items=tuple(items), next=following)

    def answer(self, context: Context, request: declared.ReadLogs, found: LoggedCalls) -> LoggedCalls:
        endpoint = required_endpoint(context, request.endpoint)
        context.facts.update(endpoint=endpoint.id, calls=len(found.items))
        revisions = endpoint_store.revisions_of(context.work, endpoint.id, {call.revision for call in found.items})
        versions = {number: row.version_id for number, row in revisions.items()}
        hidden = self._veil.hidden(context, set(versions.values()))
        kept = {number: hidden.get(version, ()) for number, version in versions.items()}
        items = (replace(call, inputs=veiled(call.inputs, kept.get(call.revision, ()))) for call in found.items)
        return replace(found, items=tuple(items))

    def _opened(self, context: Context, blob: str) -> Reader | None:
        """None for one that was shredded."""
        try:
            return self._blobs.open(context, blob)
        except NotFound:
            return None


def _position(cursor: str) -> tuple[str, int]:
    """The batch to go on with, and how many of its calls were seen."""
    if not cursor:
        return "", 0
    batch, skipped = read_cursor(cursor, str, int)
    return str(batch), max(int(skipped), 0)


def _written(calls: Sequence[CallReport]) -> bytes:
    """Newest first."""
    ordered = sorted(calls, key=lambda call: call.at, reverse=True)
    return encoded([_document(call) for call in ordered])


def _document(call: CallReport) -> dict[str, Any]:
    return {
        "id": call.id,
        "at": int(call.at),
        "revision": call.revision,
        "caller": call.caller,
        "status": call.status,
        "ms": call.ms if math.isfinite(call.ms) else 0.0,
        "inputs": call.inputs,
        "outputs": call.outputs,
        "drawn": call.drawn,
    }


def _content(reader: Reader | None) -> list[Any]:
    return [] if reader is None else documents_in(b"".join(reader.read()))


def documents_in(content: bytes) -> list[Any]:
    """Of the calls of a blob."""
    try:
        return list(json.loads(content))
    except (ValueError, TypeError):
        raise Corrupt("A batch of logged calls is not one.") from None


def encoded(documents: Sequence[Any]) -> bytes:
    return json.dumps(documents, ensure_ascii=False).encode()


def _read(document: Any) -> LoggedCall:
    try:
        return LoggedCall(**{**document, "at": Moment(document["at"])})
    except (ValueError, TypeError, KeyError):
        raise Corrupt("A batch of logged calls is not one.") from None
