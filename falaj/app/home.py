"""The home: where one platform keeps its files, and the lock that lets one control plane at a time use them."""

import fcntl
import json
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from falaj.base.errors import Conflict
from falaj.base.files import write_durably
from falaj.base.values import value


@value
class Home:
    """Paths of one home. Only this platform's own code makes them; no client ever names one."""

    path: Path

    @property
    def settings(self) -> Path:
        return self.path / "falaj.toml"

    @property
    def database(self) -> Path:
        return self.path / "falaj.db"

    @property
    def blobs(self) -> Path:
        return self.path / "blobs"

    @property
    def online(self) -> Path:
        """The newest feature values, for serving; they can be made again at any time."""
        return self.path / "online"

    @property
    def heads(self) -> Path:
        return self.path / "heads"

    @property
    def backups(self) -> Path:
        return self.path / "backups"

    @property
    def escrow(self) -> Path:
        return self.path / "ring.escrow"

    @property
    def credentials(self) -> Path:
        return self.path / "credentials.json"

    @property
    def server(self) -> Path:
        return self.path / "server.json"

    @property
    def jobs(self) -> Path:
        """What jobs of this host need while they run."""
        return self.path / "jobs"

    @property
    def log(self) -> Path:
        return self.path / "logs" / "falaj.log"

    @property
    def restoring(self) -> Path:
        """Lies there while a backup is being restored; left behind, it says that the home is not whole."""
        return self.path / "restoring"

    @property
    def keys(self) -> Path:
        """Outside the home, so that whoever copies the home has not copied the keys."""
        return self.path.with_name(self.path.name + ".keys")

    def prepare(self) -> None:
        for directory in (self.path, self.keys):
            _check_ours(directory)
        for directory in (self.path, self.blobs, self.heads, self.backups, self.log.parent):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)


def _check_ours(directory: Path) -> None:
    """Whoever else may write there could put files of theirs in the place of ours."""
    try:
        found = directory.stat()
    except FileNotFoundError:
        return
    if found.st_uid not in (os.geteuid(), 0):
        raise Conflict(f"{directory} belongs to another user (id {found.st_uid}); choose another place with --home.")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise Conflict(f"Others may write in {directory}; close it first with: chmod go-w {directory}")


def default_home() -> Home:
    return Home(path=Path(os.environ.get("FALAJ_HOME", "~/.falaj")).expanduser().absolute())


@contextmanager
def locked(home: Home, *, wait: float = 0) -> Iterator[None]:
    """Hold the home for one control plane; the lock goes with the process, however it ends."""
    with open(home.path / "lock", "w") as file:
        deadline = time.monotonic() + wait
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise Conflict(
                        f"Another Falaj runs on {home.path}; stop it first with: falaj down --home {home.path}"
                    ) from None
                time.sleep(0.1)
        yield


def is_running(home: Home) -> bool:
    if not (home.path / "lock").exists():
        return False
    with open(home.path / "lock") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def write_private(file: Path, document: dict[str, Any]) -> None:
    """Replace a small file at once and for its owner's eyes only."""
    write_durably(file, json.dumps(document, indent=2).encode())


def read_document(file: Path) -> dict[str, Any]:
    try:
        document = json.loads(file.read_text())
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}
