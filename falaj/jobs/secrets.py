"""Projects' secrets: sealed under keys that only the project's own key opens, shown to nobody but the jobs that name them."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from falaj.base.clock import Moment
from falaj.base.encoding import canonical
from falaj.base.errors import Conflict, Corrupt, Invalid, NotFound
from falaj.base.values import Nothing
from falaj.collaboration.people import persons
from falaj.database.binding import Bound, bind
from falaj.database.work import Context, Database, UnitOfWork
from falaj.jobs.operations import secrets as declared
from falaj.jobs.operations.secrets import SecretView
from falaj.jobs.store import secrets as store
from falaj.jobs.store.tables import Found
from falaj.keys.errors import KeyDestroyed
from falaj.keys.ring import KeyRing, Wrapped, project_key
from falaj.keys.sealing import derive, new_key, seal, unseal
from falaj.storage.store import hold_key

MOST: Final = 1000  # of one project
ROOT: Final = "FALAJ_CHECKPOINTS"  # what a project's derived keys are made from: nobody's to set, to see or to name
log = logging.getLogger(__name__)


class ProjectSecrets:
    """Thread-safe. Secrets are opened for each use and remembered nowhere."""

    def __init__(self, ring: KeyRing) -> None:
        self._ring = ring

    def bindings(self) -> list[Bound]:
        return [
            bind(declared.SET_SECRET, self.set),
            bind(declared.LIST_SECRETS, self.list),
            bind(declared.DELETE_SECRET, self.delete),
        ]

    # Handlers

    def set(self, context: Context, request: declared.SetSecret) -> SecretView:
        project, name = context.required_project.id, request.name
        if name.startswith(("FALAJ_", "MLFLOW_", "LD_")):
            raise Invalid(f"{name!r} is a name the platform gives to jobs itself; choose another.")
        if hold_key(context.work, project).shredded is not None:
            raise KeyDestroyed("This project's key was destroyed; it cannot keep secrets any more.")
        known = {row.name for row in _of_people(store.of_project(context.work, project))}
        if name not in known and len(known) >= MOST:
            raise Conflict(f"This project has {MOST} secrets already; delete some.")
        self._ring.create(project_key(project))
        row = self._sealed(project, name, request.value)
        store.put(context.work, row | {"set": context.now, "set_by": context.identity.principal})
        return self._shown(context, store.named(context.work, project, [name]))[0]

    def list(self, context: Context, request: declared.ListSecrets) -> declared.Secrets:
        rows = store.of_project(context.work, context.required_project.id)
        return declared.Secrets(items=self._shown(context, _of_people(rows)))

    def delete(self, context: Context, request: declared.OneSecret) -> Nothing:
        if request.name == ROOT or not store.forget(context.work, context.required_project.id, request.name):
            raise NotFound(f"There is no secret {request.name!r} here.")
        return Nothing()

    # For who starts jobs

    def missing(self, work: UnitOfWork, project: str, names: Iterable[str]) -> frozenset[str]:
        """Of these names, the ones that no secret has."""
        return frozenset(names) - {row.name for row in _of_people(store.named(work, project, names))}

    def opened(self, work: UnitOfWork, project: str, names: Iterable[str]) -> dict[str, str]:
        """Raises `NotFound` where one was deleted since it was asked for."""
        if gone := self.missing(work, project, names):
            raise NotFound(f"The secret {min(gone)!r} is not there any more.")
        return {row.name: self._open(row) for row in store.named(work, project, names)}

    def checkpoint_key(self, database: Database, project: str, job: str, now: Moment) -> str:
        """What a job seals its checkpoints with, in hexadecimal digits."""
        return self.derived(database, project, {"kind": "job-checkpoints", "project": project, "job": job}, now).hex()

    def derived(self, database: Database, project: str, purpose: Mapping[str, str], now: Moment) -> bytes:
        """A key for one purpose of a project, written down nowhere: the same whenever it is asked for, until the project is
        shredded. Opens transactions of its own. Raises what the key ring does."""
        found = database.read(lambda work: store.named(work, project, [ROOT]))
        return self._derived(found or database.write(lambda work: self._made_root(work, project, now)), purpose)

    def derived_before(self, database: Database, project: str, purpose: Mapping[str, str]) -> bytes:
        """The same for callers whom nobody knows yet: it only reads. Raises `NotFound` where nothing was ever derived."""
        found = database.read(lambda work: store.named(work, project, [ROOT]))
        if not found:
            raise NotFound("Nothing was derived from this project's key.")
        return self._derived(found, purpose)

    # What the rotation and the shredding of projects' keys ask of whoever keeps secrets under them

    def rewrap(self, work: UnitOfWork, project: str) -> None:
        for row in store.of_project(work, project):
            bound = _bound(project, row.name)
            try:
                key = self._ring.unwrap(project_key(project), _wrapped(row), bound)
                new = self._ring.wrap(project_key(project), key, bound)
            except (Corrupt, Conflict, NotFound) as error:
                log.error("the secret %s of project %s cannot be wrapped anew: %s", row.name, project, error)
                continue
            store.rewrap(work, project, row.name, new.data, new.version)

    def forget(self, work: UnitOfWork, project: str, now: Moment) -> None:
        store.forget_all(work, project)

    # Steps

    def _derived(self, found: Sequence[Found], purpose: Mapping[str, str]) -> bytes:
        (made_from,) = map(self._open, found)
        return derive(bytes.fromhex(made_from), canonical(purpose))

    def _made_root(self, work: UnitOfWork, project: str, now: Moment) -> Sequence[Found]:
        """Whoever comes first makes it for all."""
        if hold_key(work, project).shredded is not None:
            raise KeyDestroyed("This project's key was destroyed; nothing can be sealed under it any more.")
        self._ring.create(project_key(project))
        store.put_first(work, self._sealed(project, ROOT, new_key().hex()) | {"set": now, "set_by": ""})
        return store.named(work, project, [ROOT])

    def _sealed(self, project: str, name: str, text: str) -> dict[str, Any]:
        key, bound = new_key(), _bound(project, name)
        wrapped = self._ring.wrap(project_key(project), key, bound)
        return {
            "project": project,
            "name": name,
            "sealed": seal(key, text.encode(), bound),
            "wrapped": wrapped.data,
            "ring_version": wrapped.version,
        }

    def _open(self, row: Found) -> str:
        bound = _bound(row.project, row.name)
        key = self._ring.unwrap(project_key(row.project), _wrapped(row), bound)
        return unseal(key, bytes(row.sealed), bound).decode()

    def _shown(self, context: Context, rows: Iterable[Found]) -> tuple[SecretView, ...]:
        rows = tuple(rows)
        named = persons(context.work, {row.set_by for row in rows})
        return tuple(SecretView(name=row.name, set=Moment(row.set), set_by=named[row.set_by]) for row in rows)


def _of_people(rows: Iterable[Found]) -> list[Found]:
    return [row for row in rows if row.name != ROOT]


def _bound(project: str, name: str) -> bytes:
    return canonical({"kind": "job-secret", "project": project, "name": name})


def _wrapped(row: Found) -> Wrapped:
    return Wrapped(version=row.ring_version, data=bytes(row.wrapped))
