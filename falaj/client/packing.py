"""A folder as the tar that a job runs with: the same files give the same bytes, whoever packs them and whenever."""

import fnmatch
import io
import os
import subprocess  # nosec B404 - git is asked which files are its own
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from falaj.base.errors import Invalid
from falaj.base.values import value

IGNORE: Final = ".falajignore"
MOST_BYTES: Final = 64 << 20
_NEVER: Final = ("__pycache__", "node_modules", "mlruns", "*.pyc")


@value
class Packed:
    """A tar. `files` and `size`, in bytes, are of what it holds."""

    content: bytes
    files: int
    size: int


def packed(folder: Path, besides: Mapping[str, bytes] | None = None) -> Packed:
    """Within a git checkout what git ignores is left out; everywhere hidden folders, links, and what `.falajignore` names.
    `besides` go along, by name, and take the place of what the folder has there: of a hidden folder wholly, for what lies in it
    beside them would be imported in their place."""
    if not folder.is_dir():
        raise Invalid(f"{folder} is no folder.")
    ignored, more = _ignored(folder), dict(besides or {})
    whole = {name.split("/")[0] for name in more if name.startswith(".") and "/" in name}
    written, files, size = io.BytesIO(), 0, 0
    with tarfile.open(fileobj=written, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name in sorted(more):
            _add(tar, name, more[name], 0o644)
            files, size = files + 1, size + len(more[name])
        for name in sorted(set(_names(folder)) - set(more)):
            if name.split("/")[0] in whole:
                continue
            if any(fnmatch.fnmatch(part, pattern) for pattern in ignored for part in (name, *name.split("/"))):
                continue
            path = folder / name
            if path.is_symlink() or not path.is_file():
                continue
            content = _read(path)
            files, size = files + 1, size + len(content)
            if size > MOST_BYTES:
                most = f"{MOST_BYTES >> 20} MiB"
                raise Invalid(f"{folder} has over {most}; leave out what a job does not need ({IGNORE}), or say --no-source.")
            _add(tar, name, content, 0o755 if os.access(path, os.X_OK) else 0o644)
    return Packed(content=written.getvalue(), files=files, size=size)


def packed_alone(files: Mapping[str, bytes]) -> bytes:
    """The tar of these files and no others."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name in sorted(files):
            _add(tar, name, files[name], 0o644)
    return written.getvalue()


def _add(tar: tarfile.TarFile, name: str, content: bytes, mode: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    tar.addfile(entry, io.BytesIO(content))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise Invalid(f"{path} cannot be read: {error.strerror}; leave it out ({IGNORE}), or say --no-source.") from None


def _ignored(folder: Path) -> tuple[str, ...]:
    file = folder / IGNORE
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    return (*_NEVER, *(line.strip().rstrip("/") for line in lines if line.strip() and not line.startswith("#")))


def _names(folder: Path) -> Iterator[str]:
    asked = ["git", "-C", str(folder), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        told = subprocess.run(asked, capture_output=True, timeout=60)  # nosec B603 B607
    except (OSError, subprocess.TimeoutExpired):
        told = None
    if told is not None and told.returncode == 0:
        yield from (os.fsdecode(name) for name in told.stdout.split(b"\0") if name)
        return
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".") and not (Path(place) / name / "pyvenv.cfg").exists()]
        yield from (str((Path(place) / name).relative_to(folder)) for name in files)
