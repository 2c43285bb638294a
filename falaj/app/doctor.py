"""The doctor: looks at a home, whether its platform runs or not, and says how to mend what is wrong. It changes nothing."""

import os
import shutil
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from json import loads
from pathlib import Path
from ssl import VERIFY_X509_PARTIAL_CHAIN, create_default_context
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

from falaj.app.backends import SHARE_STORAGE, database_location, key_directory, look_at_ring, recovery_kit, unshared_storage
from falaj.app.home import Home, is_running, read_document
from falaj.app.settings import Settings, read_settings
from falaj.app.store import Inspection
from falaj.base.clock import MINUTE, Clock, Moment
from falaj.base.errors import FalajError
from falaj.base.values import Message, value
from falaj.database.migrations import newest_revision
from falaj.database.work import UnitOfWork
from falaj.governance.ledger import store as ledger
from falaj.governance.ledger.copies import FILE, LONGEST_LINE
from falaj.governance.ledger.heads import Head, read_head
from falaj.governance.ledger.signatures import is_genuine
from falaj.governance.ledger.trees import root_at
from falaj.keys import store as keys
from falaj.keys.file import KIT, RING, UNLOCK_SECRET

State: TypeAlias = Literal["ok", "warning", "broken"]
MEBIBYTE = 1 << 20
LEAST_SPACE, LITTLE_SPACE = 256 * MEBIBYTE, 2048 * MEBIBYTE
VERIFY = "falaj audit verify"


@value
class Check(Message):
    """One thing that was looked at; `mend` says what to do about it where something should be done."""

    name: str
    state: State
    message: str
    mend: str = ""


@value
class Examination(Message):
    healthy: bool
    checks: tuple[Check, ...]


Checks: TypeAlias = Iterator[Check]


def ok(name: str, message: str) -> Check:
    return Check(name=name, state="ok", message=message)


def warning(name: str, message: str, mend: str) -> Check:
    return Check(name=name, state="warning", message=message, mend=mend)


def broken(name: str, message: str, mend: str) -> Check:
    return Check(name=name, state="broken", message=message, mend=mend)


def examine(home: Home, clock: Clock, environment: Mapping[str, str] = os.environ) -> Examination:
    """Look at everything. What cannot even be looked at is broken too, and the rest is looked at all the same."""
    checks = _examined(home, clock, environment)
    return Examination(healthy=all(check.state != "broken" for check in checks), checks=checks)


def _examined(home: Home, clock: Clock, environment: Mapping[str, str]) -> tuple[Check, ...]:
    if not home.path.is_dir():
        return (broken("home", f"There is no home at {home.path}.", f"falaj up --home {home.path}"),)
    found = [*_guarded("home", lambda: _home(home))]
    try:
        settings = read_settings(home.settings, environment)
    except (FalajError, OSError) as error:
        return (*found, broken("settings", str(error), f"edit {home.settings}"))
    found += _guarded("settings", lambda: _settings(home, environment))
    found += _guarded("files", lambda: _files(home, settings))
    found += _guarded("disk", lambda: _disk(home, settings))
    found += _guarded("storage", lambda: _storage(home, settings))
    if not _was_started(home, settings):
        told = f"The platform was never started here: {home.path} has neither data nor keys yet."
        return (
            *found,
            broken("database", told, f"falaj up --home {home.path}"),
            *_guarded("server", lambda: _server(home, settings)),
        )
    found += _guarded("keys", lambda: _keys(home, settings, clock))
    if not settings.database.url and not home.database.exists():
        restore = f"falaj backup restore FILE --home {home.path}, or start a new platform with falaj up"
        found.append(broken("database", f"There is no database at {home.database}.", restore))
    else:
        found += _guarded("database", lambda: _database(home, settings, clock))
    return (*found, *_guarded("server", lambda: _server(home, settings)))


def _was_started(home: Home, settings: Settings) -> bool:
    """Whether a start left anything behind. A Postgres that does not answer may hold something; the database's check tells."""
    if any(file.exists() for file in (home.database, home.escrow, home.credentials, key_directory(home, settings) / RING)):
        return True
    try:
        return database_location(home, settings).revision() is not None
    except FalajError:
        return True


