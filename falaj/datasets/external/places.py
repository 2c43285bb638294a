"""Declared places: addresses with what opens them, sealed under the platform's key and shown to nobody."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

from falaj.base.clock import Moment
from falaj.base.encoding import canonical
from falaj.base.errors import Conflict, Forbidden, Invalid, NotFound
from falaj.base.pages import page_of, read_text_cursor
from falaj.base.values import Nothing, Secret, value
from falaj.database.binding import Bound, bind
from falaj.database.work import Context
from falaj.datasets.operations import places as declared
from falaj.datasets.operations.places import Address
from falaj.datasets.store import places as store
from falaj.datasets.store.tables import Found
from falaj.governance.projects.store import project_named, project_names
from falaj.governance.zones.service import required_zone
from falaj.keys.ring import PLATFORM, KeyRing, Wrapped
from falaj.keys.sealing import new_key, seal, unseal
from falaj.operations.messages import adapter
from falaj.storage.s3 import S3Objects
from falaj.storage.upstream import FolderObjects, Objects

_NEEDS: Final = {"s3": ("bucket",), "postgres": ("host", "database"), "folder": ("folder",)}
_TAKES: Final = {
    "s3": ("bucket", "prefix", "region", "endpoint"),
    "postgres": ("host", "port", "database", "tls"),
    "folder": ("folder",),
}


@value
class OpenPlace:
    """A place with what opens it."""

    name: str
    kind: str
    zone: str
    address: Address
    user: Annotated[str, Secret()]
    secret: Annotated[str, Secret()]

    def __repr__(self) -> str:
        return f"<the place {self.name!r}>"

    def objects(self) -> Objects:
        """Of a bucket or a folder."""
        said, address = f"the place {self.name!r}", self.address
        if self.kind == "folder":
            return FolderObjects(Path(address.folder), said)
        return S3Objects(
            said,
            bucket=address.bucket,
            prefix=address.prefix,
            access_key=self.user,
            secret_key=self.secret,
            region=address.region,
            endpoint=address.endpoint,
        )


class PlaceService:
    """`folders` are those on this server that a place may be in; none by default."""

    def __init__(self, ring: KeyRing, folders: Sequence[Path] = ()) -> None:
        self._ring = ring
        self._folders = tuple(folder.resolve() for folder in folders)

    def bindings(self) -> list[Bound]:
        return [
            bind(declared.SET_PLACE, self.set),
            bind(declared.LIST_PLACES, self.list),
            bind(declared.REMOVE_PLACE, self.remove),
            bind(declared.USABLE_PLACES, self.usable),
        ]

    def set(self, context: Context, request: declared.SetPlace) -> declared.PlaceView:
        self._check(request)
        required_zone(context.work, request.zone)
        projects = []
        for name in request.projects:
            if (project := project_named(context.work, name)) is None:
                raise NotFound(f"There is no project {name!r}.")
            projects.append(project.id)
        known = store.find(context.work, request.place)
        if known and (known.kind, known.zone) != (request.kind, request.zone) and store.is_used(context.work, request.place):
            raise Conflict(
                f"Datasets have their rows in {request.place!r}, so it stays a {known.kind} in {known.zone!r}; declare another."
            )
        store.put(context.work, self._sealed(context, request), set(projects))
        return self._shown(context, [self._row(context, request.place)])[0]

    def list(self, context: Context, request: declared.ListPlaces) -> declared.Places:
        rows = store.list_after(context.work, read_text_cursor(request.cursor), request.limit + 1)
        page, following = page_of(rows, request.limit, lambda row: (row.name,))
        return declared.Places(items=self._shown(context, page), next=following)

    def remove(self, context: Context, request: declared.OnePlace) -> Nothing:
        if store.is_used(context.work, request.place):
            raise Conflict(f"Datasets have their rows in {request.place!r}; delete those first.")
        if not store.forget(context.work, request.place):
            raise NotFound(f"There is no place {request.place!r}.")
        return Nothing()

    def usable(self, context: Context, request: declared.ListUsable) -> declared.UsablePlaces:
        rows = store.of_project(context.work, context.required_project.id)
        items = tuple(declared.UsablePlace(name=row.name, kind=row.kind, zone=row.zone) for row in rows)
        return declared.UsablePlaces(items=items)

    # For who reads from there

    def opened(self, context: Context, name: str) -> OpenPlace:
        """Raises `NotFound` unless the caller's project may use it, whether or not there is one, and `Forbidden` where its zone
        is none of the project's."""
        project, row = context.required_project, store.find(context.work, name)
        if row is None or project.id not in store.projects_of(context.work, [name])[name]:
            raise NotFound(f"There is no place {name!r} that the project {project.name!r} may use: an operator declares them.")
        if row.zone not in {place.zone for place in project.places}:
            raise Forbidden(
                f"The place {name!r} is in the zone {row.zone!r}, which is none of the project's.", rule="residency.blob-zone"
            )
        key = self._ring.unwrap(PLATFORM, Wrapped(version=row.ring_version, data=bytes(row.wrapped)), _bound(name))
        user, secret = json.loads(unseal(key, bytes(row.sealed), _bound(name)))
        address: Address = adapter(Address).validate_json(row.address)
        self._refuse_folder(row.kind, address)  # the settings may allow less than they did
        return OpenPlace(name=name, kind=row.kind, zone=row.zone, address=address, user=user, secret=secret)

    # Steps

    def _check(self, request: declared.SetPlace) -> None:
        address, empty = request.address, Address()
        for name in _NEEDS[request.kind]:
            if not getattr(address, name):
                raise Invalid(f"A place of the kind {request.kind} needs a {name}.")
        for name in Address.__dataclass_fields__:
            if name not in _TAKES[request.kind] and getattr(address, name) != getattr(empty, name):
                raise Invalid(f"A place of the kind {request.kind} has no {name}.")
        if request.kind == "postgres" and not request.user:
            raise Invalid("A place of the kind postgres needs the name of a user that may read there.")
        if ".." in address.prefix.split("/"):
            raise Invalid("The prefix of a place has no '..' in it.")
        if request.kind == "folder" and (request.user or request.secret):
            raise Invalid("A folder needs no credentials.")
        self._refuse_folder(request.kind, address)

    def _refuse_folder(self, kind: str, address: Address) -> None:
        if kind != "folder":
            return
        folder = Path(address.folder)
        if not folder.is_absolute() or not any(folder.resolve().is_relative_to(allowed) for allowed in self._folders):
            raise Forbidden(
                "This folder of the server is none that places may be in: the settings name those (data.folders).",
                rule="external.folders",
            )

    def _sealed(self, context: Context, request: declared.SetPlace) -> dict[str, object]:
        key, bound = new_key(), _bound(request.place)
        self._ring.create(PLATFORM)
        wrapped = self._ring.wrap(PLATFORM, key, bound)
        return {
            "name": request.place,
            "kind": request.kind,
            "zone": request.zone,
            "address": adapter(Address).dump_json(request.address).decode(),
            "sealed": seal(key, json.dumps([request.user, request.secret]).encode(), bound),
            "wrapped": wrapped.data,
            "ring_version": wrapped.version,
            "changed": context.now,
            "changed_by": context.identity.principal,
        }

    def _row(self, context: Context, name: str) -> Found:
        if (row := store.find(context.work, name)) is None:
            raise NotFound(f"There is no place {name!r}.")
        return row

    def _shown(self, context: Context, rows: Sequence[Found]) -> tuple[declared.PlaceView, ...]:
        projects = store.projects_of(context.work, [row.name for row in rows])
        names = project_names(context.work, {id for ids in projects.values() for id in ids})
        return tuple(
            declared.PlaceView(
                name=row.name,
                kind=row.kind,
                zone=row.zone,
                projects=tuple(sorted(names[id] for id in projects[row.name] if id in names)),
                address=adapter(Address).validate_json(row.address),
                changed=Moment(row.changed),
                changed_by=row.changed_by,
            )
            for row in rows
        )


def _bound(name: str) -> bytes:
    return canonical({"kind": "dataset-place", "name": name})
