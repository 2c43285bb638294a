"""Backups: one sealed file with everything a home holds, made while it is in use, opened with the key ring or the recovery kit.

The file begins with a line in the clear (which key seals it, and the ring's escrow copy, which only the recovery code opens);
the rest is sealed like any blob. Objects in folders are copied as the ciphertext they are; those in S3 stay where they are.
"""

import json
import os
import secrets
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import IO, Any

from falaj import __version__
from falaj.app.archive import ending, member, members
from falaj.app.home import Home
from falaj.base.clock import Clock, Moment
from falaj.base.errors import Corrupt, FalajError, Invalid
from falaj.base.failpoints import failpoint
from falaj.base.files import full_disk_told, sync_directory
from falaj.base.values import Nothing, value
from falaj.database.binding import Bound, bind, bind_prepared
from falaj.database.dumps import dump, revision_of
from falaj.database.work import Context, Database, UnitOfWork
from falaj.governance.ledger.copies import FILE
from falaj.governance.ledger.store import newest_head
from falaj.keys.errors import KeyNotFound, Unopenable
from falaj.keys.file import FileKeyRing
from falaj.keys.ring import PLATFORM, KeyRing, Wrapped
from falaj.keys.sealing import new_key
from falaj.operations import operations as declared
from falaj.operations.operations import Backup
from falaj.storage.blobs import Blobs
from falaj.storage.errors import ObjectMissing
from falaj.storage.folder import FolderBlobs
from falaj.storage.sealed import Sealed, opened_size, unsealed

MAGIC = "falaj-backup-1"
SUFFIX = ".falaj-backup"
LONGEST_HEADER = 16 * 1024 * 1024


@value
class Manifest:
    """The last file of a backup: what must have been in it before. `header` is the SHA-256 of the line in the clear."""

    version: str
    header: str
    revision: str
    created: str
    tree_size: int
    rows: dict[str, int]
    objects: dict[str, int]


@value
class Source:
    """What is backed up. `settle` runs first, so that most leaves are under a head; `collecting` keeps objects in place."""

    home: Home
    database: Database
    ring: KeyRing
    places: Mapping[str, Blobs]
    clock: Clock
    settle: Callable[[], object]
    collecting: Lock