def _guarded(name: str, look: Callable[[], Checks]) -> list[Check]:
    found: list[Check] = []
    try:
        found.extend(look())
    except FalajError as error:
        found.append(broken(name, str(error), "do what it says, then run: falaj doctor"))
    except OSError as error:
        found.append(broken(name, f"{error.filename or name}: {error.strerror}.", "run it as the owner of the home"))
    return found


def _home(home: Home) -> Checks:
    running = "its platform runs" if is_running(home) else "its platform does not run"
    yield ok("home", f"{home.path}; {running}")


def _settings(home: Home, environment: Mapping[str, str]) -> Checks:
    known = {"FALAJ_KEYS_PASSPHRASE"}
    sections = [name for name in Settings.__dataclass_fields__ if name != "storage"]
    for section in sections:
        known |= {f"FALAJ_{section}_{field}".upper() for field in getattr(Settings(), section).__dataclass_fields__}
    prefixes = tuple(f"FALAJ_{section}_".upper() for section in sections)
    for name in sorted(environment):
        if name.startswith(prefixes) and name not in known:
            yield warning("settings", f"{name} is no setting, so it does nothing.", f"unset {name}, or correct its name")
    yield ok("settings", str(home.settings) if home.settings.exists() else "the defaults; there is no falaj.toml")


def _files(home: Home, settings: Settings) -> Checks:
    """Whoever else has an account on this machine must not read what opens everything."""
    directory = key_directory(home, settings)
    wrong = 0
    for place in (home.path, directory):
        if place.is_dir() and (problem := _open_to_others(place)):
            wrong += 1
            yield broken("files", problem, f"chmod 700 {place}")
    secrets = [home.credentials, home.escrow, home.path / "tls" / "private_key.pem"]
    for file in [*secrets, *(directory / name for name in (RING, UNLOCK_SECRET, KIT))]:
        if file.exists() and (problem := _open_to_others(file)):
            wrong += 1
            yield broken("files", problem, f"chmod 600 {file}")
    if not wrong:
        yield ok("files", "home, keys and credentials are for their owner alone")


def _open_to_others(place: Path) -> str:
    found = place.stat()
    if found.st_uid not in (os.geteuid(), 0) and os.geteuid() != 0:
        return f"{place} belongs to another user."
    return f"{place} can be read by others (mode {found.st_mode & 0o777:o})." if found.st_mode & 0o077 else ""


def _disk(home: Home, settings: Settings) -> Checks:
    places = {home.path, key_directory(home, settings)}
    places |= {Path(storage.directory).expanduser() for storage in (settings.storage or {}).values() if storage.directory}
    for place in sorted(places):
        if not place.exists():
            continue
        free = shutil.disk_usage(place).free
        told = f"{free // MEBIBYTE:,} MiB free for {place}"
        if free < LEAST_SPACE:
            yield broken("disk", told, "free some space; until then writes are refused and reads go on")
        elif free < LITTLE_SPACE:
            yield warning("disk", told, "free some space soon")
        else:
            yield ok("disk", told)


def _storage(home: Home, settings: Settings) -> Checks:
    if unshared := unshared_storage(home, settings):
        yield warning("storage", unshared, SHARE_STORAGE)


def _keys(home: Home, settings: Settings, clock: Clock) -> Checks:
    ring = look_at_ring(home, settings, clock)
    yield ok("keys", f"the ring opens; it has {len(ring.names())} keys")
    if settings.keys.kind == "file":
        if recovery_kit(home, settings).exists():
            mend = "print it with `falaj key kit`, keep it elsewhere, then `falaj key kit --delete`"
            yield warning("keys", "The recovery kit still lies beside the keys it is to recover.", mend)
        if not home.escrow.exists():
            yield warning(
                "keys", "The escrow copy of the ring is missing from the home.", "start the platform; it writes a new one"
            )


def _database(home: Home, settings: Settings, clock: Clock) -> Checks:
    with Inspection(file=home.database, url=settings.database.url) as database:
        if damage := database.damage():
            yield broken("database", f"The database file is damaged: {damage}", "restore it: falaj backup restore FILE")
            return
        yield ok("database", "Postgres answers" if settings.database.url else f"{home.database} is sound")
        revision, newest = database.revision(), newest_revision()
        if revision != newest:
            mend = "falaj upgrade; where the database is of a newer release, install that release"
            yield broken("schema", f"The database is at schema {revision}, this Falaj works with {newest}.", mend)
            return
        yield ok("schema", f"at {revision}")
        copies = [home.heads / FILE, *(home.path / directory / FILE for directory in settings.ledger.copies)]
        yield from database.read(lambda work: list(_ledger(work, home, copies, clock.now())))


