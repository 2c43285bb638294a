"""Databases, lakes and folders on their way into datasets, and lakes on the way out of them."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.cli.dataset_files import PATIENCE, bar
from falaj.cli.deferred import Deferred
from falaj.cli.terminal import Terminal, as_document, checked
from falaj.cli.transfers import STANDARD
from falaj.datasets.operations.writing import OpenWrite
from falaj.tables.connectors.addresses import is_address, parsed
from falaj.tables.connectors.asking import Asked
from falaj.tables.forms import Form

if TYPE_CHECKING:
    from falaj.client import dataset_pieces, dataset_writes
    from falaj.client import datasets as client_datasets
else:
    dataset_pieces, dataset_writes = Deferred("falaj.client.dataset_pieces"), Deferred("falaj.client.dataset_writes")

Endpoint = Annotated[str, typer.Option(help="An S3 service that is not AWS, such as https://minio:9000.", show_default=False)]


@value
class SourceOptions:
    """Which rows of a place, where its address does not say it."""

    table: Annotated[str, typer.Option(help="Of a database or catalog: this table.", show_default=False)] = ""
    query: Annotated[str, typer.Option(help="Of a database: the rows that this SELECT gives.", show_default=False)] = ""
    at: Annotated[
        str, typer.Option(help="Of a Delta or Iceberg table: this version or snapshot, not the newest.", show_default=False)
    ] = ""
    endpoint: Endpoint = ""

    def asked(self, form: Form) -> Asked:
        return Asked(table=self.table, query=self.query, at=self.at, endpoint=self.endpoint, form=form)

    def refuse_for_a_file(self) -> None:
        for name in ("table", "query", "at", "endpoint"):
            if getattr(self, name):
                raise Invalid(f"--{name} is for databases, lakes and buckets, and this is a file.")


def is_place(source: str) -> bool:
    """Whether rows have to be asked for there; else it is a file."""
    return is_address(source) or (source != STANDARD and Path(source).is_dir())


def send_rows(terminal: Terminal, source: str, asked: Asked, request: OpenWrite, *, again: bool) -> "dataset_writes.Written":
    """The rows of a place as a version. It is opened first, so that one that cannot be leaves no trace. Known again, when they
    were sent before, are only rows that cannot have changed since."""
    opened = dataset_pieces.tables_library("falaj.tables.connectors.opening").opened(source, asked)
    request = replace(request, form=Form(format="arrow", time_zone=asked.form.time_zone), origin=opened.shown)
    key = "" if again or not opened.pin else _key(request, opened.pin)
    client = terminal.client_at(terminal.access, patience=PATIENCE)
    with bar(None, opened.shown) as watching:
        return dataset_writes.write(client, checked(OpenWrite, replace(request, key=key)), _pieces(opened), watching=watching)


def export_to_lake(
    terminal: Terminal, opened: "client_datasets.Dataset", target: str, columns: list[str] | None, asked: Asked, *, over: bool
) -> None:
    """As a version of a Delta table, which is told."""
    address = parsed(target)
    if address.scheme not in ("delta", "delta+s3"):
        raise Invalid(f"A version is written to files, to delta:// and to delta+s3://; {address.scheme}:// is none of them.")
    delta = dataset_pieces.tables_library("falaj.tables.connectors.delta")
    made = delta.write(opened.batches(columns), opened.columns(columns), address, asked, replace=over)
    told = {"dataset": opened.name, "version": opened.version, "rows": opened.rows, "table": address.shown, "made": made}
    said = f"Wrote {opened.rows:,} rows of {opened.name}@{opened.version} as version {made} of {address.shown}."
    terminal.told(told, said, address.shown)


def _pieces(opened: Any) -> "Iterator[dataset_pieces.PieceToSend]":
    end = 0
    streams = dataset_pieces.tables_library("falaj.tables.outgoing").streams(opened.reader())
    for number, content in enumerate(streams, 1):
        end += len(content)
        yield dataset_pieces.PieceToSend(number=number, content=content, end=end)


def _key(request: OpenWrite, pin: str) -> str:
    about = [pin, dataset_pieces.PIECE, as_document(request)]
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
