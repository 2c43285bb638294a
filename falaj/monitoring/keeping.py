"""Keeping what revisions are held against: rows and their sealed documents, put and let go of together."""

import json
from collections.abc import Sequence

import msgspec

from falaj.base.values import value
from falaj.database.work import Context
from falaj.monitoring.references import Reference
from falaj.monitoring.sealing import PIECE, REFERENCE, WINDOW, Documents
from falaj.monitoring.store import monitors as store
from falaj.monitoring.store import windows as window_store
from falaj.monitoring.store.tables import Found
from falaj.monitoring.together import NOTHING_YET, Together
from falaj.storage.service import Received


@value
class Fresh:
    """A reference that is sealed, and counts for nothing until it is kept. `closed` is where its windows begin after."""

    revision: Found
    reference: Reference
    received: Received
    closed: int = 0


def put(documents: Documents, context: Context, monitor: str, zone: str, one: Fresh) -> None:
    """In place of what the revision was held against before, whose verdicts end with it."""
    number = one.revision.number
    before = store.reference(context.work, monitor, number, hold=True)
    documents.drop(context, REFERENCE, reference_id(monitor, number))
    row = {
        "monitor": monitor,
        "revision": number,
        "project": context.required_project.id,
        "revision_id": one.revision.id,
        "zone": zone,
        "key": one.reference.key,
        "blob": documents.keep(context, one.received, REFERENCE, reference_id(monitor, number)),
        "standing": standing_written(one.reference),
        "closed": one.closed,
        "late": 0 if before is None else before.late,
    }
    store.drop_standings(context.work, monitor, number)
    store.put_reference(context.work, row)


def drop(documents: Documents, context: Context, row: Found) -> None:
    """What one revision was held against, and what planes sent of it since."""
    documents.drop(context, REFERENCE, reference_id(row.monitor, row.revision))
    drop_pieces(documents, context, window_store.all_pieces(context.work, row.monitor, row.revision))
    store.drop_standings(context.work, row.monitor, row.revision)
    store.drop_reference(context.work, row.monitor, row.revision)


def drop_pieces(documents: Documents, context: Context, some: Sequence[Found]) -> None:
    for piece in some:
        documents.drop(context, PIECE, piece.id)
    window_store.drop_pieces(context.work, [piece.id for piece in some])


def drop_windows(documents: Documents, context: Context, rows: Sequence[Found]) -> None:
    for row in rows:
        documents.drop(context, WINDOW, window_id(row.monitor, row.revision, row.at))
    window_store.drop(context.work, rows)


def end(documents: Documents, context: Context, monitor: Found) -> None:
    """A monitor with all that it has; its windows are cleared away later."""
    for row in store.references_of(context.work, [monitor.id]).get(monitor.id, ()):
        drop(documents, context, row)
    drop_pieces(documents, context, window_store.all_pieces(context.work, monitor.id))
    store.forget(context.work, monitor.id)


def reference_id(monitor: str, revision: int) -> str:
    return f"{monitor}-{revision}"


def window_id(monitor: str, revision: int, at: int) -> str:
    return f"{monitor}-{revision}-{at}"


def standing_written(reference: Reference, together: Together = NOTHING_YET) -> str:
    """What people are told of the reference without opening it. Numbers and names of columns alone."""
    learning = [one for one in reference.columns if not one.settled]
    return json.dumps(
        {
            "source": reference.source,
            "learning": [one.label for one in learning],
            "learnt": min((one.rows for one in learning), default=0),
            "together": msgspec.to_builtins(together),
        }
    )


def source_read(row: Found) -> str:
    return str(json.loads(row.standing or "{}").get("source", ""))


def together_read(row: Found) -> Together:
    return msgspec.convert(json.loads(row.standing or "{}").get("together", {}), Together)
