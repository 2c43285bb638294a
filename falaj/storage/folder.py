"""Objects as files in a folder, spread over 256 subfolders."""

import fcntl
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from falaj.base.clock import Moment
from falaj.base.files import full_disk_told, sync_directory
from falaj.storage.blobs import OBJECT_ID, Stored, checked
from falaj.storage.errors import ObjectMissing, StorageUnavailable

PIECE = 1 << 20
INCOMING = "incoming"


class FolderBlobs:
    """`Blobs` in a folder. A file is written under `incoming/`, made durable, and then takes its name."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._incoming = root / INCOMING
        with full_disk_told(root):
            self._incoming.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._sweep()

    def put(self, object_id: str, chunks: Iterator[bytes]) -> int:
        final = self._file(object_id)
        temporary = self._incoming / f"{object_id}.{secrets.token_hex(8)}"
        try:
            with full_disk_told(self._root):
                size = self._write(temporary, chunks)
                self._make_folder(final.parent)
                temporary.rename(final)
                sync_directory(final.parent)
        except FileNotFoundError as error:
            raise StorageUnavailable(f"The folder {self._root} is gone; is its disk mounted?", delay=5) from error
        finally:
            with suppress(FileNotFoundError):
                temporary.unlink()
        return size

    def open(self, object_id: str) -> IO[bytes]:
        """The object as the file that it is, for those who need a descriptor of it."""
        try:
            return self._file(object_id).open("rb", buffering=0)
        except FileNotFoundError:
            raise ObjectMissing(f"There is no object {object_id}.") from None

    def read(self, object_id: str, offset: int, length: int) -> Iterator[bytes]:
        with self.open(object_id) as stream:
            stream.seek(offset)
            while length > 0 and (piece := stream.read(min(PIECE, length))):
                length -= len(piece)
                yield piece

    def size(self, object_id: str) -> int:
        try:
            return self._file(object_id).stat().st_size
        except FileNotFoundError:
            raise ObjectMissing(f"There is no object {object_id}.") from None

    def delete(self, object_id: str) -> None:
        file = self._file(object_id)
        with suppress(FileNotFoundError):
            file.unlink()
            sync_directory(file.parent)

    def list(self, after: str, limit: int) -> tuple[Stored, ...]:
        found: list[Stored] = []
        for number in range(int(after[:2] or "0", 16), 256):
            with suppress(FileNotFoundError):
                names = (entry.name for entry in (self._root / f"{number:02x}").iterdir())
                later = sorted(name for name in names if OBJECT_ID.fullmatch(name) and name > after)
                found += self._stored(later[: limit - len(found)])
            if len(found) >= limit:
                break
        return tuple(found)

    def probe(self) -> None:
        if not os.access(self._incoming, os.W_OK | os.X_OK):
            raise StorageUnavailable(f"The folder {self._root} cannot be written to; is its disk mounted?", delay=5)

    def _file(self, object_id: str) -> Path:
        return self._root / checked(object_id)[:2] / object_id

    def _write(self, file: Path, chunks: Iterator[bytes]) -> int:
        size = 0
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            fcntl.flock(descriptor, fcntl.LOCK_SH)  # says to `_sweep` that somebody is writing
            for chunk in chunks:
                size += stream.write(chunk)
            stream.flush()
            os.fsync(descriptor)
        return size

    def _stored(self, names: Sequence[str]) -> Iterator[Stored]:
        for name in names:
            with suppress(FileNotFoundError):
                yield Stored(id=name, modified=Moment(self._file(name).stat().st_mtime_ns // 1000))

    def _make_folder(self, folder: Path) -> None:
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            return
        sync_directory(self._root)

    def _sweep(self) -> None:
        """Remove what killed processes left half written: files in `incoming/` that nobody holds."""
        for entry in self._incoming.iterdir():
            with suppress(FileNotFoundError, BlockingIOError), entry.open("rb") as stream:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                entry.unlink()
