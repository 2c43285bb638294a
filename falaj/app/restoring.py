"""Restoring a backup into an empty home, on this machine or another, from either engine to either engine."""

import os
import re
from base64 import b64decode
from binascii import Error as NoBase64
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

from falaj.app.backends import database_location, key_directory, open_ring, open_storages
from falaj.app.backups import Manifest, OpenBackup, open_backup, read_header, verify
from falaj.app.home import Home, locked
from falaj.app.settings import Settings, read_settings
from falaj.base.clock import Clock
from falaj.base.errors import Conflict, Corrupt, Invalid
from falaj.base.files import write_durably
from falaj.database.dumps import Loader
from falaj.governance.ledger.copies import FILE
from falaj.keys.file import PASSPHRASE_VARIABLE, RING, FileKeyRing, recover
from falaj.storage.blobs import Blobs

CHUNK = 1 << 20
OBJECT = re.compile(r"objects/([a-z0-9][a-z0-9._-]{0,99})/([0-9a-f]{32})")
TABLE = re.compile(r"tables/([a-z_]+)/\d{8}")
SETTINGS = "falaj.toml"


def restore(
    home: Home, settings: Settings, clock: Clock, backup: Path, *, code: str = "", progress: Callable[[str], None]
) -> Manifest:
    """Fill an empty home. The whole backup is verified first, so that nothing is begun that cannot be finished."""
    _refuse_unless_empty(home)
    opened = _open(home, settings, clock, backup, code)
    progress("verifying the backup")
    manifest = verify(opened)
    settings = _settings_to_come(home, settings, opened)
    location = database_location(home, settings)
    if location.revision() is not None:
        raise Conflict(
            "The database to restore into is not empty. Name another one in FALAJ_DATABASE_URL, or in a falaj.toml that you put"
            f" into {home.path} before restoring; an empty url means SQLite in the home."
        )
    home.prepare()
    with locked(home):
        home.restoring.touch(mode=0o600)
        _bring_ring(home, settings, backup, code)
        location.migrate(manifest.revision)
        engine = location.engine()
        try:
            loader, places = Loader(engine), open_storages(home, settings)
            for name, content in opened.walk():
                progress(name)
                _restore(home, loader, places, name, content)
            loader.go_on_counting()
        finally:
            engine.dispose()
        location.migrate()
        home.restoring.unlink()
    return manifest


def _refuse_unless_empty(home: Home) -> None:
    """Settings may lie there already; anything else belongs to a platform."""
    traces = (home.database, home.escrow, home.credentials, home.heads / FILE, home.restoring)
    if found := [trace for trace in traces if trace.exists()]:
        raise Conflict(f"{home.path} is not empty ({found[0].name} is there); restore into a home that does not exist yet.")


def _open(home: Home, settings: Settings, clock: Clock, backup: Path, code: str) -> OpenBackup:
    """With the ring that is here, or with the one that the recovery code brings back. Neither writes into the home yet."""
    if settings.keys.kind != "file":
        return open_backup(backup, open_ring(home, settings, clock, home_exists=True))
    directory = key_directory(home, settings)
    directory.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=directory.parent, prefix=".restoring-") as place:  # keys stay on the disk they are meant for
        escrow, keys, passphrase = Path(place) / "escrow", directory, os.environ.get(PASSPHRASE_VARIABLE, "")
        if not (directory / RING).exists():
            escrow.write_bytes(_escrow(backup, directory, code))
            keys, passphrase = Path(place) / "keys", ""
            recover(escrow, code, keys)
        return open_backup(backup, FileKeyRing(keys, escrow=escrow, clock=clock, passphrase=passphrase))


def _bring_ring(home: Home, settings: Settings, backup: Path, code: str) -> None:
    directory = key_directory(home, settings)
    if settings.keys.kind == "file" and not (directory / RING).exists():
        write_durably(home.escrow, _escrow(backup, directory, code))
        recover(home.escrow, code, directory, passphrase=os.environ.get(PASSPHRASE_VARIABLE, ""))


def _escrow(backup: Path, directory: Path, code: str) -> bytes:
    try:
        escrow = b64decode(read_header(backup)["escrow"], validate=True)
    except (KeyError, TypeError, NoBase64) as error:
        raise Corrupt(f"The first line of {backup} was changed: {error}") from None
    if not code or not escrow:
        raise Invalid(f"There is no key ring in {directory}: give the recovery kit with --kit FILE.")
    return escrow


def _settings_to_come(home: Home, settings: Settings, opened: OpenBackup) -> Settings:
    """What will hold once the home is restored: its own settings where it has some, and those in the backup otherwise."""
    if home.settings.exists():
        return settings
    with TemporaryDirectory() as place:
        for name, content in opened.walk():
            if name == SETTINGS:
                write_durably(Path(place) / SETTINGS, content.read())
                break
        return read_settings(Path(place) / SETTINGS)


def _restore(home: Home, loader: Loader, places: Mapping[str, Blobs], name: str, content: IO[bytes]) -> None:
    """Put one file of the archive where it belongs. Names are matched, never used as paths."""
    if found := TABLE.fullmatch(name):
        loader.load(found[1], content.read())
    elif found := OBJECT.fullmatch(name):
        if found[1] not in places:
            raise Invalid(f"The backup holds objects of the storage {found[1]!r}; add [storage.{found[1]}] to falaj.toml.")
        places[found[1]].put(found[2], iter(lambda: content.read(CHUNK), b""))
    elif name == FILE:
        write_durably(home.heads / FILE, content.read())
    elif name == SETTINGS:
        if not home.settings.exists():
            write_durably(home.settings, content.read())
    elif name != "manifest.json":
        raise Corrupt(f"The backup holds {name!r}, which no backup should.")
