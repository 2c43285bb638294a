"""`falaj dataset`: data that is named, versioned and sealed."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from falaj.base.errors import Invalid
from falaj.cli import dataset_checks, dataset_classes, dataset_derivations, dataset_external, dataset_pushes
from falaj.cli import dataset_looks as looks
from falaj.cli.choosing import InProject, project_of
from falaj.cli.command import Commands, Cursor, Limit, Yes
from falaj.cli.dataset_derivations import FunctionOptions
from falaj.cli.dataset_files import FormOptions, send
from falaj.cli.dataset_sources import Endpoint, SourceOptions, export_to_lake, is_place, send_rows
from falaj.cli.deferred import Deferred
from falaj.cli.layout import Layout, listing, sentence
from falaj.cli.terminal import Terminal, as_document, checked
from falaj.cli.transfers import STANDARD, save, watched
from falaj.datasets.operations import (
    checks,
    classes,
    comparing,
    datasets,
    deriving,
    external,
    places,
    profiles,
    pushing,
    reading,
    tidying,
    versions,
    writing,
)
from falaj.datasets.operations.words import CURRENT, QUARANTINED
from falaj.tables.connectors.addresses import is_address
from falaj.tables.connectors.asking import Asked

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
    source: Annotated[
        str,
        typer.Argument(
            help="A file (CSV, JSON lines, Parquet, Arrow; - is standard input), a folder of such, or the address of a place: "
            "postgresql://, sqlite:///, duckdb:///, delta:///, delta+s3://, iceberg:///, s3://.",
            show_default=False,
        ),
    ],
    options: FormOptions,
    place: SourceOptions,
    mode: Annotated[
        Literal["append", "overwrite", "merge"],
        typer.Option(help="Behind the rows that are there, in their place, or in place of those with the same key."),
    ] = "append",
    key: Annotated[
        list[str] | None,
        typer.Option(help="A column that tells rows apart, for a merge. Repeatable.", metavar="COLUMN", show_default=False),
    ] = None,
    evolve: Annotated[bool, typer.Option("--evolve", help="Columns may be added and widened.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Even if the very same was imported within a day.")] = False,
    zone: Annotated[
        str, typer.Option(help="The zone of a new dataset; the project's first by default.", show_default=False)
    ] = "",
    project: InProject = "",
) -> None:
    """Make a version of a file, a table or a folder. Whatever interrupts a file, the same command goes on where it was.

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
    )
    if is_place(source):
        written = send_rows(terminal, source, place.asked(options.form()), request, again=again)
    else:
        place.refuse_for_a_file()
        origin = "standard input" if source == STANDARD else Path(source).name
        written = send(terminal, source, replace(request, origin=origin), again=again)
    version = written.version
    if written.again:
        terminal.say(f"This became version {version.version} already; say --again to import it once more.")
    elif written.skipped:
        terminal.say(f"{written.skipped} of {written.sent + written.skipped} pieces were there from before.")
    words = f"{version.dataset}@{version.version} has {version.rows:,} rows in {looks.parts(version.parts)}."
    dataset_checks.show_made(terminal, request.project, version, words)


@commands.command("push")
def push(
    terminal: Terminal,
    dataset: OfDataset,
    file: Annotated[str, typer.Argument(help="A file of JSON lines; - is standard input.")] = STANDARD,
    rows: Annotated[int, typer.Option(help="Send as soon as there are so many lines.", min=1, max=100_000)] = 1000,
    seconds: Annotated[float, typer.Option(help="Or when the first has waited so long.", min=0.05, max=3600.0)] = 1.0,
    time_zone: Annotated[
        str,
        typer.Option(help="Where the clocks hang that wrote times without an offset, such as Asia/Dubai.", show_default=False),
    ] = "",
    create: Annotated[bool, typer.Option("--create", help="Make the dataset, where there is none.")] = False,
    flush: Annotated[bool, typer.Option("--flush", help="Make a version of it at the end, instead of soon.")] = False,
    project: InProject = "",
) -> None:
    """Push rows as they happen, one JSON object in each line. They are safe once sent, and in a version some seconds later.

    Example: falaj dataset push events events.jsonl --project fraud
    """
    chosen = project_of(terminal, project)
    request = checked(pushing.PushRows, pushing.PushRows(project=chosen, dataset=dataset, time_zone=time_zone, create=create))
    sent = dataset_pushes.send(terminal, file, request, rows=rows, seconds=seconds)
    version = None
    if flush and sent:
        asked = datasets.OneDataset(project=chosen, dataset=dataset)
        version = terminal.call(pushing.FLUSH_PUSHES, asked, patience=900)
    words = f"{sent:,} rows are safe, and in the next version of {dataset} within seconds."
    if version is None:
        terminal.told({"dataset": dataset, "rows": sent}, words)
    else:
        dataset_checks.show_made(terminal, chosen, version, f"{dataset}@{version.version} has {version.rows:,} rows.")


