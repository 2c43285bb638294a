"""`falaj labels`: say what became of predictions, and see how good they were."""

from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from falaj.cli import label_files
from falaj.cli.choosing import InProject, project_of
from falaj.cli.command import Commands
from falaj.cli.deferred import Deferred
from falaj.cli.layout import Layout, brief
from falaj.cli.terminal import Terminal
from falaj.cli.transfers import source
from falaj.monitoring.operations import labels as declared
from falaj.monitoring.operations.labels import Bucket, Figure, Gap, Quality

if TYPE_CHECKING:
    from falaj.client import labelling
else:
    labelling = Deferred("falaj.client.labelling")

commands = Commands("Labels: what became of predictions, and how good they were.")
OfEndpoint = Annotated[str, typer.Argument(help="The endpoint's name.", show_default=False)]
_LESS_ASKED_FOR: Final = ("balanced accuracy", "log loss", "Brier score")
_GAPS: Final = {"selected": "selected", "recognised": "recognised where it should be", "right": "predicted rightly"}


@commands.command("add")
def add(
    terminal: Terminal,
    endpoint: OfEndpoint,
    file: Annotated[str, typer.Argument(help="CSV, JSON lines or Parquet; - reads the input.", show_default=False)] = "-",
    format: Annotated[
        Literal["csv", "jsonl", "parquet", ""],
        typer.Option(help="What it is; found by default.", metavar="<csv|jsonl|parquet>", show_default=False),
    ] = "",
    within: Annotated[
        int, typer.Option(help="An entity's prediction is at most so many seconds older than `at`.", min=1, max=366 * 86_400)
    ] = 86_400,
    strict: Annotated[
        bool, typer.Option("--strict", help="End with status 1 where labels were refused or are of unknown predictions.")
    ] = False,
    project: InProject = "",
) -> None:
    """Say what became of predictions. Columns: id (that the call was sent with) and row, or entity.NAME and at; truth and unit;
    all others are values, such as what a customer spent.

    Example: falaj labels add fraud outcomes.csv --project fraud
    """
    chosen = project_of(terminal, project)
    sender = labelling.Sender(terminal.client, chosen, endpoint, within=within)
    # Rows are closed before the file that they are read from, also where something goes wrong in between.
    with (
        source(file) as (stream, _),
        label_files.counter(endpoint) as counted,
        closing(label_files.rows_of(stream, file, format)) as rows,
    ):
        found = sender.send(rows, lambda summary: counted(summary.sent))
    document = {
        "taken": found.taken,
        "repeated": found.repeated,
        "refused": found.refused,
        "unknown": found.unknown,
        "refused_lines": found.refused_lines,
        "unknown_lines": found.unknown_lines,
        "remarks": found.remarks,
    }
    terminal.told(document, "\n".join(_told(found)))
    if strict and (found.refused or found.unknown):
        raise typer.Exit(1)


@commands.command("quality")
def quality(
    terminal: Terminal,
    endpoint: OfEndpoint,
    by: Annotated[Literal["hour", "day", "whole"], typer.Option(help="Spans of time.", metavar="<hour|day|whole>")] = "day",
    days: Annotated[int, typer.Option(help="How far back.", min=1, max=366)] = 30,
    revision: Annotated[int, typer.Option(help="Of this revision; of all by default.", min=0, show_default=False)] = 0,
    slice: Annotated[  # noqa: A002 - what people call it
        list[str] | None, typer.Option(help="Compare groups by this input. Repeatable.", metavar="COLUMN", show_default=False)
    ] = None,
    positive: Annotated[str, typer.Option(help="The class that matters.", show_default=False)] = "",
    whole: Annotated[bool, typer.Option("--all", help="All figures.")] = False,
    project: InProject = "",
) -> None:
    """Show how good predictions were where the truth is known; each figure with its interval.

    Example: falaj labels quality fraud --by day --slice country --positive fraud --project fraud
    """
    request = declared.ReadQuality(
        project=project_of(terminal, project),
        endpoint=endpoint,
        revision=revision,
        span=by,
        days=days,
        slices=tuple(slice or ()),
        positive=positive,
    )
    terminal.run(declared.READ_QUALITY, request, lambda layout, found: _quality(layout, found, whole=whole))


def _told(found: "labelling.Summary") -> list[str]:
    said = [f"{found.taken:,} taken, {found.repeated:,} known already, {found.refused:,} refused, {found.unknown:,} unknown."]
    if found.refused:
        said.append(f"Refused, for something else was said before: {_lines(found.refused_lines, found.refused)}.")
    if found.unknown:
        said.append(f"Of predictions that nobody knows: {_lines(found.unknown_lines, found.unknown)}.")
    return [*said, *found.remarks]


def _lines(named: list[int], all_of_them: int) -> str:
    more = f" and {all_of_them - len(named):,} more" if all_of_them > len(named) else ""
    return f"line{'s' if all_of_them > 1 else ''} {', '.join(map(str, named))}{more}"


def _quality(layout: Layout, found: Quality, *, whole: bool) -> None:
    names = [one.name for bucket in found.items for one in bucket.figures]
    columns = [name for name in dict.fromkeys(names) if whole or name not in _LESS_ASKED_FOR]
    if found.items:
        layout.table(("from", "revision", "rows"), [_bucket(one, columns) for one in found.items], named=columns)
    else:
        layout.line("Nothing is known of how good the predictions were: no labels of that time.")
    for bucket in found.items:
        for gap in bucket.gaps:
            layout.line(_gap(bucket, gap))
    if found.left_out:
        layout.line(f"{found.left_out:,} older rows are not looked at.")
    for remark in found.remarks:
        layout.line(remark)


def _bucket(bucket: Bucket, columns: list[str]) -> list[Any]:
    figures = {one.name: one for one in bucket.figures}
    shown = [_figure(figures[name]) if name in figures else None for name in columns]
    return [brief(bucket.at), bucket.revision, f"{bucket.rows:,}", *shown]


def _figure(one: Figure) -> str:
    return f"{one.at:.4g} ({one.low:.3g} to {one.high:.3g})"


def _gap(bucket: Bucket, gap: Gap) -> str:
    one = gap.difference
    if gap.figure in _GAPS:
        sure = f"{100 * one.low:.1f} to {100 * one.high:.1f}"
        groups = f"{gap.highest!r} is {_GAPS[gap.figure]} {100 * one.at:.1f} points more often than {gap.lowest!r} ({sure})"
    else:
        groups = f"the {gap.figure} of {gap.highest!r} is {_figure(one)} larger than that of {gap.lowest!r}"
    rest = f"; not judged: {', '.join(gap.left_out)}" if gap.left_out else ""
    return f"Revision {bucket.revision} from {brief(bucket.at)}, by {gap.slice}: {groups}{rest}."
