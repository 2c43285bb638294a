"""The online store as views see it: opened when it is first needed, with keys that the key ring keeps for each project."""

import dataclasses
import hashlib
import secrets
import threading
from collections.abc import Callable, Sequence
from typing import Final

from falaj.base.ids import ProjectId
from falaj.database.work import Context, Database
from falaj.datasets.online.rows import Field
from falaj.datasets.online.sealing import Secrets
from falaj.datasets.online.stores import OnlineStore
from falaj.datasets.online.views import OnlineView, ViewShape
from falaj.datasets.store import kept_features as store
from falaj.keys.sealing import derive
from falaj.storage.service import BlobService, Owner
from falaj.tables.joining.views import View
from falaj.tables.schemas import Column

OWNER: Final = "online-features"
_MOST_KEPT: Final = 256


class Online:
    """Thread-safe. `opening` opens the store, once."""

    def __init__(self, database: Database, blobs: BlobService, opening: Callable[[], OnlineStore]) -> None:
        self._database = database
        self._blobs = blobs
        self._opening = opening
        self._lock = threading.Lock()
        self._store: OnlineStore | None = None
        self._views: dict[tuple[str, str, str], OnlineView] = {}

    def view(self, context: Context, of: str, view: View, zone: str, columns: Sequence[Column]) -> OnlineView:
        """The rows of a version of a view with these columns; `of` is its id. The caller's zone is held against theirs, whoever
        read them before."""
        blob = store.find_key(context.work, context.required_project.id, zone)
        if blob is None:
            raise RuntimeError("rows are kept for serving without a key")
        key, shape = self._blobs.open(context, blob).key, shape_of(columns)
        if (known := self._views.get((of, shape, blob))) is not None:
            return known
        opened = OnlineView(self._opened(), secrets_of(key), _shape(context.required_project.id, of, shape, view, columns))
        with self._lock:
            if len(self._views) >= _MOST_KEPT:
                self._views.clear()
            self._views[of, shape, blob] = opened
        return opened

    def prepare_key(self, context: Context, zone: str) -> None:
        """Outside of any transaction, before rows are first kept."""
        project = context.required_project
        if self._database.read(lambda work: store.find_key(work, project.id, zone)) is not None:
            return
        received = self._blobs.receive(project, zone, iter([secrets.token_bytes(32)]))

        def keep(inside: Context) -> None:
            blob = self._blobs.keep(inside, received, Owner(kind=OWNER, id=project.id))
            store.add_key(inside.work, project.id, zone, blob.id)

        self._database.write(lambda work: keep(dataclasses.replace(context, work=work, facts={})))

    def close(self) -> None:
        with self._lock:
            if self._store is not None:
                self._store.close()

    def _opened(self) -> OnlineStore:
        with self._lock:
            if self._store is None:
                self._store = self._opening()
            return self._store


def shape_of(columns: Sequence[Column]) -> str:
    """Rows with other columns, or other types of them, lie in another place."""
    return hashlib.sha256(repr([(column.name, column.type) for column in columns]).encode()).hexdigest()


def _shape(project: ProjectId, of: str, shape: str, view: View, columns: Sequence[Column]) -> ViewShape:
    fields = tuple(Field(name=column.name, type=column.type) for column in columns)
    keys = len(view.keys)
    return ViewShape(
        project=project,
        name=f"{of}:{shape}",
        entity=fields[:keys],
        features=fields[keys:],
        time_to_live=view.time_to_live,
    )


def secrets_of(key: bytes) -> Secrets:
    return Secrets(places=derive(key, b"falaj features 1 places"), rows={1: derive(key, b"falaj features 1 rows")})