@commands.command("pushed")
def pushed(
    terminal: Terminal,
    dataset: OfDataset,
    drop: Annotated[bool, typer.Option("--drop", help="Give up what is stuck, because it fits no version any more.")] = False,
    yes: Yes = False,
    project: InProject = "",
) -> None:
    """Show what was pushed and is in no version yet, since when, and why.

    Example: falaj dataset pushed events --project fraud
    """
    chosen = project_of(terminal, project)
    if drop:
        terminal.confirm(f"Give up what was pushed to {dataset} and is stuck? There is no way back.", yes)
        said = sentence(lambda it: f"{it.rows:,} rows of {it.pushes:,} pushes are gone for good.")
        terminal.run(pushing.DROP_PUSHES, pushing.DropPushes(project=chosen, dataset=dataset), said)
        return
    terminal.run(pushing.SHOW_PUSHES, pushing.AskAboutPushes(project=chosen, dataset=dataset), dataset_pushes.told)


@commands.command("register")
def register(
    terminal: Terminal,
    dataset: OfDataset,
    place: Annotated[str, typer.Option(help="The place that it is in; see `falaj dataset places`.", show_default=False)],
    table: Annotated[
        str, typer.Option(help="A folder below the place's prefix, or schema.table of a database.", show_default=False)
    ],
    kind: Annotated[Literal["parquet", "delta", "iceberg", "postgres"], typer.Option(help="What the table is.")] = "parquet",
    at: Annotated[
        str, typer.Option(help="Of a Delta or Iceberg table: this version or snapshot, not the newest.", show_default=False)
    ] = "",
    time_zone: Annotated[
        str,
        typer.Option(help="Where the clocks hang that wrote times without an offset, such as Asia/Dubai.", show_default=False),
    ] = "",
    type_: Annotated[
        list[str] | None,
        typer.Option(
            "--type",
            help="The type of a database's column that has none. Repeatable.",
            metavar="COLUMN=TYPE",
            show_default=False,
        ),
    ] = None,
    description: Annotated[str, typer.Option(help="What it is about.", show_default=False)] = "",
    project: InProject = "",
) -> None:
    """Pin a table that stays where it is: Parquet files, a Delta or Iceberg table, a table of a Postgres. It is read once now,
    and again whenever it is read here, held against what was pinned.

    Example: falaj dataset register orders --place lake --table sales/orders --kind delta --project fraud
    """
    request = external.RegisterTable(
        project=project_of(terminal, project),
        dataset=dataset,
        place=place,
        table=table,
        kind=kind,
        at=at,
        description=description,
        time_zone=time_zone,
        types=dataset_external.types_of(type_ or ()),
    )
    dataset_external.pin(terminal, external.REGISTER_TABLE, request)


@commands.command("refresh")
def refresh(terminal: Terminal, dataset: OfDataset, project: InProject = "") -> None:
    """Pin the newest state of an external dataset's table, where it is another. Files that are the same are not read again.

    Example: falaj dataset refresh orders --project fraud
    """
    request = datasets.OneDataset(project=project_of(terminal, project), dataset=dataset)
    dataset_external.pin(terminal, external.REFRESH_TABLE, request)


@commands.command("places")
def list_places(terminal: Terminal, project: InProject = "") -> None:
    """List the places that the project may register tables of.

    Example: falaj dataset places --project fraud
    """
    request = places.ListUsable(project=project_of(terminal, project))
    terminal.run(places.USABLE_PLACES, request, listing("name", "kind", "zone"))


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
    quarantined: Annotated[
        bool, typer.Option("--quarantined", help="The newest that failed a check, with the rows that broke it.")
    ] = False,
    profile: Annotated[bool, typer.Option("--profile", help="Show what its columns look like.")] = False,
    project: InProject = "",
) -> None:
    """Show a version: its columns, how many rows, where it came from.

    Example: falaj dataset show flights@3 --rows 10 --project fraud
    """
    chosen = project_of(terminal, project)
    name, version = _split(dataset)
    if quarantined and "@" not in dataset:
        version = QUARANTINED
    one = terminal.call(versions.SHOW_VERSION, versions.OneVersion(project=chosen, dataset=name, version=version))
    asked = reading.Preview(project=chosen, dataset=name, version=str(one.version), limit=max(1, rows))
    found = terminal.call(reading.PREVIEW, asked) if rows else None
    same = versions.OneVersion(project=chosen, dataset=name, version=str(one.version))
    broken = terminal.call(checks.SHOW_FINDINGS, same) if quarantined else None
    looked = terminal.call(profiles.PROFILE_VERSION, same, patience=120) if profile else None
    asked_about = pushing.AskAboutPushes(project=chosen, dataset=name)
    waits = terminal.call(pushing.SHOW_PUSHES, asked_about) if version == CURRENT else None
    if terminal.as_json:
        parts = {"preview": found, "evidence": broken, "profile": looked, "pushes": waits}
        terminal.print_json(as_document(one) | {key: as_document(part) for key, part in parts.items() if part is not None})
        return
    looks.version(Layout(), one)
    if waits:
        dataset_pushes.shown(Layout(), waits)
    if broken:
        Layout().line()
        dataset_checks.outcome(Layout(), broken)
    if looked:
        Layout().line()
        looks.profile(Layout(), looked)
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


