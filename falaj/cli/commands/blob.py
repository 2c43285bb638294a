"""`falaj blob`: sealed bytes of a project."""

import mimetypes
from pathlib import Path
from typing import Annotated

import typer

from falaj.cli.command import Commands, Cursor, Limit, Project, Yes
from falaj.cli.layout import listing, sentence
from falaj.cli.terminal import Terminal
from falaj.cli.transfers import STANDARD, agreeing, chunks_of, save, source, watched
from falaj.storage.operations import (
    BLOB_DELETE,
    BLOB_GET,
    BLOB_LIST,
    BLOB_PUT,
    BLOB_SHOW,
    BLOB_SHRED,
    GetBlob,
    ListBlobs,
    OneBlob,
    PutBlob,
)

commands = Commands("Sealed blobs of a project.")
Blob = Annotated[str, typer.Argument(help="The blob's id.", show_default=False)]
OCTETS = "application/octet-stream"
PATIENCE = 600.0


@commands.command("put")
def put(
    terminal: Terminal,
    project: Project,
    file: Annotated[str, typer.Argument(help="The file to store; - reads standard input.", show_default=False)],
    zone: Annotated[
        str, typer.Option(help="The zone to store it in; the project's first by default.", show_default=False)
    ] = "",
    name: Annotated[str, typer.Option(help="A label for people; the file's name by default.", show_default=False)] = "",
    media_type: Annotated[str, typer.Option(help="What kind it is; told from the name by default.", show_default=False)] = "",
) -> None:
    """Store a file, sealed under the project's key.

    Example: falaj blob put fraud transactions.parquet --zone home
    """
    label = name or ("" if file == STANDARD else Path(file).name)
    kind = media_type or mimetypes.guess_type(label)[0] or OCTETS
    with source(file) as (stream, size):
        request = PutBlob(project=project, zone=zone, name=label, media_type=kind)
        chunks = watched(chunks_of(stream), size, label or "standard input")
        terminal.show(terminal.call(BLOB_PUT, request, chunks=chunks, patience=PATIENCE))


@commands.command("get")
def get(
    terminal: Terminal,
    project: Project,
    blob: Blob,
    file: Annotated[str, typer.Argument(help="Where to write it; - is standard output.", show_default=False)],
    offset: Annotated[int, typer.Option(help="Begin at this byte.", min=0)] = 0,
    length: Annotated[int, typer.Option(help="Read so many bytes; 0 is all of them.", min=0)] = 0,
) -> None:
    """Read a blob, or a part of it. A file is written, or replaced, only when everything arrived and the digest agrees.

    Example: falaj blob get fraud 0199... transactions.parquet
    """
    known = terminal.call(BLOB_SHOW, OneBlob(project=project, blob=blob))
    download = terminal.call(BLOB_GET, GetBlob(project=project, blob=blob, offset=offset, length=length), patience=PATIENCE)
    chunks = download.chunks if offset or length else agreeing(download.chunks, known.digest)
    size = save(watched(chunks, download.size, known.name or blob), file)
    terminal.told({"file": file, "size": size}, f"Wrote {size:,} bytes to {file}.", file)


@commands.command("show")
def show(terminal: Terminal, project: Project, blob: Blob) -> None:
    """Show what is known about a blob.

    Example: falaj blob show fraud 0199...
    """
    terminal.run(BLOB_SHOW, OneBlob(project=project, blob=blob))


@commands.command("list")
def list_blobs(terminal: Terminal, project: Project, limit: Limit = 100, cursor: Cursor = "") -> None:
    """List a project's blobs, oldest first.

    Example: falaj blob list fraud
    """
    columns = listing("id", "name", "size", "media_type", "zone", "created")
    terminal.run(BLOB_LIST, ListBlobs(project=project, limit=limit, cursor=cursor), columns)


@commands.command("delete")
def delete(terminal: Terminal, project: Project, blob: Blob) -> None:
    """Drop your reference to a blob; the last reference takes the content with it.

    Example: falaj blob delete fraud 0199...
    """
    said = sentence(
        lambda it: "The content is gone for good." if it.shredded else "Dropped; others still refer to the content."
    )
    terminal.run(BLOB_DELETE, OneBlob(project=project, blob=blob), said)


@commands.command("shred")
def shred(terminal: Terminal, project: Project, blob: Blob, yes: Yes = False) -> None:
    """Destroy a blob now, whoever still refers to it.

    Example: falaj blob shred fraud 0199... --yes
    """
    terminal.confirm(f"Destroy blob {blob}? There is no way back.", yes)
    terminal.run(BLOB_SHRED, OneBlob(project=project, blob=blob), sentence(lambda _: "The content is gone for good."))
