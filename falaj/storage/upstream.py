"""Objects of others, read where they are and never written: in a folder here; `s3` has those in a bucket."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Protocol

from falaj.base.errors import Conflict, Forbidden, Invalid, TooLarge
from falaj.base.values import value
from falaj.storage.errors import ObjectMissing, StorageRefused, StorageUnavailable

MOST_LISTED: Final = 100_000
_PIECE: Final = 1 << 20


class ObjectChanged(Conflict):
    """The object is not the one that was listed."""


@value
class Entry:
    """`path` is below the prefix. `mark` is another one once the object is written anew."""

    path: str
    size: int
    mark: str


class Objects(Protocol):
    """Thread-safe. Raises `ObjectMissing` and `ObjectChanged`, where what is there is not what was listed; `StorageRefused`
    where the credentials are, and `StorageUnavailable` where nobody answers. No message says more of a place than its name."""

    def list(self, folder: str) -> tuple[Entry, ...]:
        """Every object below a folder, in the order of their paths; `TooLarge` beyond `MOST_LISTED`."""
        ...

    def look(self, path: str) -> Entry:
        """One of them as it is now."""
        ...

    def read(self, entry: Entry) -> Iterator[bytes]:
        """All of its bytes. Raises when the first chunk is asked for."""
        ...


class FolderObjects:
    """Files below `root`; links that lead out of it are refused."""

    def __init__(self, root: Path, name: str) -> None:
        self._root, self._name = root, name

    def list(self, folder: str) -> tuple[Entry, ...]:
        found: list[Entry] = []
        self._refuse_outside(folder)
        for where, folders, files in os.walk(self._root / folder, onerror=self._refuse_unlisted):
            folders.sort()
            for file in files:
                entry = self._entry(Path(where) / file)
                found += [entry] if entry else []
            if len(found) > MOST_LISTED:
                raise too_many(self._name)
        return tuple(sorted(found, key=lambda entry: entry.path))

    def look(self, path: str) -> Entry:
        self._refuse_outside(path)
        found = self._entry(self._root / path)
        if found is None:
            raise ObjectMissing(f"There is no {path!r} in {self._name}.")
        return found

    def read(self, entry: Entry) -> Iterator[bytes]:
        try:
            file = os.open(self._root / entry.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            raise ObjectMissing(f"There is no {entry.path!r} in {self._name}.") from None
        except PermissionError:
            raise StorageRefused(f"{self._name} refuses to be read.") from None
        except OSError as error:
            raise StorageUnavailable(f"{self._name} cannot be read: {error.strerror}.", delay=2) from None
        with os.fdopen(file, "rb", buffering=0) as opened:
            if not Path(f"/proc/self/fd/{file}").readlink().is_relative_to(self._root.resolve()):
                raise _outside(entry.path, self._name)
            if _mark(os.fstat(file)) != entry.mark:
                raise ObjectChanged(f"{entry.path!r} in {self._name} is not what it was.")
            while chunk := opened.read(_PIECE):
                yield chunk

    def _refuse_unlisted(self, error: OSError) -> None:
        """A table without the rows of a folder that may not be read would look like all of it."""
        if isinstance(error, PermissionError):
            raise StorageRefused(f"{self._name} refuses to be read.") from None

    def _refuse_outside(self, path: str) -> None:
        """Not even names are told of what is behind a link that leads out."""
        if not (self._root / path).resolve().is_relative_to(self._root.resolve()):
            raise _outside(path, self._name)

    def _entry(self, path: Path) -> Entry | None:
        try:
            found = path.stat(follow_symlinks=False)
        except FileNotFoundError:
            return None
        if not path.is_file() or path.is_symlink():
            return None
        name = str(path.relative_to(self._root))
        if not name.isascii() and any("\ud800" <= letter <= "\udfff" for letter in name):
            raise Invalid(f"{name!a} in {self._name} is no text in UTF-8: name the file otherwise.")
        return Entry(path=name, size=found.st_size, mark=_mark(found))


def _outside(path: str, name: str) -> Forbidden:
    return Forbidden(f"{path!r} leads out of {name}.", rule="external.place")


def too_many(name: str) -> TooLarge:
    return TooLarge(f"More than {MOST_LISTED} objects are there in {name}: register a folder further below.")


def _mark(found: os.stat_result) -> str:
    return f"{found.st_ino:x}-{found.st_size:x}-{found.st_mtime_ns:x}"