@commands.command("check")
def check(
    terminal: Terminal,
    dataset: OfVersion,
    declare: Annotated[
        str,
        typer.Option("--set", help="Declare the checks in this TOML or JSON file; - is standard input.", metavar="FILE"),
    ] = "",
    show: Annotated[bool, typer.Option("--show", help="Show which are declared, and check nothing.")] = False,
    examples: Annotated[
        int, typer.Option(help="Show so many rows of each check that is broken.", min=0, max=checks.MOST_EXAMPLES)
    ] = 5,
    project: InProject = "",
) -> None:
    """Hold a version against the checks of its dataset, or declare them. Fails where a check that stops versions is broken.

    Example: falaj dataset check flights --set checks.toml --project fraud
    """
    chosen, (name, version) = project_of(terminal, project), _split(dataset)
    if declare:
        given = checks.SetChecks(project=chosen, dataset=name, checks=dataset_checks.checks_in(declare))
        terminal.run(checks.SET_CHECKS, given, dataset_checks.declared)
        return
    if show:
        terminal.run(checks.SHOW_CHECKS, datasets.OneDataset(project=chosen, dataset=name), dataset_checks.declared)
        return
    request = checks.CheckVersion(project=chosen, dataset=name, version=version, examples=examples)
    found = terminal.call(checks.CHECK_VERSION, request, patience=900)
    terminal.show(found, dataset_checks.outcome)
    dataset_checks.refuse_broken(found)


@commands.command("classify")
def classify(
    terminal: Terminal,
    dataset: OfDataset,
    columns: Annotated[
        list[str] | None, typer.Argument(help="COLUMN=personal, COLUMN=sensitive or COLUMN=none.", show_default=False)
    ] = None,
    project: InProject = "",
) -> None:
    """Say which columns are personal or sensitive: whoever may not see such is shown none of their values.

    Without columns, show which are, and which look so.

    Example: falaj dataset classify flights email=personal --project fraud
    """
    chosen = project_of(terminal, project)
    if columns:
        terminal.run(classes.CLASSIFY_COLUMNS, dataset_classes.request_of(chosen, dataset, columns), dataset_classes.show)
        return
    terminal.run(classes.SHOW_CLASSES, datasets.OneDataset(project=chosen, dataset=dataset), dataset_classes.show)
    newest = versions.OneVersion(project=chosen, dataset=dataset, version=CURRENT)
    dataset_classes.tell_hints(terminal, chosen, terminal.call(versions.SHOW_VERSION, newest))


@commands.command("release")
def release(terminal: Terminal, dataset: OfVersion, yes: Yes = False, project: InProject = "") -> None:
    """Publish a version that is in quarantine, in spite of what its checks found.

    Example: falaj dataset release flights@4 --yes --project fraud
    """
    chosen, (name, version) = project_of(terminal, project), _split(dataset, QUARANTINED)
    terminal.confirm(f"Publish {name}@{version}, of which checks are broken?", yes)
    request = versions.OneVersion(project=chosen, dataset=name, version=version)
    said = sentence(lambda it: f"{it.dataset}@{it.version} is what was in quarantine, and current.")
    terminal.run(checks.RELEASE_VERSION, request, said)


@commands.command("drop")
def drop(terminal: Terminal, dataset: OfVersion, yes: Yes = False, project: InProject = "") -> None:
    """Drop a version that is in quarantine. Rows that only it has are shredded.

    Example: falaj dataset drop flights@4 --yes --project fraud
    """
    chosen, (name, version) = project_of(terminal, project), _split(dataset, QUARANTINED)
    terminal.confirm(f"Drop {name}@{version}? There is no way back.", yes)
    request = versions.OneVersion(project=chosen, dataset=name, version=version)
    terminal.run(checks.DROP_VERSION, request, sentence(lambda _: f"{name}@{version} is gone for good."))


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


