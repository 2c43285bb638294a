"""Artifacts that lie on this machine's own disk, for an MLflow whose database is read directly.

Where they lie is said by that database, and so by whoever could write to that MLflow: only what is below the directory that
the person named is read, or else anybody's private key might come along.
"""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from falaj.base.errors import NotFound
from falaj.cli.importing.records import File, OutOfReach
from falaj.cli.transfers import chunks_of

USUAL = re.compile(r"/[^/]+(/models)?/[^/]+/artifacts$")  # below the root: experiment, run or model
PROXIED = "mlflow-artifacts"  # kept by the server, below the directory it was started with
ON_DISK = ("", "file", PROXIED)
LEFT_OUT = "--without-artifacts"  # stands for the place of artifacts that nobody wanted


class LocalArtifacts:
    """`root` is where artifacts may be read from; None where nothing may. Thread-safe."""

    def __init__(self, root: Path | None) -> None:
        self.root = None if root is None else root.expanduser().resolve()

    def missing(self, places: Iterable[str]) -> str:
        """The first of the places on a disk, where not one of those is found below the root; else nothing.

        MLflow makes a run's directory with its first file, so one that is missing means nothing, but when all are missing
        the root is likely the wrong one. All are looked for, because among many runs few may have files.
        """
        first = ""
        for place in places:
            if place and urlsplit(place).scheme in ON_DISK:
                first = first or place
                if self._is_there(place):
                    return ""
        return first

    def files(self, place: str) -> Iterator[File]:
        top = self._located(place)
        for folder, _, names in os.walk(top):
            for name in sorted(names):
                file = Path(folder, name)
                if file.is_file() and file.resolve().is_relative_to(top):
                    yield File(name=file.relative_to(top).as_posix(), size=file.stat().st_size)

    @contextmanager
    def opened(self, place: str, name: str) -> Iterator[Iterator[bytes]]:
        top = self._located(place)
        file = top.joinpath(*name.split("/"))
        if not file.resolve().is_relative_to(top):
            raise NotFound(f"{name} is not below {top}.")
        with file.open("rb") as stream:
            yield chunks_of(stream)

    def _is_there(self, place: str) -> bool:
        try:
            return self._located(place).is_dir()
        except OutOfReach:
            return False

    def _located(self, place: str) -> Path:
        """The directory of a run or model, existing or not, below the root."""
        parts = urlsplit(place)
        if parts.scheme not in ON_DISK:
            raise OutOfReach(f"{parts.scheme}://{parts.netloc}")
        if self.root is None:
            raise OutOfReach(LEFT_OUT)
        path = PurePosixPath(unquote(parts.path) if parts.scheme else place)
        candidates = list(self._candidates(path, parts.scheme, self.root))
        inside = [found for found in candidates if found.resolve().is_relative_to(self.root)]
        if existing := [found for found in inside if found.is_dir()]:
            return existing[0].resolve()
        if not inside or any(found.is_dir() for found in candidates):
            raise OutOfReach(USUAL.sub("", str(path)))
        return inside[0].resolve()

    @staticmethod
    def _candidates(path: PurePosixPath, scheme: str, root: Path) -> Iterator[Path]:
        """As it is written; below the root, where a server keeps it; and as if its directory had been copied to the root."""
        names = path.parts[1:] if path.is_absolute() else path.parts
        if scheme == PROXIED or not path.is_absolute():
            yield from (root.joinpath(*names), root.joinpath("mlartifacts", *names))
            return
        yield Path(path)
        for cut in range(len(names) - 1):
            yield root.joinpath(*names[cut:])


def below_its_root(place: str) -> str:
    """The part of a place that stays the same wherever its root is copied to."""
    path = urlsplit(place).path
    usual = USUAL.search(path)
    return (usual.group() if usual else path).strip("/")
