"""Versions of a Delta table: its log is fetched as it is, and read by a data worker inside walls."""

import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import unquote

from falaj.base.errors import Invalid, NotFound
from falaj.datasets.external.listing import refuse_none
from falaj.datasets.external.logs import Log, nonsense
from falaj.datasets.external.paths import inside
from falaj.datasets.external.pins import Pin, Registered, Snapshot, file_pin
from falaj.datasets.external.places import OpenPlace
from falaj.datasets.workers import DataWorkers
from falaj.storage.upstream import Entry
from falaj.tables import types

_COMMIT: Final = re.compile(r"(\d{20})\.json")
_CHECKPOINT: Final = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet")


def of_delta(workers: DataWorkers, place: OpenPlace, registered: Registered, at: str) -> Snapshot:
    folder, objects = inside(registered.table), place.objects()
    listed = {entry.path: entry for entry in objects.list(folder)}
    log = {path.rpartition("/")[2]: entry for path, entry in listed.items() if path.startswith(f"{folder}/_delta_log/")}
    version, commits, checkpoint = chosen(log, at, registered.table)
    answer = Log(workers, objects).told("delta_files", [commits, *([entry] for entry in checkpoint)])
    files = answer.get("files")
    if not isinstance(files, list):
        raise nonsense()
    refuse_none(place, registered, files)
    pins = tuple(_pin(registered, folder, listed, file) for file in files)
    return Snapshot(pins=pins, shown=f"version {version}")


def chosen(log: dict[str, Entry], at: str, table: str) -> tuple[int, list[Entry], list[Entry]]:
    """The version that is meant, the commits of it that are to be read, and the checkpoint before them."""
    commits = {int(found[1]): entry for name, entry in log.items() if (found := _COMMIT.fullmatch(name))}
    checkpoints: dict[tuple[int, int], list[Entry]] = {}
    for name, entry in sorted(log.items()):
        if found := _CHECKPOINT.fullmatch(name):
            checkpoints.setdefault((int(found[1]), int(found[3] or 1)), []).append(entry)
    whole = {version: entries for (version, parts), entries in checkpoints.items() if len(entries) == parts}
    if not commits and not whole:
        raise NotFound(f"There is no Delta table at {table!r}: it has no log.")
    newest = max([*commits, *whole])
    version = int(at) if at else newest
    before = max((one for one in whole if one <= version), default=-1)
    wanted = range(before + 1, version + 1)
    if version > newest or any(number not in commits for number in wanted):
        raise NotFound(f"The Delta table {table!r} has no version {version}: it never was, or its log was cleaned up since.")
    return version, [commits[number] for number in wanted], whole.get(before, [])


def _pin(registered: Registered, folder: str, listed: dict[str, Entry], file: object) -> Pin:
    match file:
        case [str(path), int(), list(said)]:
            place = inside(f"{folder}/{unquote(path)}") if "://" not in path and not path.startswith("/") else ""
            if not place:
                raise Invalid(f"The Delta table {registered.table!r} has files outside of its folder, which are not followed.")
            if (entry := listed.get(place)) is None:
                raise NotFound(f"{place!r} is gone upstream, as after a vacuum: this version cannot be read any more.")
            return file_pin(registered, entry, said=_said(said))
    raise nonsense()


def _said(told: Sequence[object]) -> tuple[tuple[str, str, str | None], ...]:
    found: list[tuple[str, str, str | None]] = []
    for one in told:
        match one:
            case [str(name), str(word), (str() | None) as text]:
                found.append((name, str(types.parse(word, of=name)), text))
            case _:
                raise nonsense()
    return tuple(found)
