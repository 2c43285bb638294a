"""Checkpoints as folders: one that is being written is hidden, one that has its name is whole."""

import re
import secrets
import shutil
from pathlib import Path
from typing import Final

from falaj.base.files import full_disk_told, sync_directory

VARIABLE: Final = "FALAJ_CHECKPOINTS"  # where a job has its own
_NAME: Final = re.compile(r"^(\d{8})-step-(\d+)-[0-9a-f]{16}$")
_WRITING: Final = ".writing-"
_GOING: Final = ".going-"


def names(folder: Path) -> list[str]:
    """Of all that were published, oldest first."""
    if not folder.is_dir():
        return []
    return sorted(one.name for one in folder.iterdir() if _NAME.match(one.name))


def next_name(folder: Path, step: int) -> str:
    """The order is that of saving, not of steps: a training that went back to an earlier step goes on from there."""
    newest = [int(name[:8]) for name in names(folder)[-1:]]
    return f"{(newest[0] if newest else 0) + 1:08}-step-{step}-{secrets.token_hex(8)}"


def begin(folder: Path, name: str) -> None:
    """Makes the hidden folder. What earlier ones, which died, left behind goes first: it may be what fills the disk."""
    with full_disk_told(folder):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for left in folder.iterdir():
            if left.name.startswith((_WRITING, _GOING)):
                shutil.rmtree(left, ignore_errors=True)
        being_written(folder, name).mkdir(mode=0o700)


def being_written(folder: Path, name: str) -> Path:
    return folder / f"{_WRITING}{name}"


def publish(folder: Path, name: str) -> None:
    """From here on it exists, also after a power failure."""
    with full_disk_told(folder):
        hidden = being_written(folder, name)
        sync_directory(hidden)
        hidden.rename(folder / name)
        sync_directory(folder)


def abandon(folder: Path, name: str) -> None:
    shutil.rmtree(being_written(folder, name), ignore_errors=True)


def remove(folder: Path, name: str) -> None:
    """Loses its name first: what is half removed is no checkpoint."""
    going = folder / f"{_GOING}{name}"
    (folder / name).rename(going)
    shutil.rmtree(going, ignore_errors=True)
