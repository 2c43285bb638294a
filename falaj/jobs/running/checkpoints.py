"""Folders in which jobs keep their checkpoints: each a job's own, beside those of others, and there for as long as the job may
need it. No job sees the folder that they are in. When they go is decided by whoever knows how jobs ended."""

import contextlib
import errno
import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from falaj.jobs.running import trees

_NAME: Final = re.compile(r"[0-9a-f]{32}")  # the id of a job
_GONE: Final = ".gone"


def taken(places: Sequence[str], user: int) -> str:
    """The first of the places, made where it is not there yet, as what its user may write in. Then the next that is there
    becomes it: those are of jobs that this one repeats, and a folder is taken by one of them at most."""
    own = Path(places[0])
    own.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if own.parent.stat().st_mode & stat.S_IWOTH:
        raise PermissionError(errno.EACCES, "everybody may write where the folders of all jobs are")
    for before in places[1:]:
        if os.path.lexists(own):
            break
        try:
            Path(before).rename(own)
        except FileNotFoundError:
            continue
        except OSError:
            if not os.path.lexists(own):  # else another host was faster
                raise
    own.mkdir(mode=0o700, exist_ok=True)
    if own.is_symlink():
        raise NotADirectoryError(errno.ENOTDIR, "it is a link")
    os.utime(own)  # who looks for unused ones sees that this is used
    if user:
        _give(own, user)
    return str(own)


def kept(root: Path) -> list[str]:
    """The names of all there are; those whose removal was begun go now."""
    try:
        names = [place.name for place in root.iterdir()]
    except FileNotFoundError:
        return []
    for name in names:
        if name.endswith(_GONE) and _NAME.fullmatch(name.removesuffix(_GONE)):
            with contextlib.suppress(OSError):  # then it is tried again
                trees.remove(root / name)
    return [name for name in names if _NAME.fullmatch(name)]


def remove(root: Path, name: str) -> None:
    """All of it or nothing, for whoever would take it: only what nobody can take any more is emptied."""
    gone = root / f"{name}{_GONE}"
    with contextlib.suppress(FileNotFoundError):
        (root / name).rename(gone)
        trees.remove(gone)


def _give(place: Path, user: int) -> None:
    """Everything in it, and no link is followed: what ran in it before may have been somebody else. On another host the job may
    be at work in it already, and what it replaces meanwhile is its own."""
    for _, folders, files, opened in os.fwalk(place, follow_symlinks=False):
        os.fchown(opened, user, user)
        for name in (*folders, *files):
            with contextlib.suppress(FileNotFoundError):
                os.chown(name, user, user, dir_fd=opened, follow_symlinks=False)
