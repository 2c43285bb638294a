"""Snapshots of an Iceberg table, by the newest metadata in its folder; its own lists are read by a data worker inside walls."""

import re
from typing import Any, Final

from falaj.base.errors import Conflict, Invalid, NotFound
from falaj.datasets.external.listing import refuse_none
from falaj.datasets.external.logs import Log, nonsense
from falaj.datasets.external.paths import below, inside
from falaj.datasets.external.pins import Registered, Snapshot, file_pin
from falaj.datasets.external.places import OpenPlace
from falaj.datasets.workers import DataWorkers
from falaj.storage.upstream import Entry, Objects

_METADATA: Final = re.compile(r"(?:v(\d{1,18})|(\d{1,18})-[0-9A-Za-z-]+)\.metadata\.json")
_MOST_MANIFESTS: Final = 10_000


def of_iceberg(workers: DataWorkers, place: OpenPlace, registered: Registered, at: str) -> Snapshot:
    folder, objects = inside(registered.table), place.objects()
    log = Log(workers, objects)
    told = log.told("iceberg_snapshot", [[_metadata(objects, folder, registered.table)]], at=at)
    listed = {entry.path: entry for entry in objects.list(folder)}
    manifests = _texts(log.told("iceberg_manifests", [[_named(place, objects, listed, told["manifests"])]]), "manifests")
    if len(manifests) > _MOST_MANIFESTS:
        raise nonsense()
    entries = [_named(place, objects, listed, uri) for uri in manifests]
    files = log.told("iceberg_files", [[entry] for entry in entries]).get("files")
    if not isinstance(files, list):
        raise nonsense()
    refuse_none(place, registered, files)
    fields, needs = _fields(told), _numbers(told)
    pins = [file_pin(registered, _file(place, objects, listed, file), fields=fields, needs=needs) for file in files]
    return Snapshot(pins=tuple(sorted(pins, key=lambda pin: pin.path)), shown=f"snapshot {told.get('snapshot')}")


def _metadata(objects: Objects, folder: str, table: str) -> Entry:
    """The newest that is there: each state of a table has one, counted up."""
    found: dict[int, list[Entry]] = {}
    for entry in objects.list(f"{folder}/metadata"):
        if name := _METADATA.fullmatch(entry.path.rpartition("/")[2]):
            found.setdefault(int(name[1] or name[2]), []).append(entry)
    if not found:
        raise NotFound(f"There is no Iceberg table at {table!r}: it has no metadata that can be read here.")
    newest = found[max(found)]
    if len(newest) > 1:
        raise Conflict(
            f"Two writers made state {max(found)} of the Iceberg table {table!r}, and its catalog alone knows whose counts."
        )
    return newest[0]


def _named(place: OpenPlace, objects: Objects, listed: dict[str, Entry], uri: object) -> Entry:
    """A file by its whole address, as the table has it; nothing outside of the place is followed."""
    if not isinstance(uri, str):
        raise nonsense()
    if not uri:
        raise NotFound("The Iceberg table never had a row.")
    path = below(place.address, uri)
    return listed.get(path) or objects.look(path)


def _file(place: OpenPlace, objects: Objects, listed: dict[str, Entry], file: object) -> Entry:
    match file:
        case [str(uri), int(size)]:
            try:
                entry = _named(place, objects, listed, uri)
            except NotFound:
                raise NotFound(f"{uri.rpartition('/')[2]!r} is gone upstream: this snapshot cannot be read any more.") from None
            if entry.size != size:
                raise Invalid(f"{entry.path!r} is not as large as the Iceberg table says: it was changed upstream.")
            return entry
    raise nonsense()


def _texts(answer: dict[str, Any], name: str) -> list[str]:
    found = answer.get(name)
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise nonsense()
    return found


def _fields(answer: dict[str, Any]) -> dict[int, str]:
    found = answer.get("fields")
    if not isinstance(found, dict) or not all(key.isdecimal() and isinstance(name, str) for key, name in found.items()):
        raise nonsense()
    return {int(number): name for number, name in found.items()}


def _numbers(answer: dict[str, Any]) -> tuple[int, ...]:
    found = answer.get("needs")
    if not isinstance(found, list) or not all(type(one) is int for one in found):
        raise nonsense()
    return tuple(found)
