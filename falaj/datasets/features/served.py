"""What was served of entities: some of it is kept for audits for a while, sealed under the project's key.

Whoever serves gives it here: those who ask for features, and endpoints that look them up.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from typing import Any, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from falaj.base.clock import Moment
from falaj.base.errors import Corrupt
from falaj.base.ids import new_id
from falaj.base.values import value
from falaj.database.work import Context, UnitOfWork
from falaj.datasets.store import kept_features as store
from falaj.datasets.store.tables import Found
from falaj.keys.sealing import NONCE_SIZE, derive
from falaj.storage.service import BlobService
from falaj.tables import types
from falaj.tables.joining.told import hearing, telling
from falaj.tables.schemas import Column

LARGEST: Final = 64 << 10  # bytes of one call, about: of what is more the first entities are kept
_MILLION: Final = 1_000_000


@value
class Entry:
    """One entity, and what was served of it: plain values in the order of the columns. `of` and `source` are those of its row,
    where a round of materialising that was under way had written it already."""

    keys: tuple[Any, ...]
    values: tuple[Any, ...]
    of: int | None = None
    source: str = ""


@value
class Served:
    """What was served of a view at a moment (`at`), with the columns of its keys, as labels call them, and its features."""

    view: str
    dataset: str
    zone: str
    source: str
    of: Moment
    at: Moment
    keys: tuple[Column, ...]
    features: tuple[Column, ...]
    entries: tuple[Entry, ...]


def is_sampled(request_id: str, place: int, share: int) -> bool:
    """Whether an entity of a call is among so many of a million. By the call, so that nothing has to be drawn."""
    if share >= _MILLION or share <= 0:
        return share > 0
    drawn = hashlib.sha256(f"{request_id} {place}".encode()).digest()
    return int.from_bytes(drawn[:8]) % _MILLION < share


class ServedLog:
    """Thread-safe."""

    def __init__(self, blobs: BlobService) -> None:
        self._blobs = blobs

    def rows(self, context: Context, some: Iterable[Served]) -> list[dict[str, Any]]:
        """Sealed, for `kept_features.log` in a transaction."""
        return [self._row(context, one) for one in some if one.entries]

    def opened(self, context: Context, row: Found) -> Served:
        try:
            nonce, sealed = row.sealed[:NONCE_SIZE], row.sealed[NONCE_SIZE:]
            plain = AESGCM(self._key(context, row.zone)).decrypt(nonce, sealed, _bound(row.id, row.view))
        except InvalidTag:
            raise Corrupt(f"What was logged of a feature view at {Moment(row.at)} was changed where it is kept.") from None
        told = json.loads(plain)
        keys, features = _heard_columns(told["keys"]), _heard_columns(told["features"])
        changes = [hearing(types.parse(column.type)) for column in (*keys, *features)]
        entries = []
        for of, source, *values in told["rows"]:
            heard = [one if change is None else change(one) for one, change in zip(values, changes, strict=True)]
            entries.append(Entry(keys=tuple(heard[: len(keys)]), values=tuple(heard[len(keys) :]), of=of, source=source))
        return Served(
            view=row.view,
            dataset=row.dataset,
            zone=row.zone,
            source=row.source,
            of=Moment(row.of),
            at=Moment(row.at),
            keys=keys,
            features=features,
            entries=tuple(entries),
        )

    def _row(self, context: Context, one: Served) -> dict[str, Any]:
        id, nonce = new_id(context.now), os.urandom(NONCE_SIZE)
        changes = [telling(types.parse(column.type)) for column in (*one.keys, *one.features)]
        head = {
            "keys": [[column.name, column.type] for column in one.keys],
            "features": [[column.name, column.type] for column in one.features],
        }
        rows = _fitting(one.entries, changes, LARGEST - len(json.dumps(head)))
        cipher = AESGCM(self._key(context, one.zone))
        return {
            "id": id,
            "project": context.required_project.id,
            "zone": one.zone,
            "view": one.view,
            "dataset": one.dataset,
            "source": one.source,
            "of": one.of,
            "at": one.at,
            "rows": len(rows),
            "sealed": nonce + cipher.encrypt(nonce, json.dumps(head | {"rows": rows}).encode(), _bound(id, one.view)),
        }

    def _key(self, context: Context, zone: str) -> bytes:
        """Of the key that a project's rows are sealed with online: without such a one nothing was served."""
        blob = store.find_key(context.work, context.required_project.id, zone)
        if blob is None:
            raise RuntimeError("rows are kept for serving without a key")
        return derive(self._blobs.open(context, blob).key, b"falaj features 1 served")


def keep(work: UnitOfWork, rows: Sequence[dict[str, Any]]) -> None:
    store.log(work, rows)


def _told(values: Sequence[Any], changes: Sequence[Any]) -> list[Any]:
    return [one if change is None else change(one) for one, change in zip(values, changes, strict=True)]


def _fitting(entries: Sequence[Entry], changes: Sequence[Any], most: int) -> list[list[Any]]:
    """As many of the first as take no more bytes than that."""
    found: list[list[Any]] = []
    for entry in entries:
        row = [entry.of, entry.source, *_told((*entry.keys, *entry.values), changes)]
        most -= len(json.dumps(row)) + 2
        if most < 0:
            break
        found.append(row)
    return found


def _heard_columns(told: Sequence[Sequence[str]]) -> tuple[Column, ...]:
    return tuple(Column(name=name, type=kind) for name, kind in told)


def _bound(id: str, view: str) -> bytes:
    """A row is opened as what it was sealed as, and as no other."""
    return f"falaj served 1 {id} {view}".encode()
