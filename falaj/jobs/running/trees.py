"""Folders that a job filled, entered and removed by descriptors: no path is too long for that, and no link leads out.

Nothing here calls itself, and few descriptors are open at a time, however deep a job has dug.
"""

import contextlib
import os
import stat
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Final

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NAME_ALONE: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC  # needs no rights in the folder itself
_AGAIN: Final = 100  # times that another who removes the same may have moved something up meanwhile


def entered(name: str, above: int | None, rights: int) -> tuple[int, int | None]:
    """A descriptor of a folder. Where its owner lacks some of `rights` there, and we with him, they are given to him, and what
    he had is told."""
    found = os.open(name, _NAME_ALONE, dir_fd=above)
    try:
        had = stat.S_IMODE(os.fstat(found).st_mode)
        is_closed = had & rights != rights and not os.access(".", rights >> 6, dir_fd=found, effective_ids=True)
        if is_closed:
            Path(f"/proc/self/fd/{found}").chmod(had | rights)  # this very folder, whatever has its name now
        return os.open(".", _FOLDER, dir_fd=found), had if is_closed else None
    finally:
        os.close(found)


def remove(place: Path) -> None:
    """All of it, also what a job has closed to itself; what is away already is no problem, what cannot be removed is raised.

    What lies deeper is moved up step by step, so that there is never more to hold open than two folders.
    """
    above = os.open(place.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISDIR(os.stat(place.name, dir_fd=above, follow_symlinks=False).st_mode):
                os.unlink(place.name, dir_fd=above)
                return
            with _open_for_removing(place.name, above) as top:
                for _ in range(_AGAIN):
                    _empty(top)
                    if _is_removed(place.name, above):
                        return
            os.rmdir(place.name, dir_fd=above)
    finally:
        os.close(above)


@contextlib.contextmanager
def _open_for_removing(name: str, above: int) -> Iterator[int]:
    opened, _ = entered(name, above, stat.S_IRWXU)
    try:
        yield opened
    finally:
        os.close(opened)


def _empty(top: int) -> None:
    mark = os.urandom(8).hex()  # no job knows it, so that nothing moved up meets a name of its own
    names = (f"{mark}-{number}" for number in count())
    while True:
        went_on, problem = False, None
        with os.scandir(top) as entries:
            for entry in entries:
                try:
                    if entry.is_dir(follow_symlinks=False):
                        with _open_for_removing(entry.name, top) as folder:
                            went_on |= _hollow(folder, top, names)
                        os.rmdir(entry.name, dir_fd=top)
                    else:
                        os.unlink(entry.name, dir_fd=top)
                    went_on = True
                except FileNotFoundError:
                    pass  # another removes it too
                except OSError as error:  # the rest goes all the same
                    problem = error
        if not went_on:
            if problem is not None:
                raise problem
            return


def _hollow(folder: int, top: int, names: Iterator[str]) -> bool:
    """Removes the files in a folder and moves its folders up to the top; whether there was anything that could be."""
    went_on = False
    with os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):  # then it cannot be removed itself, which is told
                if not entry.is_dir(follow_symlinks=False):
                    os.unlink(entry.name, dir_fd=folder)
                elif not _is_removed(entry.name, folder):
                    with _open_for_removing(entry.name, folder):
                        pass  # nobody moves a folder in which he may not write
                    os.rename(entry.name, next(names), src_dir_fd=folder, dst_dir_fd=top)
                went_on = True
    return went_on


def _is_removed(name: str, above: int) -> bool:
    """Whether it was empty."""
    try:
        os.rmdir(name, dir_fd=above)
    except OSError:
        return False
    return True