@commands.command("derive")
def derive(
    terminal: Terminal,
    dataset: Annotated[str, typer.Argument(help="The dataset that gets a version; made where there is none.")],
    *,
    sql: Annotated[
        str, typer.Option(help='One SELECT over other datasets; a version is quoted: "users@3".', show_default=False)
    ] = "",
    python: Annotated[
        str,
        typer.Option(
            help="A function that makes the rows, in a job: file.py, or file.py:function.", metavar="FILE", show_default=False
        ),
    ] = "",
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--from",
            help="A dataset it reads, or a version of it such as users@3. Repeatable.",
            metavar="DATASET",
            show_default=False,
        ),
    ] = None,
    lock: Annotated[
        str, typer.Option(help="A requirements file with pinned versions that the function runs with.", metavar="FILE")
    ] = "",
    anew: Annotated[bool, typer.Option("--anew", help="Even if the same was made of the same rows before.")] = False,
    options: FunctionOptions,
    project: InProject = "",
) -> None:
    """Make a version of what SQL, or a Python function, makes of others. The same of the same rows is not made twice.

    Example: falaj dataset derive spent --sql "SELECT user, sum(amount) AS spent FROM clicks GROUP BY user" --project fraud
    """
    chosen, given = project_of(terminal, project), list(inputs or ())
    dataset_derivations.one_way(sql, python, given)
    if sql:
        request = deriving.Derive(project=chosen, dataset=dataset, sql=sql, inputs=tuple(given), anew=anew)
        done = dataset_derivations.by_sql(terminal, request)
    else:
        function = dataset_derivations.function_of(python, lock)
        done = dataset_derivations.by_function(terminal, chosen, dataset, function, tuple(given), options, anew=anew)
    if done.version.quarantined:
        dataset_checks.show_made(terminal, chosen, done.version, "")
    terminal.show(done, sentence(dataset_derivations.made))


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
    """Make a new version that equals an earlier one; nothing in between is lost. It is held against the checks of today.

    Example: falaj dataset restore flights@3 --project fraud
    """
    chosen, (name, version) = project_of(terminal, project), _split(dataset)
    request = versions.OneVersion(project=chosen, dataset=name, version=version)
    made = terminal.call(versions.RESTORE_VERSION, request, patience=900)
    dataset_checks.show_made(terminal, chosen, made, f"{name}@{made.version} is what {dataset} was, and current.")


@commands.command("compact")
def compact(terminal: Terminal, dataset: OfDataset, project: InProject = "") -> None:
    """Make a version that has the same rows in fewer, larger parts: for a dataset that grew by many small appends.

    Example: falaj dataset compact flights --project fraud
    """
    request = datasets.OneDataset(project=project_of(terminal, project), dataset=dataset)
    said = sentence(lambda it: f"{it.dataset}@{it.version} has {it.rows:,} rows in {looks.parts(it.parts)}.")
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
    file: Annotated[
        str,
        typer.Argument(
            help="Where to write it: a file, - for standard output, or a Delta table (delta:///, delta+s3://).",
            show_default=False,
        ),
    ],
    format: Annotated[
        Literal["parquet", "csv", "jsonl", "arrow", ""],
        typer.Option(
            help="What to write; by the file's ending by default.", metavar="<parquet|csv|jsonl|arrow>", show_default=False
        ),
    ] = "",
    column: Annotated[
        list[str] | None, typer.Option(help="Only this column. Repeatable.", metavar="NAME", show_default=False)
    ] = None,
    over: Annotated[bool, typer.Option("--replace", help="Of a Delta table that is there, write the next version.")] = False,
    endpoint: Endpoint = "",
    project: InProject = "",
) -> None:
    """Write a version to a file or a Delta table, in the clear. Either appears only when it is whole.

    Example: falaj dataset export flights@3 flights.parquet --project fraud
    """
    chosen = format or ENDINGS.get(Path(file).suffix.lower(), "")
    if not chosen and not is_address(file):
        raise Invalid(f"{file} does not say what to write: give --format parquet, csv, jsonl or arrow.")
    opened = client_datasets.dataset(dataset, project=project_of(terminal, project), client=terminal.client)
    if is_address(file):
        export_to_lake(terminal, opened, file, column or None, Asked(endpoint=endpoint), over=over)
        return
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
    even_if_needed: Annotated[
        bool, typer.Option("--even-if-needed", help="Though something was made of it, or a feature view reads it.")
    ] = False,
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
        dataset_checks.show_made(terminal, chosen, version, f"{dataset}@{version.version} has {version.rows:,} rows.")
        return
    terminal.confirm(f"Delete {dataset} with all its versions? There is no way back.", yes)
    gone = datasets.DeleteDataset(project=chosen, dataset=dataset, even_if_needed=even_if_needed)
    terminal.run(datasets.DELETE_DATASET, gone, sentence(lambda _: f"{dataset} is gone for good."))


def _split(reference: str, otherwise: str = CURRENT) -> tuple[str, str]:
    name, _, version = reference.partition("@")
    return name, version or otherwise
