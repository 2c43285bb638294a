"""The folder of one attempt: what the engine and its keeper tell each other, as files that are whole or not there.

A lock in it is held from before the folder is seen until its keeper has ended: the lock says whether anybody keeps it.
"""

import fcntl
import json
import os
from pathlib import Path
from typing import Any, Final

ORDER: Final = "order.json"  # what is to be run, without anything secret
STATUS: Final = "status.json"  # how it goes
STOP: Final = "stop.json"  # until when it is to end, by the clock that all processes of a machine share
ENDED: Final = "ended.json"  # how it ended: the last word
LOCK: Final = "lock"
LOCK_DESCRIPTOR: Final = 3  # the keeper's
LOG: Final = "log"
SOURCE: Final = "source.tar"
WORK: Final = "work"
TROUBLE: Final = "trouble"  # what a keeper says that fails itself


def write(path: Path, document: dict[str, Any], *, durable: bool = True) -> None:
    """Replaces the whole file at once; where `durable`, it has reached the disk when this returns."""
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(document, file)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    beside.replace(path)
    if durable:
        settle(path.parent)


def read(path: Path) -> dict[str, Any] | None:
    """None where there is none."""
    try:
        return json.loads(path.read_bytes())  # type: ignore[no-any-return]
    except FileNotFoundError:
        return None


def settle(folder: Path) -> None:
    """The names in a folder reach the disk."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def take(path: Path, *, shared: bool = False, create: bool = True) -> int | None:
    """A descriptor that holds the lock for as long as it, or a copy of it, is open; None while another holds it."""
    opened = os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o600)
    try:
        fcntl.flock(opened, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(opened)
        return None
    return opened
