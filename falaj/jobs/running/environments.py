"""Environments made from lock files: each is built once, inside walls, kept by what it is made of, and removed when nobody
has used it for long or there are too many. `locks` reads the files and names the environments.

Nothing of a package runs while it is installed, for only wheels are taken: what one project had built another may use.
"""

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from falaj.jobs.running import trees
from falaj.jobs.running.folders import settle, take
from falaj.jobs.running.orders import Packages

_UNUSED_DAYS: Final = 30
_READY: Final = "ready.json"
TREE: Final = "tree"
_WHEELS, _CERTIFICATES, _REQUIREMENTS = "/falaj/wheels", "/falaj/certificates.pem", "/falaj/requirements.txt"  # inside
# Run inside: an environment without pip, filled by the interpreter's pip, or else by the one that every Python brings along.
BUILDER: Final = """
import glob, importlib.util, os, subprocess, sys, venv
target, *arguments = sys.argv[1:]
venv.EnvBuilder(symlinks=True, with_pip=False).create(target)
where = dict(os.environ)
if importlib.util.find_spec("pip") is None:
    import ensurepip
    wheels = glob.glob(os.path.join(os.path.dirname(ensurepip.__file__), "_bundled", "pip-*.whl"))
    wheels += glob.glob("/usr/share/python-wheels/pip-*.whl")
    if not wheels:
        sys.exit("There is no pip beside " + sys.executable)
    where["PYTHONPATH"] = wheels[0]
python = os.path.join(target, "bin", "python")
sys.exit(subprocess.run([sys.executable, "-m", "pip", "--python", python, "install", *arguments], env=where).returncode)
"""


def readable(packages: Packages, requirements: Path) -> tuple[tuple[str, str], ...]:
    """What the builder reads, as (outside, inside) pairs."""
    folders = tuple((folder, f"{_WHEELS}/{number}") for number, folder in enumerate(packages.links))
    certificates = ((packages.certificates, _CERTIFICATES),) if packages.certificates else ()
    return (*folders, *certificates, (str(requirements), _REQUIREMENTS))


def arguments(packages: Packages) -> list[str]:
    """What pip is told."""
    where = [f"--index-url={packages.indexes[0]}"] if packages.indexes else ["--no-index"]
    return [
        *("--only-binary=:all:", "--no-cache-dir", "--no-input", "--disable-pip-version-check", "--progress-bar=off"),
        *where,
        *(f"--extra-index-url={index}" for index in packages.indexes[1:]),
        *(f"--find-links={_WHEELS}/{number}" for number in range(len(packages.links))),
        *([f"--cert={_CERTIFICATES}"] if packages.certificates else ()),
        *("-r", _REQUIREMENTS),
    ]


class Kept:
    """One environment that cannot be removed while this is open."""

    def __init__(self, place: Path, lock: int) -> None:
        self.tree = place / TREE
        self._lock = lock
        (place / _READY).touch()  # when it was last used

    def close(self) -> None:
        os.close(self._lock)


def taken(name: str, folder: Path) -> Kept | None:
    """One that is there already."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if (lock := take(folder / f"{name}.lock", shared=True)) is None:
        return None  # it is being made or removed
    if (folder / name / _READY).exists():
        return Kept(folder / name, lock)
    os.close(lock)
    return None


@contextlib.contextmanager
def making(name: str, folder: Path) -> Iterator[Path | None]:
    """A new place to make one in, which is kept if the body called `finish`; None while another makes it."""
    lock = take(folder / f"{name}.lock")
    if lock is None:
        yield None
        return
    place = folder / f"{name}.new"
    try:
        if (folder / name / _READY).exists():
            yield None
            return
        _remove(place)
        (place / TREE).mkdir(parents=True)
        (place / TREE).chmod(0o755)  # for jobs' own users, whatever this process's mask says
        yield place
    finally:
        if (place / _READY).exists():
            _remove(folder / name)
            place.rename(folder / name)
            settle(folder)
        else:
            _remove(place)
        os.close(lock)


def clear(place: Path, *names: str) -> None:
    """Removes what was needed to make it."""
    for name in names:
        _remove(place / name)


def finish(place: Path, size: int) -> None:
    (place / _READY).write_text(json.dumps({"bytes": size}))


def tidy(folder: Path, kept_bytes: int, now: Callable[[], float] = time.time) -> list[str]:
    """Removes what nobody has used for long, and then the longest unused, until the rest is no more than may be kept."""
    found = []
    for ready in folder.glob(f"*/{_READY}"):
        with contextlib.suppress(OSError, ValueError):
            found.append((ready.stat().st_mtime, int(json.loads(ready.read_text())["bytes"]), ready.parent))
    total, removed = sum(size for _, size, _ in found), []
    for used, size, place in sorted(found):
        if total <= kept_bytes and now() - used < _UNUSED_DAYS * 86_400:
            continue
        lock = take(folder / f"{place.name}.lock")
        if lock is None:
            continue  # in use
        _remove(place)
        os.close(lock)
        total -= size
        removed.append(place.name)
    return removed


def _remove(place: Path) -> None:
    with contextlib.suppress(OSError):
        trees.remove(place)
