"""`falaj dataset`: data that is named, versioned and sealed."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from falaj.base.errors import Invalid
from falaj.cli import dataset_looks as looks
from falaj.cli.choosing import InProject, project_of
from falaj.cli.command import Commands, Cursor, Limit, Yes
from falaj.cli.dataset_files import FormOptions, send
from falaj.cli.deferred import Deferred
from falaj.cli.layout import Layout, sentence
from falaj.cli.terminal import Terminal, as_document
from falaj.cli.transfers import STANDARD, save, watched
from falaj.datasets.operations import comparing, datasets, reading, tidying, versions, writing

if TYPE_CHECKING:
    from falaj.client import dataset_pieces
    from falaj.client import datasets as client_datasets
else:
    client_datasets = Deferred("falaj.client.datasets")
    dataset_pieces = Deferred("falaj.client.dataset_pieces")

commands = Commands("Datasets: data that is named, versioned and sealed.")
OfDataset = Annotated[str, typer.Argument(help="The dataset's name.", show_default=False)]
OfVersion = Annotated[
    str, typer.Argument(help="The dataset, or a version of it such as flights@3 or flights@audited.", show_default=False)
]
ENDINGS = {".parquet": "parquet", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".arrow": "arrow", ".arrows": "arrow"}


@commands.command("import")
def import_file(
    terminal: Terminal,
    dataset: OfDataset,
    file: Annotated[str, typer.Argument(help="CSV, JSON lines, Parquet or Arrow; - is standard input.", show_default=False)],
    options: FormOptions,
    mode: Annotated[
        Literal["append", "overwrite", "merge"],
        typer.Option(help="Behind the rows that are there, in their place, or in place of those with the same key."),
    ] = "append",
    key: Annotated[
        list[str] | None,
        typer.Option(help="A column that tells rows apart, for a merge. Repeatable.", metavar="COLUMN", show_default=False),
    ] = None,
    evolve: Annotated[bool, typer.Option("--evolve", help="Columns may be added and widened.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Even if this very file was imported within a day.")] = False,
    zone: Annotated[
        str, typer.Option(help="The zone of a new dataset; the project's first by default.", show_default=False)
    ] = "",
    project: InProject = "",
) -> None:
    """Make a version of a file. Whatever interrupts it, the same command goes on where it was.

    Example: falaj dataset import flights flights.csv --time-zone Asia/Dubai --project fraud
    """
    request = writing.OpenWrite(
        project=project_of(terminal, project),
        dataset=dataset,
        mode=mode,
        form=options.form(),
        keys=tuple(key or ()),
        evolve=evolve,
        create=True,
        zone=zone,
        origin="standard input" if file == STANDARD else Path(file).name,
    )
    written = send(terminal, file, request, again=again)
    version = written.version
    if written.again:
        terminal.say(f"This file became version {version.version} already; say --again to import it once more.")
    elif written.skipped:
        terminal.say(f"{written.skipped} of {written.sent + written.skipped} pieces were there from before.")
    terminal.show(version, sentence(lambda it: f"{it.dataset}@{it.version} has {it.rows:,} rows in {it.parts} parts."))


@commands.command("list")
def list_datasets(terminal: Terminal, limit: Limit = 100, cursor: Cursor = "", project: InProject = "") -> None:
    """List a project's datasets.

    Example: falaj dataset list --project fraud
    """
    request = datasets.ListDatasets(project=project_of(terminal, project), limit=limit, cursor=cursor)
    terminal.run(datasets.LIST_DATASETS, request, looks.dataset_list)


@commands.command("show")
def show(
    terminal: Terminal,
    dataset: OfVersion,
    rows: Annotated[int, typer.Option(help="Show so many of its rows as well.", min=0, max=1000)] = 0,
    project: InProject = "",
) -> None:
    """Show a version: its columns, how many rows, where it came from.

    Example: falaj dataset show flights@3 --rows 10 --project fraud
    """
    chosen = project_of(terminal, project)
    name, version = _split(dataset)
    one = terminal.call(versions.SHOW_VERSION, versions.OneVersion(project=chosen, dataset=name, version=version))
    asked = reading.Preview(project=chosen, dataset=name, version=str(one.version), limit=max(1, rows))
    found = terminal.call(reading.PREVIEW, asked) if rows else None
    if terminal.as_json:
        terminal.print_json(as_document(one) | ({"preview": as_document(found)} if found else {}))
        return
    looks.version(Layout(), one)
    if found:
        Layout().line()
        looks.found_rows(Layout(), found)


@commands.command("history")
def history(terminal: Terminal, dataset: OfDataset, limit: Limit = 100, cursor: Cursor = "", project: InProject = "") -> None:
    """List the versions of a dataset, newest first.

    Example: falaj dataset history flights --project fraud
    """
    request = versions.ListVersions(project=project_of(terminal, project), dataset=dataset, limit=limit, cursor=cursor)
    terminal.run(versions.LIST_VERSIONS, request, looks.version_list)


@commands.command("diff")
def diff(
    terminal: Terminal,
    before: OfVersion,
    after: OfVersion,
    key: Annotated[
        list[str] | None,
        typer.Option(help="A column that tells rows apart. Repeatable.", metavar="COLUMN", show_default=False),
    ] = None,
    project: InProject = "",
) -> None:
    """Compare two versions: columns, and rows that were added, removed and, by their key, changed.

    Example: falaj dataset diff flights@3 flights@4 --key id --project fraud
    """
    (name, version), (same, other) = _split(before), _split(after)
    if name != same:
        raise Invalid(f"{before} and {after} are two datasets; name two versions of one.")
    request = comparing.CompareVersions(
        project=project_of(terminal, project), dataset=name, version=version, other=other, keys=tuple(key or ())
    )
    terminal.show(terminal.call(comparing.COMPARE_VERSIONS, request, patience=900), looks.difference)


@commands.command("query")
def query(
    terminal: Terminal,
    sql: Annotated[str, typer.Argument(help='One SELECT; a version is quoted: "flights@3".', show_default=False)],
    limit: Annotated[int, typer.Option(help="How many rows at most.", min=1, max=reading.MOST_ROWS)] = 1000,
    project: InProject = "",
) -> None:
    """Ask datasets one question in SQL.

    Example: falaj dataset query "SELECT carrier, avg(delay) FROM flights GROUP BY carrier" --project fraud
    """
    request = reading.Query(project=project_of(terminal, project), sql=sql, limit=limit)
    terminal.show(terminal.call(reading.QUERY, request, patience=120), looks.found_rows)


@commands.command("tag")
def tag(
    terminal: Terminal,
    dataset: OfVersion,
    name: Annotated[str, typer.Argument(help="The tag.", show_default=False)],
    remove: Annotated[bool, typer.Option("--remove", help="Take it away instead; the version stays.")] = False,
    project: InProject = "",
) -> None:
    """Have a tag mean a version; one that is there already is moved.

    Example: falaj dataset tag flights@3 audited --project fraud
    """
    chosen, (of, version) = project_of(terminal, project), _split(dataset)
    if remove:
        gone = datasets.UntagVersion(project=chosen, dataset=of, tag=name)
        terminal.run(datasets.UNTAG_VERSION, gone, sentence(lambda _: f"{of} has no tag {name} any more."))
        return
    request = datasets.TagVersion(project=chosen, dataset=of, tag=name, version=version)
    terminal.run(datasets.TAG_VERSION, request, sentence(lambda _: f"{of}@{name} is version {version}."))


@commands.command("rename")
def rename(
    terminal: Terminal,
    dataset: OfDataset,
    columns: Annotated[list[str], typer.Argument(help="What columns shall be called: OLD=NEW.", show_default=False)],
    project: InProject = "",
) -> None:
    """Make a version whose columns have other names. No data is rewritten, and earlier versions keep theirs.

    Example: falaj dataset rename flights dep=departure --project fraud
    """
    pairs = [text.partition("=") for text in columns]
    if wrong := [text for text, (old, _, new) in zip(columns, pairs, strict=True) if not old or not new]:
        raise Invalid(f"{wrong[0]!r} renames nothing: write OLD=NEW.")
    renames = {old: new for old, _, new in pairs}
    request = versions.RenameColumns(project=project_of(terminal, project), dataset=dataset, renames=renames)
    terminal.run(versions.RENAME_COLUMNS, request, looks.version)


@commands.command("restore")
def restore(terminal: Terminal, dataset: OfVersion, project: InProject = "") -> None:
    """Make a new version that equals an earlier one; nothing in between is lost.

    Example: falaj dataset restore flights@3 --project fraud
    """
    name, version = _split(dataset)
    request = versions.OneVersion(project=project_of(terminal, project), dataset=name, version=version)
    said = sentence(lambda it: f"{it.dataset}@{it.version} is what {dataset} was, and current.")
    terminal.run(versions.RESTORE_VERSION, request, said)


@commands.command("compact")
def compact(terminal: Terminal, dataset: OfDataset, project: InProject = "") -> None:
    """Make a version that has the same rows in fewer, larger parts: for a dataset that grew by many small appends.

    Example: falaj dataset compact flights --project fraud
    """
    request = datasets.OneDataset(project=project_of(terminal, project), dataset=dataset)
    said = sentence(lambda it: f"{it.dataset}@{it.version} has {it.rows:,} rows in {it.parts} parts.")
    terminal.show(terminal.call(tidying.COMPACT, request, patience=900), said)


@commands.command("prune")
def prune(
    terminal: Terminal,
    dataset: OfDataset,
    keep: Annotated[int, typer.Option(help="So many of the newest stay in any case.", min=1)] = 10,
    yes: Yes = False,
    project: InProject = "",
) -> None:
    """Let go of old versions that nothing refers to: no tag, no run, no model, and not the current one.

    Example: falaj dataset prune flights --keep 30 --yes --project fraud
    """
    terminal.confirm(f"Let go of old versions of {dataset}? There is no way back.", yes)
    request = tidying.PruneVersions(project=project_of(terminal, project), dataset=dataset, keep=keep)
    terminal.run(tidying.PRUNE_VERSIONS, request, sentence(lambda it: f"{len(it.versions)} versions are gone for good."))


@commands.command("export")
def export(
    terminal: Terminal,
    dataset: OfVersion,
    file: Annotated[str, typer.Argument(help="Where to write it; - is standard output.", show_default=False)],
    format: Annotated[
        Literal["parquet", "csv", "jsonl", "arrow", ""],
        typer.Option(help="What to write; by the file's ending by default.", show_default=False),
    ] = "",
    column: Annotated[
        list[str] | None, typer.Option(help="Only this column. Repeatable.", metavar="NAME", show_default=False)
    ] = None,
    project: InProject = "",
) -> None:
    """Write a version to a file, in the clear. The file appears only when it is whole.

    Example: falaj dataset export flights@3 flights.parquet --project fraud
    """
    chosen = format or ENDINGS.get(Path(file).suffix.lower(), "")
    if not chosen:
        raise Invalid(f"{file} does not say what to write: give --format parquet, csv, jsonl or arrow.")
    opened = client_datasets.dataset(dataset, project=project_of(terminal, project), client=terminal.client)
    exporting = dataset_pieces.tables_library("falaj.tables.exporting")
    chunks = exporting.exported(opened.batches(column or None), opened.columns(column or None), chosen)
    size = save(watched(chunks, None, opened.name), file)
    told = {"dataset": opened.name, "version": opened.version, "rows": opened.rows, "file": file, "size": size}
    terminal.told(told, f"Wrote {opened.rows:,} rows of {opened.name}@{opened.version} to {file}.", file)


@commands.command("delete")
def delete(
    terminal: Terminal,
    dataset: OfDataset,
    where: Annotated[
        str,
        typer.Option(help="Only rows of which this condition in SQL is true; that makes a new version.", show_default=False),
    ] = "",
    yes: Yes = False,
    project: InProject = "",
) -> None:
    """Delete a dataset with all its versions, or rows of it in a new version.

    Example: falaj dataset delete flights --where "carrier = 'XX'" --project fraud
    """
    chosen = project_of(terminal, project)
    if where:
        opening = writing.OpenWrite(project=chosen, dataset=dataset, mode="delete", where=where)
        write = terminal.call(writing.OPEN_WRITE, opening)
        request = writing.CommitWrite(project=chosen, dataset=dataset, write=write.id, pieces=0)
        version = terminal.call(writing.COMMIT_WRITE, request, patience=900)
        terminal.show(version, sentence(lambda it: f"{it.dataset}@{it.version} has {it.rows:,} rows."))
        return
    terminal.confirm(f"Delete {dataset} with all its versions? There is no way back.", yes)
    gone = datasets.OneDataset(project=chosen, dataset=dataset)
    terminal.run(datasets.DELETE_DATASET, gone, sentence(lambda _: f"{dataset} is gone for good."))


def _split(reference: str) -> tuple[str, str]:
    name, _, version = reference.partition("@")
    return name, version or "current"
