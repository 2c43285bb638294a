"""The MPS daemons of a host, which divide a card among several jobs at once."""

import contextlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final

_PATIENCE: Final = 20.0


class NoSharing(Exception):
    """A card's daemon does not start; what it said."""


class Sharing:
    """The MPS daemons of a host, one for each card that is shared. They outlive whoever started them, and are found again."""

    def __init__(self) -> None:
        self._program = shutil.which("nvidia-cuda-mps-control")

    @property
    def is_possible(self) -> bool:
        return self._program is not None

    def pipes(self, card: str, user: int) -> str:
        """Where the daemon of a card listens. Each serves one user, so that all who share a card have to be the same."""
        if self._program is None:
            raise NoSharing("there is no nvidia-cuda-mps-control on this host")
        place = _runtime_folder() / card
        pipes, logs = place / "pipes", place / "log"
        for folder in (place, pipes, logs):
            folder.mkdir(mode=0o711, parents=True, exist_ok=True)
            if user and folder is not place:
                os.chown(folder, user, user)
        if _lives(pipes / "nvidia-cuda-mps-control.pid"):
            return str(pipes)
        where = {
            "PATH": "/usr/bin:/bin",
            "CUDA_VISIBLE_DEVICES": card,
            "CUDA_MPS_PIPE_DIRECTORY": str(pipes),
            "CUDA_MPS_LOG_DIRECTORY": str(logs),
        }
        own: dict[str, Any] = {"user": user, "group": user, "extra_groups": []} if user else {}
        try:
            told = subprocess.run(
                [self._program, "-d"],
                env=where,
                timeout=_PATIENCE,
                check=False,
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                cwd="/",
                **own,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise NoSharing(f"the card's MPS daemon does not start: {error}") from None
        if told.returncode:
            words = told.stderr.decode(errors="replace").strip() or f"it ended with {told.returncode}"
            raise NoSharing(f"the card's MPS daemon does not start: {words[:500]}")
        return str(pipes)


def _runtime_folder() -> Path:
    """Short, for the names of sockets may not be long; and nobody else's."""
    place = Path("/run/falaj-mps") if os.geteuid() == 0 else Path(tempfile.gettempdir()) / f"falaj-mps-{os.geteuid()}"
    place.mkdir(mode=0o711, exist_ok=True)
    if place.is_symlink() or place.stat().st_uid != os.geteuid():
        raise NoSharing(f"{place} belongs to somebody else")
    return place


def _lives(file: Path) -> bool:
    with contextlib.suppress(OSError, ValueError):
        return "mps-control" in Path(f"/proc/{int(file.read_text())}/cmdline").read_text()
    return False
