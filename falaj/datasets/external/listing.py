"""Which files a table consists of now, in a place that was declared. What lists Delta and Iceberg tables is beside."""

from collections.abc import Sequence
from typing import Final
from urllib.parse import unquote

from falaj.base.errors import Invalid, NotFound, TooLarge
from falaj.datasets.external.paths import inside, table_name
from falaj.datasets.external.pins import Pin, Registered, Snapshot, file_pin
from falaj.datasets.external.places import OpenPlace

MOST_FILES: Final = 10_000
_ENDINGS: Final = (".parquet", ".pq")
_NONE: Final = "__HIVE_DEFAULT_PARTITION__"


def refuse_mismatch(place: OpenPlace, registered: Registered) -> None:
    """Raises `Invalid` for a table that such a place has not, before anything is asked there."""
    if (place.kind == "postgres") != (registered.kind == "postgres"):
        raise Invalid(f"The place {place.name!r} is of the kind {place.kind}, which has no {registered.kind} tables.")


def of_postgres(registered: Registered) -> Snapshot:
    pin = Pin(
        place=registered.place,
        form="postgres",
        path=table_name(registered.table),
        time_zone=registered.time_zone,
        types=registered.types,
    )
    return Snapshot(pins=(pin,), shown="as it was read")


def of_folder(place: OpenPlace, registered: Registered) -> Snapshot:
    """Files whose names begin with a dot or an underscore belong to the programs that wrote the others."""
    folder = inside(registered.table)
    listed = place.objects().list(folder)
    if any(entry.path.removeprefix(f"{folder}/").startswith("_delta_log/") for entry in listed):
        raise Invalid(f"{registered.table!r} is a Delta table, whose files are not all of one version: register it as delta.")
    chosen = [entry for entry in listed if entry.size and not _hidden(entry.path[len(folder) :])]
    if other := [entry.path for entry in chosen if not entry.path.lower().endswith(_ENDINGS)]:
        raise Invalid(f"{other[0]!r} in the place {place.name!r} is no Parquet file, and all files of such a table are.")
    refuse_none(place, registered, chosen)
    said = [_said(entry.path[len(folder) :]) for entry in chosen]
    types = _types_said(said).items()
    pins = tuple(
        file_pin(registered, entry, said=tuple((name, word, told.get(name)) for name, word in types))
        for entry, told in zip(chosen, said, strict=True)
    )
    return Snapshot(pins=pins, shown=f"{len(pins)} files")


def refuse_none(place: OpenPlace, registered: Registered, files: Sequence[object]) -> None:
    if not files:
        raise NotFound(f"There are no rows in {registered.table!r} of the place {place.name!r}: no file of it is there.")
    if len(files) > MOST_FILES:
        raise TooLarge(f"{registered.table!r} has {len(files)} files, and a table has at most {MOST_FILES}: compact it there.")


def _hidden(path: str) -> bool:
    return any(name.startswith((".", "_")) for name in path.split("/"))


def _said(path: str) -> dict[str, str | None]:
    """What folders named `day=2026-11-16` say of all files in them."""
    pairs = [step.partition("=") for step in path.split("/")[:-1]]
    return {unquote(name): None if text == _NONE else unquote(text) for name, equals, text in pairs if equals and name}


def _types_said(said: Sequence[dict[str, str | None]]) -> dict[str, str]:
    names = dict.fromkeys(name for one in said for name in one)
    return {name: "int64" if all(_is_number(one.get(name)) for one in said) else "text" for name in names}


def _is_number(text: str | None) -> bool:
    """Whether nothing of it is lost in a number: a zip code that begins with a zero is none."""
    return text is None or (text.isdecimal() and text.isascii() and len(text) < 19 and str(int(text)) == text)
