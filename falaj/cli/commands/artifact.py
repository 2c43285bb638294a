"""`falaj artifact`: the files of runs and of the models they logged."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Annotated

import typer

from falaj.base.errors import Invalid, NotFound
from falaj.cli.choosing import InProject, holder_of, project_of
from falaj.cli.command import Commands, Cursor, Limit, Yes
from falaj.cli.layout import Layout, sentence, tell_of_more
from falaj.cli.terminal import Terminal, as_document
from falaj.cli.transfers import STANDARD, agreeing, chunks_of, save, source, watched
from falaj.tracking.operations.artifacts import (
    DELETE_ARTIFACTS,
    GET_ARTIFACT,
    LIST_ARTIFACTS,
    PUT_ARTIFACT,
    Artifacts,
    DeleteArtifacts,
    Entry,
    GetArtifact,
    ListArtifacts,
    PutArtifact,
)

commands = Commands("Files of runs and of the models they logged.")
Holder = Annotated[str, typer.Argument(help="The run's id, or the logged model's.", show_default=False, callback=holder_of)]
Named = Annotated[str, typer.Argument(help="The artifact's name, or a folder's.", show_default=False)]
PATIENCE = 600.0


@commands.command("list")
def list_artifacts(
    terminal: Terminal,
    holder: Holder,
    folder: Annotated[str, typer.Argument(help="Only below this folder.", show_default=False)] = "",
    deep: Annotated[bool, typer.Option("--deep", help="All files below, instead of one level.")] = False,
    project: InProject = "",
    limit: Limit = 1000,
    cursor: Cursor = "",
) -> None:
    """List the files of a run or a logged model.

    Example: falaj artifact list 0199a1b2c3d4e5f60718293a4b5c6d7e model --project fraud
    """
    request = ListArtifacts(
        project=project_of(terminal, project), holder=holder, folder=folder, deep=deep, limit=limit, cursor=cursor
    )
    page = terminal.call(LIST_ARTIFACTS, request)
    if folder and not page.items and not cursor:
        raise NotFound(f"{holder} has no folder {folder}; `falaj artifact list {holder}` says what it has.")
    terminal.show(page, _table)


@commands.command("get")
def get(
    terminal: Terminal,
    holder: Holder,
    name: Named,
    target: Annotated[
        str,
        typer.Argument(help="Where to write it; - is standard output, by default the name's last part.", show_default=False),
    ] = "",
    project: InProject = "",
) -> None:
    """Read a file, or every file below a folder. Each is written only when it arrived whole and its digest agrees.

    Example: falaj artifact get 0199a1b2c3d4e5f60718293a4b5c6d7e model/model.onnx model.onnx --project fraud
    """
    chosen = project_of(terminal, project)
    place = target or PurePosixPath(name).name
    found = list(_files(terminal, chosen, holder, name))
    if not found:
        raise NotFound(f"{holder} has no artifact {name}; `falaj artifact list` says which it has.")
    if found[0].name == name:
        total = _fetch(terminal, chosen, holder, found[0], place)
    elif place == STANDARD:
        raise Invalid(f"{name} is a folder; name a directory to write it to.")
    else:
        total = 0
        for entry in found:
            file = Path(place, *PurePosixPath(entry.name).relative_to(name).parts)
            file.parent.mkdir(parents=True, exist_ok=True)
            total += _fetch(terminal, chosen, holder, entry, str(file))
    told = {"target": place, "files": len(found), "size": total}
    terminal.told(told, f"Wrote {total:,} bytes to {place}.", place)


@commands.command("put")
def put(
    terminal: Terminal,
    holder: Holder,
    path: Annotated[str, typer.Argument(help="The file, or the folder with all below it; - is standard input.")],
    name: Annotated[str, typer.Option(help="What it is called there; as here by default.", show_default=False)] = "",
    zone: Annotated[
        str, typer.Option(help="The zone to store it in; the project's first by default.", show_default=False)
    ] = "",
    project: InProject = "",
) -> None:
    """Store a file or a folder with a run or a logged model. What has that name already is replaced.

    Example: falaj artifact put 0199a1b2c3d4e5f60718293a4b5c6d7e plots --project fraud
    """
    chosen = project_of(terminal, project)
    if path == STANDARD and not name:
        raise Invalid("What comes from standard input needs a name: say --name.")
    stored = []
    for file, called in _named(path, name):
        with source(file) as (stream, size):
            chunks = watched(chunks_of(stream), size, called)
            request = PutArtifact(project=chosen, holder=holder, name=called, zone=zone)
            stored.append(terminal.call(PUT_ARTIFACT, request, chunks=chunks, patience=PATIENCE))
    if terminal.as_json:
        terminal.print_json({"items": [as_document(one) for one in stored]})
    else:
        Layout().table(["name", "size", "digest"], ([one.name, one.size, one.digest] for one in stored))


@commands.command("delete")
def delete(
    terminal: Terminal,
    holder: Holder,
    name: Named,
    yes: Yes = False,
    project: InProject = "",
) -> None:
    """Delete a file, or every file below a folder; registered versions made of them keep theirs.

    Example: falaj artifact delete 0199a1b2c3d4e5f60718293a4b5c6d7e plots --yes --project fraud
    """
    terminal.confirm(f"Delete {name} of {holder}? There is no way back.", yes)
    request = DeleteArtifacts(project=project_of(terminal, project), holder=holder, name=name)
    terminal.run(DELETE_ARTIFACTS, request, sentence(lambda it: f"Deleted {it.count} files."))


def _files(terminal: Terminal, project: str, holder: str, name: str) -> Iterator[Entry]:
    """The file of that name, or else every file below the folder of that name."""
    folder = str(PurePosixPath(name).parent)
    beside = ListArtifacts(project=project, holder=holder, folder="" if folder == "." else folder)
    for entry in _every(terminal, beside):
        if entry.name == name and not entry.folder:
            yield entry
            return
    yield from _every(terminal, ListArtifacts(project=project, holder=holder, folder=name, deep=True))


def _every(terminal: Terminal, request: ListArtifacts) -> Iterator[Entry]:
    page = terminal.call(LIST_ARTIFACTS, request)
    yield from page.items
    while page.next:
        page = terminal.call(LIST_ARTIFACTS, dataclasses.replace(request, cursor=page.next))
        yield from page.items


def _fetch(terminal: Terminal, project: str, holder: str, entry: Entry, file: str) -> int:
    download = terminal.call(GET_ARTIFACT, GetArtifact(project=project, holder=holder, name=entry.name), patience=PATIENCE)
    return save(watched(agreeing(download.chunks, entry.digest), entry.size, entry.name), file)


def _named(path: str, name: str) -> list[tuple[str, str]]:
    """Files and what each will be called."""
    if path == STANDARD or not Path(path).is_dir():
        return [(path, name or Path(path).name)]
    root = Path(path)
    prefix = name or root.resolve().name
    files = sorted(file for file in root.rglob("*") if file.is_file())
    if not files:
        raise Invalid(f"There are no files below {path}.")
    return [(str(file), str(PurePosixPath(prefix, *file.relative_to(root).parts))) for file in files]


def _table(layout: Layout, page: Artifacts) -> None:
    rows = ([entry.name + "/" * entry.folder, None if entry.folder else entry.size, entry.digest] for entry in page.items)
    layout.table(["name", "size", "digest"], rows)
    tell_of_more(page)
