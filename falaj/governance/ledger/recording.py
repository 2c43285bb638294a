"""Putting calls on record, inside the transaction of their effect: no leaf, no effect."""

import os
import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from falaj.base.caller import Identity
from falaj.base.clock import Moment
from falaj.base.ids import LeafId, new_id
from falaj.base.operation import Operation, Record
from falaj.base.values import ID_PATTERN
from falaj.database.work import UnitOfWork
from falaj.governance.ledger import store
from falaj.governance.ledger.leaves import Leaf, Outcome, plain, redact

SEED = "seed"


def append(
    work: UnitOfWork,
    *,
    operation: Operation[Any, Any],
    request: Any,
    identity: Identity | None,
    project: str,
    now: Moment,
    request_id: str,
    facts: Mapping[str, Any],
    outcome: Outcome = "done",
    rule: str = "",
    subject: str = "",
) -> LeafId:
    """Insert the leaf of one call, still without an index. `project` is an id, or empty for the platform itself.

    `subject` is the principal the call was about, where neither `facts` nor the request say so by `principal`.
    """
    fields, commitments = redact(request)
    leaf = Leaf(
        id=LeafId(new_id(now)),
        inserted=now,
        operation=operation.name,
        record=operation.record.value,
        outcome=outcome,
        principal=identity.principal if identity else "",
        token=(identity.token or "") if identity else "",
        zone=identity.zone if identity else "",
        project=project,
        request_id=request_id,
        request=fields,
        facts=plain(facts),
        rule=rule,
    )
    store.insert_leaf(work, leaf, leaf.bounded())
    subject = _subject(leaf) or subject
    if commitments and not store.is_forgotten(work, leaf.principal, subject):
        store.insert_salts(work, leaf, commitments, subject=subject)
    return leaf.id


def count(
    work: UnitOfWork,
    *,
    operation: Operation[Any, Any],
    content: bytes,
    subject: str,
    identity: Identity,
    project: str,
    now: Moment,
) -> None:
    """Count one telemetry call into its window: what came in is digested, and the sequencer makes one leaf of it all.

    `content` is the request without its secrets. The digest starts from a random seed that is kept like a salt, so personal
    values in telemetry can be made unsayable too.
    """
    key = store.WindowKey(operation=operation.name, project=project, principal=identity.principal, subject=subject)
    window = store.open_window(work, key, now=now, seed=os.urandom(32))
    counted = store.Window(until=max(now, window.until), calls=window.calls + 1, digest=chained(window.digest, content))
    store.update_window(work, key, counted)


def chained(digest: bytes, content: bytes) -> bytes:
    """The digest of a window after one more request; whoever has the seed and the requests can run it again."""
    return sha256(digest + content).digest()


def close_windows(work: UnitOfWork, *, started_before: int, now: Moment, limit: int) -> int:
    """Turn windows that have been open long enough into one leaf each; how many."""
    due = store.due_windows(work, started_before=started_before, limit=limit)
    for window in due:
        leaf = Leaf(
            id=LeafId(new_id(now)),
            inserted=now,
            operation=window.operation,
            record=Record.TELEMETRY.value,
            outcome="done",
            principal=window.principal,
            project=window.project,
            request={},
            facts={
                "count": window.calls,
                "digest": bytes(window.digest).hex(),
                "from": str(Moment(window.start)),
                "until": str(Moment(window.until)),
            }
            | ({"subject": window.subject} if window.subject else {}),
        )
        store.insert_leaf(work, leaf, leaf.encoded())
        if window.seed:  # erased where its principal asked to be forgotten
            store.insert_salts(work, leaf, [(SEED, bytes(window.seed))], subject="")
        key = store.WindowKey(
            operation=window.operation, project=window.project, principal=window.principal, subject=window.subject
        )
        store.delete_window(work, key)
    return len(due)


def _subject(leaf: Leaf) -> str:
    """The principal a call was about, where it says so, so that this person's salts can be found and erased."""
    named = leaf.facts.get("principal") or leaf.request.get("principal") or ""
    return named if isinstance(named, str) and re.fullmatch(ID_PATTERN, named) else ""