class BackupService:
    def __init__(self, source: Source) -> None:
        self._source = source

    def bindings(self) -> list[Bound]:
        return [
            bind_prepared(declared.CREATE_BACKUP, lambda _context, _request: make_backup(self._source), self.create),
            bind(declared.LIST_BACKUPS, self.list),
        ]

    def create(self, context: Context, _request: Nothing, made: Backup) -> Backup:
        context.facts.update(backup=made.name, tree_size=made.tree_size)
        return made

    def list(self, _context: Context, _request: Nothing) -> declared.Backups:
        files = sorted(self._source.home.backups.glob(f"*{SUFFIX}"), reverse=True)
        items = (
            Backup(name=file.name, size=file.stat().st_size, created=Moment(file.stat().st_mtime_ns // 1000)) for file in files
        )
        return declared.Backups(items=tuple(items))


def make_backup(source: Source) -> Backup:
    """Write a backup of this moment."""
    source.settle()
    now = source.clock.now()
    name = f"{str(now)[:19].replace(':', '')}-{secrets.token_hex(4)}{SUFFIX}"
    object_id, key = secrets.token_hex(16), new_key()
    wrapped = source.ring.wrap(PLATFORM, key, _context(object_id))
    path = source.home.backups / name
    # Read before the snapshot is taken: copies that know more than the database would look like a rollback.
    copies = source.home.heads / FILE
    heads = copies.read_bytes() if copies.exists() else b""

    def write(work: UnitOfWork) -> int:
        head = newest_head(work)
        tree_size = head.size if head else 0
        # Read after the snapshot is taken: whatever key it needs is then in the escrow copy.
        escrow = source.home.escrow.read_bytes() if source.home.escrow.exists() else b""
        header = {
            "format": MAGIC,
            "object": object_id,
            "key_version": wrapped.version,
            "wrapped": b64encode(wrapped.data).decode(),
            "escrow": b64encode(escrow).decode(),
        }
        file = _BackupFile(path, json.dumps(header).encode() + b"\n")
        contents = _contents(source, work, heads, header=file.header, now=now, tree_size=tree_size)
        Sealed(file, lambda _: key).put(object_id, contents)
        return tree_size

    with source.collecting:
        tree_size = source.database.read(write)
    needed = "the recovery kit" if isinstance(source.ring, FileKeyRing) else "the hardware module that holds the keys"
    return Backup(name=name, size=path.stat().st_size, created=now, tree_size=tree_size, opened_with=needed)


def _contents(source: Source, work: UnitOfWork, heads: bytes, *, header: bytes, now: Moment, tree_size: int) -> Iterator[bytes]:
    rows, objects = dict[str, int](), dict[str, int]()
    for number, part in enumerate(dump(work)):
        rows[part.table] = rows.get(part.table, 0) + part.rows
        yield from member(f"tables/{part.table}/{number:08d}", len(part.lines), (part.lines,))
    yield from member(FILE, len(heads), (heads,))
    if source.home.settings.exists():
        settings = source.home.settings.read_bytes()
        yield from member("falaj.toml", len(settings), (settings,))
    for storage, blobs in source.places.items():
        if isinstance(blobs, FolderBlobs):
            objects[storage] = 0
            for object_id, size in _objects(blobs):
                objects[storage] += 1
                yield from member(f"objects/{storage}/{object_id}", size, blobs.read(object_id, 0, size))
    manifest = {
        "version": __version__,
        "header": sha256(header).hexdigest(),
        "revision": revision_of(work),
        "created": str(now),
        "tree_size": tree_size,
        "rows": rows,
        "objects": objects,
    }
    content = json.dumps(manifest).encode()
    yield from member("manifest.json", len(content), (content,))
    yield ending()


@value
class OpenBackup:
    """A backup that could be unsealed; `walk` reads it once."""

    file: "_BackupFile"
    object_id: str
    key: bytes

    def walk(self) -> Iterator[tuple[str, IO[bytes]]]:
        size = opened_size(self.file.size(self.object_id))
        return members(unsealed(self.file, self.object_id, self.key, size=size, offset=0, length=size))


def read_header(path: Path) -> dict[str, Any]:
    return _read_header(path)[0]


def _read_header(path: Path) -> tuple[dict[str, Any], bytes]:
    """The line in the clear, and its very bytes."""
    try:
        with path.open("rb") as stream:
            line = stream.readline(LONGEST_HEADER)
            header = json.loads(line)
    except (OSError, ValueError, RecursionError) as error:
        raise Invalid(f"{path} cannot be read as a backup: {error}") from None
    if not isinstance(header, dict) or header.get("format") != MAGIC:
        raise Invalid(f"{path} is not a Falaj backup, or of a later release.")
    return header, line


def open_backup(path: Path, ring: KeyRing) -> OpenBackup:
    header, line = _read_header(path)
    try:
        object_id = str(header["object"])
        wrapped = Wrapped(version=int(header["key_version"]), data=b64decode(header["wrapped"]))
    except (KeyError, TypeError, ValueError) as error:
        raise Corrupt(f"The first line of {path} was changed: {error}") from None
    try:
        key = ring.unwrap(PLATFORM, wrapped, _context(object_id))
    except (Unopenable, KeyNotFound):
        raise Corrupt(f"The keys here do not open {path}: another key ring sealed it, or its first line was changed.") from None
    return OpenBackup(file=_BackupFile(path, line), object_id=object_id, key=key)


def read_manifest(content: IO[bytes]) -> Manifest:
    try:
        return Manifest(**json.loads(content.read()))
    except (ValueError, TypeError) as error:
        raise Corrupt(f"The backup's manifest cannot be read: {error}") from None


def verify(backup: OpenBackup) -> Manifest:
    """Unseal everything, and hold it against the manifest. Any changed byte is found on the way."""
    rows, objects, manifest = dict[str, int](), dict[str, int](), None
    for name, content in backup.walk():
        kind, _, rest = name.partition("/")
        place = rest.partition("/")[0]
        if kind == "tables":
            rows[place] = rows.get(place, 0) + sum(chunk.count(b"\n") for chunk in iter(lambda c=content: c.read(1 << 20), b""))  # type: ignore[misc]
        elif kind == "objects":
            objects[place] = objects.get(place, 0) + 1
        elif name == "manifest.json":
            manifest = read_manifest(content)
    if manifest is None:
        raise Corrupt("The backup has no manifest: it was cut.")
    if manifest.header != sha256(backup.file.header).hexdigest():
        raise Corrupt("The first line of the backup was changed; it belongs to another one.")
    if rows != manifest.rows or {name: count for name, count in manifest.objects.items() if count} != objects:
        raise Corrupt("The backup does not hold what its manifest says.")
    return manifest


def _objects(blobs: Blobs) -> Iterator[tuple[str, int]]:
    """Every object with its size; one that garbage collection takes meanwhile is passed over."""
    after = ""
    while page := blobs.list(after, 1000):
        for stored in page:
            try:
                yield stored.id, blobs.size(stored.id)
            except ObjectMissing:
                continue
        after = page[-1].id


def _context(object_id: str) -> bytes:
    return f"backup {object_id}".encode()


class _BackupFile:
    """One file as the store of one object, behind a line in the clear: what `Sealed` needs to write and read a backup."""

    def __init__(self, path: Path, header: bytes) -> None:
        self.path = path
        self.header = header

    def put(self, _object_id: str, chunks: Iterator[bytes]) -> int:
        fresh = self.path.with_suffix(".partial")
        size = 0
        try:
            with full_disk_told(self.path), open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
                stream.write(self.header)
                for chunk in chunks:
                    size += stream.write(chunk)
                stream.flush()
                os.fsync(stream.fileno())
            failpoint("backup.written")
            fresh.rename(self.path)
        except BaseException:
            fresh.unlink(missing_ok=True)
            raise
        sync_directory(self.path.parent)
        return size

    def read(self, _object_id: str, offset: int, length: int) -> Iterator[bytes]:
        with self.path.open("rb") as stream:
            stream.seek(len(self.header) + offset)
            while length > 0 and (chunk := stream.read(min(length, 1 << 20))):
                length -= len(chunk)
                yield chunk

    def size(self, _object_id: str) -> int:
        return self.path.stat().st_size - len(self.header)

    def delete(self, _object_id: str) -> None:
        self.path.unlink(missing_ok=True)

    def list(self, after: str, limit: int) -> tuple[Any, ...]:
        raise FalajError("A backup is one object.")

    def probe(self) -> None: ...


def sweep(home: Home) -> None:
    """Remove backups that a crash cut off. The home's lock must be held, so that none is being written."""
    for file in home.backups.glob("*.partial"):
        file.unlink(missing_ok=True)
