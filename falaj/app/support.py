"""The support bundle: what a supporter needs to see, and nothing that is secret or names a person."""

import dataclasses
import io
import json
import os
import platform
import re
import tarfile
from collections.abc import Iterator
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from falaj import __version__
from falaj.app.doctor import examine
from falaj.app.home import Home
from falaj.app.logs import redacted
from falaj.app.settings import Settings, read_settings
from falaj.app.store import Inspection
from falaj.base.clock import Clock
from falaj.base.errors import FalajError
from falaj.base.files import write_durably
from falaj.database.work import UnitOfWork
from falaj.governance.identity import store as identity

LOG_BYTES = 5_000_000
PEOPLE = 10_000
SHORTEST_STRUCK = 3  # a shorter name would strike out half of every text
OWN_WORDS = ("time", "level", "logger", "name", "state")  # fields that Falaj fills by itself
# What is shown of the settings. All else (names, addresses, paths, secrets) is told only as given or not.
SHOWN_SETTINGS = {
    "platform": {"profile", "country"},
    "server": {"port"},
    "keys": {"kind"},
    "limits": {"body_bytes", "upload_bytes", "reserve_bytes", "calls_per_second", "stranger_calls_per_second"},
}
LIKE_PERSONS = re.compile(
    r"[\w.+%-]+@[\w-]+(\.[\w-]+)+"  # mail addresses
    r"|\b\d{1,3}(\.\d{1,3}){3}\b"  # IPv4
    r"|\b(?:[0-9a-fA-F]{1,4}:){3,7}[0-9a-fA-F:]*"  # IPv6
)


class Striker:
    """Strikes out of a text whatever looks secret or personal, and every name that the database knows."""

    def __init__(self, home: Home, personal: set[str]) -> None:
        struck = {str(home.path), str(Path.home()), platform.node(), os.environ.get("USER", ""), *personal} - {"root", "/root"}
        words = sorted((word for word in struck if len(word) >= SHORTEST_STRUCK), key=len, reverse=True)
        self._words = re.compile("|".join(rf"(?<!\w){re.escape(word)}(?!\w)" for word in words), re.IGNORECASE)

    def __call__(self, document: Any) -> Any:
        """A document with every text in it cleaned, but for those fields that are Falaj's own words."""
        if isinstance(document, str):
            return self._cleaned(document)
        if isinstance(document, list):
            return [self(part) for part in document]
        if isinstance(document, dict):
            return {name: part if name in OWN_WORDS else self(part) for name, part in document.items()}
        return document

    def _cleaned(self, text: str) -> str:
        return LIKE_PERSONS.sub("[redacted]", self._words.sub("[redacted]", redacted(text)))


def write_bundle(home: Home, file: Path, clock: Clock) -> tuple[str, ...]:
    """Write the bundle as a compressed tar; the names of its members."""
    members = dict(_members(home, clock))
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for name, text in members.items():
            info = tarfile.TarInfo(f"falaj-support/{name}")
            encoded = text.encode()
            info.size, info.mode, info.mtime = len(encoded), 0o600, clock.now() // 1_000_000
            archive.addfile(info, io.BytesIO(encoded))
    write_durably(file.absolute(), content.getvalue())
    return tuple(members)


def _members(home: Home, clock: Clock) -> Iterator[tuple[str, str]]:
    yield "versions.json", _json(_versions())
    try:
        settings = read_settings(home.settings)
    except (FalajError, OSError):
        settings = Settings()
    personal, tables = _from_database(home, settings)
    strike = Striker(home, personal or set())
    yield "settings.json", _json(shown_settings(settings))
    checks = [dataclasses.asdict(check) for check in examine(home, clock).checks]
    yield "doctor.json", _json(strike(checks))
    yield "tables.json", _json(tables)
    for log in sorted(home.log.parent.glob("falaj.log*")):
        yield f"logs/{log.name}", "".join(f"{_log_line(line, strike, whole=personal is not None)}\n" for line in _tail(log))


def _versions() -> dict[str, Any]:
    return {
        "falaj": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processors": os.cpu_count(),
        "packages": {found.name: found.version for found in sorted(distributions(), key=lambda found: found.name.lower())},
    }


def shown_settings(settings: Settings) -> dict[str, Any]:
    """Numbers and kinds as they are; of everything else only whether it was set."""
    document: dict[str, Any] = {}
    defaults = Settings()
    for section in dataclasses.fields(Settings):
        chosen = getattr(settings, section.name)
        if section.name == "storage":
            document["storage"] = [storage.kind for storage in (chosen or {}).values()]
            continue
        shown = SHOWN_SETTINGS.get(section.name, set())
        document[section.name] = {
            field.name: getattr(chosen, field.name)
            if field.name in shown
            else "set"
            if getattr(chosen, field.name) != getattr(getattr(defaults, section.name), field.name)
            else "default"
            for field in dataclasses.fields(chosen)
        }
    return document


def _from_database(home: Home, settings: Settings) -> tuple[set[str] | None, dict[str, int]]:
    """The personal values to strike out, None where they cannot be known, and how large each table is."""
    if not settings.database.url and not home.database.exists():
        return set(), {}
    try:
        with Inspection(file=home.database, url=settings.database.url) as database:
            return database.read(_personal_values), database.row_counts()
    except Exception:  # noqa: BLE001  (a bundle is made for broken platforms above all)
        return None, {}


def _personal_values(work: UnitOfWork) -> set[str] | None:
    people = identity.principals_after(work, kind="person", owner=identity.NO_OWNER, after="", limit=PEOPLE)
    if len(people) == PEOPLE:
        return None
    values = {word for person in people for word in (person.name, person.display, person.email)}
    return values | {word for person in people for word in person.display.split()}


def _log_line(line: str, strike: Striker, *, whole: bool) -> str:
    """A line of the log; where names cannot be told from other words, only when, where and how bad it was."""
    try:
        entry = json.loads(line)
    except ValueError:
        entry = line
    if whole:
        return _json(strike(entry))
    return _json({name: entry[name] for name in OWN_WORDS if name in entry} if isinstance(entry, dict) else {})


def _tail(file: Path) -> list[str]:
    with file.open("rb") as stream:
        stream.seek(max(0, file.stat().st_size - LOG_BYTES))
        return stream.read().decode(errors="replace").splitlines()


def _json(document: Any) -> str:
    return json.dumps(document, ensure_ascii=False, default=str)
