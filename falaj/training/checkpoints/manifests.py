"""What a checkpoint says about itself: which step, which files, and where in them each tensor lies. Written last, sealed."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from falaj.base.values import value
from falaj.training.checkpoints.errors import Damaged
from falaj.training.checkpoints.sealing import OpenedFile, SealedFile

FILE: Final = "manifest"
_FORMAT: Final = 1


@value
class Part:
    """A block of a tensor, or the whole of something that is none, and where its bytes lie."""

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    file: str
    begin: int
    length: int


@value
class Entry:
    """`dtype` is empty for plain bytes."""

    dtype: str
    size: tuple[int, ...]
    parts: tuple[Part, ...]


@value
class Content:
    size: int
    digest: str


@value
class Manifest:
    """`workers`: how many processes saved it. `created`: seconds since 1970."""

    name: str
    step: int
    metric: float | None
    workers: int
    created: float
    files: Mapping[str, Content]
    entries: Mapping[str, Entry]


def write(folder: Path, key: bytes, manifest: Manifest) -> None:
    document = {
        "format": _FORMAT,
        "name": manifest.name,
        "step": manifest.step,
        "metric": manifest.metric if manifest.metric is None or math.isfinite(manifest.metric) else str(manifest.metric),
        "workers": manifest.workers,
        "created": manifest.created,
        "files": {name: [content.size, content.digest] for name, content in manifest.files.items()},
        "entries": {
            name: [
                entry.dtype,
                list(entry.size),
                [[list(one.offsets), list(one.sizes), one.file, one.begin, one.length] for one in entry.parts],
            ]
            for name, entry in manifest.entries.items()
        },
    }
    with SealedFile(folder / FILE, key, about(manifest.name, FILE)) as file:
        file.write(json.dumps(document, separators=(",", ":"), allow_nan=False).encode())


def read(folder: Path, key: bytes) -> Manifest:
    """The manifest of the checkpoint in this folder, whose name has to be the one it was sealed for."""
    with OpenedFile(folder / FILE, key, about(folder.name, FILE)) as file:
        document: dict[str, Any] = json.loads(file.read(0, file.size))
    if document["format"] != _FORMAT:
        raise Damaged(f"{folder.name} has format {document['format']}; this version of Falaj reads {_FORMAT}.")
    return Manifest(
        name=document["name"],
        step=document["step"],
        metric=None if document["metric"] is None else float(document["metric"]),
        workers=document["workers"],
        created=document["created"],
        files={name: Content(size=size, digest=digest) for name, (size, digest) in document["files"].items()},
        entries={
            name: Entry(dtype=dtype, size=tuple(size), parts=tuple(_part(*one) for one in parts))
            for name, (dtype, size, parts) in document["entries"].items()
        },
    )


def about(checkpoint: str, file: str) -> str:
    """What a file is sealed as: it opens in no other checkpoint and under no other name."""
    return f"{checkpoint}/{file}"


def _part(offsets: list[int], sizes: list[int], file: str, begin: int, length: int) -> Part:
    return Part(offsets=tuple(offsets), sizes=tuple(sizes), file=file, begin=begin, length=length)
