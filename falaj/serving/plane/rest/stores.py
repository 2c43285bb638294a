"""Where asynchronous answers wait to be fetched: sealed, in a folder that all workers of a host share."""

import asyncio
import hashlib
import os
import re
import secrets
import time
from collections import Counter
from pathlib import Path
from typing import Final, Protocol

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from falaj.base.clock import SECOND, Clock
from falaj.base.errors import NotFound, Unavailable
from falaj.base.values import value

_ID: Final = re.compile(r"[0-9a-f]{32}")
_NONCE: Final = 12
_ABOUT: Final = b"falaj-asynchronous-answer:"
_COUNTED_EVERY: Final = 1.0
SHARE: Final = 4  # a project may have one part in so many of the room, so that it does not take it from all others
_TAG: Final = 8
_PART_LIVES: Final = 60.0  # of a file that is being written; its time is set last


def new_id(caller: str) -> str:
    """Nobody can guess it. It begins with a tag of the caller's project, which is what comes before the colon."""
    project = caller.partition(":")[0]
    return hashlib.blake2b(project.encode(), digest_size=_TAG // 2).hexdigest() + secrets.token_hex(12)


@value
class Kept:
    """An answer as it will be sent."""

    status: int
    kind: bytes
    lines: bytes
    body: bytes


class Store(Protocol):
    """Moments are microseconds. An answer is found only by the caller who asked, and only until it expires; everything else
    is `NotFound` in the same words. `open` raises `Unavailable` when there is no room for more."""

    async def open(self, id: str, caller: str, expires: int) -> None: ...

    async def finish(self, id: str, caller: str, expires: int, kept: Kept) -> None: ...

    async def read(self, id: str, caller: str) -> Kept | None:
        """None while the prediction is under way."""
        ...


def _missing() -> NotFound:
    return NotFound("there is no such request, or its answer has expired")


def _full() -> Unavailable:
    return Unavailable("too many asynchronous answers wait to be fetched; try again", delay=10)


class _Entry(msgspec.Struct, array_like=True):
    caller: str
    expires: int
    kept: tuple[int, bytes, bytes, bytes] | None


class FolderStore:
    """A file for each answer, named by its id and sealed with AES-GCM under `key` (32 bytes), so that any worker with the key
    can read what another wrote, and nobody who merely sees the disk can. A file's time is when it expires."""

    def __init__(
        self, folder: Path, key: bytes, clock: Clock, *, entries: int = 10_000, size: int = 1024 * 1024 * 1024
    ) -> None:
        self._folder = folder
        self._seal = AESGCM(key)
        self._clock = clock
        self._entries = entries
        self._size = size
        self._counted = 0.0
        self._counts: Counter[str] = Counter()  # of files, by the tag of their project
        self._sizes: Counter[str] = Counter()

    async def open(self, id: str, caller: str, expires: int) -> None:
        await self._apart(self._open, id, _Entry(caller, expires, None))

    async def finish(self, id: str, caller: str, expires: int, kept: Kept) -> None:
        entry = _Entry(caller, expires, (kept.status, kept.kind, kept.lines, kept.body))
        await self._apart(self._write, id, entry)

    async def read(self, id: str, caller: str) -> Kept | None:
        if _ID.fullmatch(id) is None:
            raise _missing()
        entry = await asyncio.get_running_loop().run_in_executor(None, self._read, id)
        if entry.caller != caller or entry.expires <= self._clock.now():
            raise _missing()
        if entry.kept is None:
            return None
        status, kind, lines, body = entry.kept
        return Kept(status=status, kind=kind, lines=lines, body=body)

    async def _apart(self, work: "_Work", id: str, entry: _Entry) -> None:
        await asyncio.get_running_loop().run_in_executor(None, work, id, entry)

    def _open(self, id: str, entry: _Entry) -> None:
        if time.monotonic() - self._counted > _COUNTED_EVERY:
            self._count_and_forget()
        for many, most in ((self._counts, self._entries), (self._sizes, self._size)):
            if many.total() >= most or many[id[:_TAG]] >= -(-most // SHARE):
                raise _full()
        self._write(id, entry)
        self._counts[id[:_TAG]] += 1

    def _write(self, id: str, entry: _Entry) -> None:
        nonce = secrets.token_bytes(_NONCE)
        sealed = nonce + self._seal.encrypt(nonce, msgspec.msgpack.encode(entry), _ABOUT + id.encode())
        beside = self._folder / f"{id}.{secrets.token_hex(4)}.part"
        try:
            with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(sealed)
            os.utime(beside, (entry.expires / SECOND, entry.expires / SECOND))
            beside.replace(self._folder / id)
        except OSError as error:
            beside.unlink(missing_ok=True)
            raise Unavailable(f"asynchronous answers cannot be kept: {error.strerror}", delay=10) from None
        self._sizes[id[:_TAG]] += len(sealed)

    def _read(self, id: str) -> _Entry:
        try:
            sealed = (self._folder / id).read_bytes()
            opened = self._seal.decrypt(sealed[:_NONCE], sealed[_NONCE:], _ABOUT + id.encode())
            return msgspec.msgpack.decode(opened, type=_Entry)
        except (OSError, InvalidTag, ValueError):
            raise _missing() from None

    def _count_and_forget(self) -> None:
        """Other workers write and forget here too, so the figures are taken from the folder."""
        self._counted, now = time.monotonic(), self._clock.now() / SECOND
        counts, sizes = Counter[str](), Counter[str]()
        for file in self._folder.iterdir():
            try:
                about = file.stat()
                if about.st_mtime <= (now if _ID.fullmatch(file.name) else now - _PART_LIVES):
                    file.unlink()
                    continue
            except FileNotFoundError:
                continue
            counts[file.name[:_TAG]] += 1
            sizes[file.name[:_TAG]] += about.st_size
        self._counts, self._sizes = counts, sizes


class _Work(Protocol):
    def __call__(self, id: str, entry: _Entry) -> None: ...
