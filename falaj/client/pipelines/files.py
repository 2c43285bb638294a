"""A user's file with pipelines, and its folder, as they are sent: packed, known by their digest, and written down."""

import hashlib
from pathlib import Path

from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.client.packing import Packed, packed
from falaj.client.pipelines.definitions import PipelineFunction
from falaj.client.pipelines.loading import read_here
from falaj.client.pipelines.sources import data_of
from falaj.lifecycle.operations.triggers import Trigger
from falaj.lifecycle.operations.words import Definition


@value
class Written:
    """A pipeline, and what of the folder goes along where its steps need that. `starts` is what shall start it by itself, by
    the triggers' names; None where the file leaves that to others."""

    name: str
    definition: Definition
    starts: dict[str, Trigger] | None
    folder: Path
    files: Packed


def written(file: Path, folder: Path | None = None, *, only: str = "") -> tuple[Written, ...]:
    """The pipelines of the file, or the one that is named. `folder` is what goes along: by default the file's. Raises `Invalid`
    with the line where something is wrong."""
    own = file.resolve()
    root = (folder or own.parent).resolve()
    if not own.is_file():
        raise Invalid(f"There is no file {file}.")
    if not own.is_relative_to(root):
        raise Invalid(f"{file} is not below {folder}, which is what goes along.")
    files = packed(root)
    digest, data = hashlib.sha256(files.content).hexdigest(), data_of(files.content)
    with read_here(root, own) as module:
        there = {one.name: one for one in vars(module).values() if isinstance(one, PipelineFunction) and _is_of(one, own)}
        if not there:
            raise Invalid(f"{file} has no pipeline: a function with @falaj.pipeline.")
        if only and only not in there:
            raise Invalid(f"{file} has no pipeline {only!r}; it has {', '.join(there)}.")
        wanted = [only] if only else list(there)
        return tuple(_written(there[one], root, files, digest, data) for one in wanted)


def _written(one: "PipelineFunction[..., object]", root: Path, files: Packed, digest: str, data: str) -> Written:
    definition, starts = one.defined(root, digest, data)
    return Written(name=one.name, definition=definition, starts=starts, folder=root, files=files)


def only_one(found: tuple[Written, ...], file: Path) -> Written:
    if len(found) > 1:
        names = ", ".join(one.name for one in found)
        raise Invalid(f"{file} has several pipelines ({names}): name one, like {file}:{found[0].name}.")
    return found[0]


def _is_of(pipeline: "PipelineFunction[..., object]", file: Path) -> bool:
    """What it imported from others is theirs."""
    return Path(pipeline.place.file).resolve() == file