def _ledger(work: UnitOfWork, home: Home, copies: Sequence[Path], now: Moment) -> Checks:
    """The newest head: is it signed, does the tree add up to it, do the copies know it. Every leaf: `audit verify`."""
    head = ledger.newest_head(work)
    count, oldest = ledger.unsequenced(work)
    if is_running(home) and oldest is not None and now - oldest > MINUTE:
        yield warning(
            "ledger", f"{count} leaves wait for their index since {oldest}.", f"look at {home.log}, then restart the platform"
        )
    if head is None:
        yield ok("ledger", "empty")
        return
    public = {row.id: bytes(row.public) for row in keys.every(work)}
    if not is_genuine(head, public):
        yield broken("ledger", f"The newest head, of {head.size} leaves, has no valid signature.", VERIFY)
    elif _root(work, head.size) != head.root or ledger.sequenced_count(work) < head.size:
        yield broken("ledger", f"The leaves do not add up to the newest head, of {head.size} leaves.", VERIFY)
    elif strange := [copy for copy in copies if not _is_known(work, _last_copied(copy))]:
        yield broken("ledger", f"{strange[0]} ends with a head that the database has not: the ledger was rolled back.", VERIFY)
    else:
        yield ok("ledger", f"{head.size} leaves under a head signed at {head.at}; every leaf is checked by `{VERIFY}`")
    if head.at > now + MINUTE:
        yield broken(
            "clock", f"The clock says {now}, but the ledger was signed at {head.at}.", "set the clock: timedatectl set-ntp true"
        )
    else:
        yield ok("clock", f"{now}")


def _root(work: UnitOfWork, size: int) -> str:
    try:
        return root_at(size, lambda wanted: ledger.read_nodes(work, wanted)).hex()
    except KeyError:
        return "a node is missing"


def _is_known(work: UnitOfWork, copied: Head | None) -> bool:
    return copied is None or ledger.head_of_size(work, copied.size) == copied


def _last_copied(file: Path) -> Head | None:
    if not file.exists():
        return None
    with file.open("rb") as stream:
        stream.seek(max(0, file.stat().st_size - 2 * LONGEST_LINE))
        whole = [line for line in stream.readlines() if line.endswith(b"\n")]
    try:
        return read_head(whole[-1]) if whole else None
    except ValueError:
        return None


def _server(home: Home, settings: Settings) -> Checks:
    if not is_running(home):
        yield _port(settings)
        return
    url = str(read_document(home.server).get("url", ""))
    try:
        answer = _readiness(url, read_document(home.credentials).get("certificate") or settings.server.certificate)
    except (OSError, HTTPException, ValueError) as error:
        yield broken("server", f"The platform runs, but {url} does not answer: {error}.", "falaj down, then falaj up")
        return
    if answer.get("ready") is True:
        yield ok("server", f"{url} is ready")
    else:
        yield broken("server", f"{url} is not ready: {answer.get('detail')}", f"look at {home.log}")


def _port(settings: Settings) -> Check:
    server = settings.server
    with socket.socket(socket.AF_INET6 if ":" in server.host else socket.AF_INET) as candidate:
        candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            candidate.bind((server.host, server.port))
        except OSError as error:
            mend = "set another [server] port in falaj.toml, or falaj up --port 0"
            return broken("server", f"Nothing could listen on {server.host}:{server.port}: {error.strerror}.", mend)
    return ok("server", f"{server.host}:{server.port} is free")


def _readiness(url: str, certificate: str) -> dict[str, Any]:
    """Ask the platform itself. Its own certificate is trusted here, whoever signed it."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port
    if parts.scheme == "https":
        context = create_default_context(cafile=certificate or None)
        context.verify_flags |= VERIFY_X509_PARTIAL_CHAIN
        connection: HTTPConnection = HTTPSConnection(host, port, timeout=5, context=context)
    else:
        connection = HTTPConnection(host, port, timeout=5)
    try:
        connection.request("GET", "/readyz")
        document = loads(connection.getresponse().read())
    finally:
        connection.close()
    return document if isinstance(document, dict) else {}
