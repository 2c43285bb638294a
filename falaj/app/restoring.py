"""Restoring a backup into an empty home, on this machine or another, from either engine to either engine."""

import re
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path
from typing import IO

from falaj.app.backends import database_location, key_directory, open_ring
from falaj.app.backups import Manifest, open_backup, read_header, verify
from falaj.app.home import Home
from falaj.app.settings import Settings, read_settings
from falaj.base.clock import Clock
from falaj.base.errors import Conflict, Corrupt, Invalid
from falaj.base.files import write_durably
from falaj.database.dumps import Loader
from falaj.governance.ledger.copies import FILE
from falaj.keys.file import RING, recover
from falaj.keys.ring import KeyRing
from falaj.storage.folder import FolderBlobs

CHUNK = 1 << 20
OBJECT = re.compile(r"objects/([a-z0-9][a-z0-9._-]{0,99})/([0-9a-f]{32})")
TABLE = re.compile(r"tables/([a-z_]+)/\d{8}")


def ring_for(home: Home, settings: Settings, clock: Clock, backup: Path, code: str) -> KeyRing:
    """The ring that opens this backup: the one that is here, or the one that the recovery code brings back from the backup."""
    directory = key_directory(home, settings)
    if settings.keys.kind == "file" and not (directory / RING).exists():
        escrow = b64decode(read_header(backup).get("escrow", ""))
        if not code or not escrow:
            raise Invalid(f"There is no key ring in {directory}: give the recovery kit with --kit FILE.")
        home.prepare()
        write_durably(home.escrow, escrow)
        recover(home.escrow, code, directory)
    return open_ring(home, settings, clock, home_exists=True)


def restore(
    home: Home, settings: Settings, clock: Clock, backup: Path, *, code: str = "", progress: Callable[[str], None]
) -> Manifest:
    """Fill an empty home. The whole backup is verified first, so that nothing is begun that cannot be finished."""
    location = database_location(home, settings)
    if location.revision() is not None:
        raise Conflict(f"{home.path} or its database is not empty; restore into a home that does not exist yet.")
    opened = open_backup(backup, ring_for(home, settings, clock, backup, code))
    progress("verifying the backup")
    manifest = verify(opened)
    home.prepare()
    location.migrate(manifest.revision)
    engine = location.engine()
    try:
        loader = Loader(engine)
        for name, content in opened.walk():
            progress(name)
            _restore(home, loader, name, content)
    finally:
        engine.dispose()
    location.migrate()
    return manifest


def _restore(home: Home, loader: Loader, name: str, content: IO[bytes]) -> None:
    """Put one file of the archive where it belongs. Names are matched, never used as paths."""
    if found := TABLE.fullmatch(name):
        loader.load(found[1], content.read())
    elif found := OBJECT.fullmatch(name):
        FolderBlobs(_folder(home, found[1])).put(found[2], iter(lambda: content.read(CHUNK), b""))
    elif name == FILE:
        write_durably(home.heads / FILE, content.read())
    elif name == "falaj.toml":
        if not home.settings.exists():
            write_durably(home.settings, content.read())
    elif name != "manifest.json":
        raise Corrupt(f"The backup holds {name!r}, which no backup should.")


def _folder(home: Home, storage: str) -> Path:
    known = (read_settings(home.settings).storage or {}).get(storage)
    return Path(known.directory).expanduser() if known and known.directory else home.blobs
