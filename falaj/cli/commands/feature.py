"""`falaj feature`: what is known of entities, defined once for training and for serving."""

import re
from typing import Annotated, Any

import typer

from falaj.base.clock import DAY, HOUR, MINUTE, SECOND, Moment, SystemClock
from falaj.base.errors import Invalid
from falaj.cli import feature_functions, feature_hints, feature_looks
from falaj.cli.amounts import seconds_of
from falaj.cli.choosing import InProject, project_of
from falaj.cli.command import Commands, Cursor, Limit, Yes
from falaj.cli.dataset_derivations import FunctionOptions
from falaj.cli.feature_files import views_in
from falaj.cli.layout import Layout, brief, sentence, tell_of_more
from falaj.cli.terminal import Terminal, as_document
from falaj.datasets.operations import features
from falaj.tables.types import INTEGERS

commands = Commands("Features: what is known of entities, the same in training and in serving.")
OfView = Annotated[str, typer.Argument(help="The view, or a version of it such as clicks@2.", show_default=False)]
PATIENCE = 3600.0


@commands.command("apply")
def apply(
    terminal: Terminal,
    file: Annotated[str, typer.Argument(help="TOML, or YAML by its ending; - is standard input.", show_default=False)],
    options: FunctionOptions,
    project: InProject = "",
) -> None:
    """Define the feature views of a file. What is defined so already stays; anything else is a new version.

    A Python function that makes the rows of a view is run first, in a job.

    Example: falaj feature apply features.toml --project fraud
    """
    chosen = project_of(terminal, project)
    applied = tuple(feature_functions.applied(terminal, view, options) for view in views_in(file, chosen))
    terminal.show(features.FeatureViews(items=applied), _views)


@commands.command("list")
def list_views(terminal: Terminal, limit: Limit = 100, cursor: Cursor = "", project: InProject = "") -> None:
    """List a project's feature views, and how fresh they are.

    Example: falaj feature list --project fraud
    """
    request = features.ListViews(project=project_of(terminal, project), limit=limit, cursor=cursor)
    terminal.run(features.LIST_VIEWS, request, _views)


@commands.command("show")
def show(terminal: Terminal, view: OfView, project: InProject = "") -> None:
    """Show a feature view: what it reads, and its features.

    Example: falaj feature show clicks@2 --project fraud
    """
    terminal.run(features.SHOW_VIEW, features.OneView(project=project_of(terminal, project), view=view), _view)


@commands.command("delete")
def delete(terminal: Terminal, view: OfView, yes: Yes = False, project: InProject = "") -> None:
    """Delete a feature view, or one version of it, with what is kept of it for serving. Its number is not given again.

    Example: falaj feature delete clicks@1 --yes --project fraud
    """
    request = features.DeleteView(project=project_of(terminal, project), view=view)
    terminal.confirm(f"Delete the feature view {view}, and what is kept of it for serving?", yes)
    terminal.run(features.DELETE_VIEW, request, sentence(lambda it: f"Deleted {', '.join(it.views)}."))


@commands.command("training-set")
def training_set(
    terminal: Terminal,
    labels: Annotated[str, typer.Argument(help="The dataset of labels, or a version of it.", show_default=False)],
    into: Annotated[str, typer.Argument(help="The dataset that gets a new version; made where there is none.")],
    time: Annotated[str, typer.Option(help="The labels' column of moments.", metavar="COLUMN", show_default=False)],
    feature: Annotated[
        list[str],
        typer.Option(
            help="A view, or one feature of it such as clicks:clicks_7d. Repeatable.", metavar="NAME", show_default=False
        ),
    ],
    options: FunctionOptions,
    anew: Annotated[bool, typer.Option("--anew", help="Even if the same was made of the same rows before.")] = False,
    project: InProject = "",
) -> None:
    """Join labels with what was known of their entities at their moments, and nothing that became known later.

    The same of the same rows is not made twice.

    Example: falaj feature training-set labels training --time asked --feature clicks --project fraud
    """
    chosen = project_of(terminal, project)
    feature_functions.refresh(terminal, chosen, feature, options)
    request = features.MakeTrainingSet(project=chosen, labels=labels, time=time, features=tuple(feature), into=into, anew=anew)
    made = terminal.call(features.MAKE_TRAINING_SET, request, patience=PATIENCE, retry=False)
    terminal.show(made, sentence(_made))
    if not made.cached:
        feature_hints.tell_of_nothing_known(terminal, chosen, made)


@commands.command("materialise")
def materialise(
    terminal: Terminal,
    view: OfView,
    *,
    at: Annotated[
        str, typer.Option(help="As of this moment, such as 2026-11-15T09:30:00Z; now by default.", show_default=False)
    ] = "",
    whole: Annotated[bool, typer.Option("--whole", help="Compute and write everything anew, whatever was kept.")] = False,
    options: FunctionOptions,
    project: InProject = "",
) -> None:
    """Keep what a view knows of every entity, for serving. Again it changes nothing, and it only goes forward.

    What is read is what came since, where rows were only added; everything, where some were rewritten.

    Example: falaj feature materialise clicks --project fraud
    """
    chosen, moment = project_of(terminal, project), _moment("--at", at)
    feature_functions.refresh(terminal, chosen, [view], options)
    request = features.Materialise(project=chosen, view=view, moment=moment, whole=whole)
    done = terminal.call(features.MATERIALISE, request, patience=PATIENCE)
    said = sentence(
        lambda it: (
            f"{it.view} of {it.source} is as of {it.moment}: {it.entities:,} entities, {it.written:,} written; "
            f"what was read: {it.read}."
        )
    )
    terminal.show(done, said)


@commands.command("get")
def get(
    terminal: Terminal,
    names: Annotated[list[str], typer.Argument(help="Views, or features such as clicks:clicks_7d.", show_default=False)],
    entity: Annotated[
        list[str],
        typer.Option(help="Whose, by key: user=7, or user=7,country=AE. Repeatable.", metavar="KEY=VALUE", show_default=False),
    ],
    project: InProject = "",
) -> None:
    """Read what is kept of entities for serving, and how fresh it is.

    Example: falaj feature get clicks --entity user=7 --entity user=8 --project fraud
    """
    chosen = project_of(terminal, project)
    views = dict.fromkeys(name.partition(":")[0] for name in names)
    shown = [terminal.call(features.SHOW_VIEW, features.OneView(project=chosen, view=view)) for view in views]
    types = {column.name: column.type for view in shown for column in view.columns[: len(view.keys)]}
    entities = tuple(_entity(text, types) for text in entity)
    found = terminal.call(features.GET_FEATURES, features.GetFeatures(project=chosen, features=tuple(names), entities=entities))
    if terminal.as_json:
        terminal.print_json(as_document(found))
        return
    _values(Layout(), found, entity)


@commands.command("audit")
def audit(
    terminal: Terminal,
    view: OfView,
    since: Annotated[
        str, typer.Option(help="What was served since: a moment, or a time ago such as 2h; by default all.", show_default=False)
    ] = "",
    until: Annotated[str, typer.Option(help="What was served before this moment.", show_default=False)] = "",
    limit: Annotated[int, typer.Option(help="Entities that are looked at, newest first.", min=1, max=100_000)] = 10_000,
    project: InProject = "",
) -> None:
    """Hold what was served of a view against what it gives offline, bit for bit, and tell every difference.

    Of what is served a view keeps the share that its definition says (log). Status 1 where anything differs.

    Example: falaj feature audit clicks --since 24h --project fraud
    """
    request = features.AuditView(
        project=project_of(terminal, project),
        view=view,
        since=_moment("--since", since, ago=True),
        until=_moment("--until", until),
        limit=limit,
    )
    found = terminal.call(features.AUDIT_VIEW, request, patience=PATIENCE)
    terminal.show(found, feature_looks.audit)
    if found.causes:
        raise typer.Exit(1)


def _moment(option: str, text: str, *, ago: bool = False) -> Moment | None:
    if not text:
        return None
    if ago and re.fullmatch(r"[0-9.]+[smhd]", text):
        return Moment(SystemClock().now() - seconds_of(text) * SECOND)
    try:
        return Moment.parse(text)
    except ValueError as error:
        said = str(error) if "time zone" in str(error) else f"{text!r} is no time; write it like 2026-11-15T09:30:00Z"
        raise Invalid(f"{option}: {said}.") from None


def _entity(text: str, types: dict[str, str]) -> dict[str, Any]:
    entity: dict[str, Any] = {}
    for pair in text.split(","):
        key, is_one, value = pair.partition("=")
        if not is_one:
            raise Invalid(f"{pair!r} tells no entity: write KEY=VALUE, such as user=7.")
        entity[key] = _value(key, value, types.get(key, "text"))
    return entity


def _value(key: str, text: str, kind: str) -> Any:
    try:
        if kind in INTEGERS:
            return int(text)
        return {"true": True, "false": False}[text.lower()] if kind == "bool" else text
    except (ValueError, KeyError):
        raise Invalid(f"{key!r} is {kind}, and {text!r} is not.") from None


def _made(made: features.TrainingSet) -> str:
    version = made.version
    of = f"{made.labels} with {', '.join(made.views)}"
    told = f"{version.dataset}@{version.version} has {version.rows:,} rows and {len(version.columns)} columns: {of}"
    return f"{told}; it was made before." if made.cached else f"{told}."


def _views(layout: Layout, page: features.FeatureViews) -> None:
    rows = (
        [one.view, one.version, one.dataset, len(one.features), brief(one.materialised), brief(one.created)]
        for one in page.items
    )
    layout.table(["view", "version", "dataset", "features", "fresh as of", "created"], rows)
    tell_of_more(page)


def _view(layout: Layout, one: features.FeatureView) -> None:
    keys = tuple(key.column if not key.label else f"{key.column} (labels: {key.label})" for key in one.keys)
    layout.pairs(
        [
            ("view", f"{one.view}@{one.version}"),
            ("dataset", one.dataset),
            *([("made by", one.sql.strip())] if one.sql else []),
            *([("made by", f"the function {one.python.function}")] if one.python else []),
            *([("out of", one.inputs)] if one.inputs else []),
            ("keys", keys),
            ("event", one.event),
            ("known", one.known or "when the rows were first published"),
            ("time to live", _span(one.time_to_live)),
            ("description", one.description),
            *feature_looks.freshness(one.freshness),
            ("logged", feature_looks.logged(one.log)),
            ("created", one.created),
        ]
    )
    layout.line()
    types = {column.name: column.type for column in one.columns}
    rows = ([each.name, types.get(each.name), each.function, each.column, _span(each.period)] for each in one.features)
    layout.table(["feature", "type", "function", "column", "period"], rows)


def _span(microseconds: int | None) -> str | None:
    """As a definition writes it."""
    if microseconds is None:
        return None
    units = (("d", DAY), ("h", HOUR), ("m", MINUTE), ("s", SECOND))
    return next(
        (f"{microseconds // size}{unit}" for unit, size in units if microseconds % size == 0), f"{microseconds / SECOND:g}s"
    )


def _values(layout: Layout, found: features.FeatureValues, entities: list[str]) -> None:
    names = [column.name for view in found.views for column in view.columns]
    layout.table(["entity"], ([whose, *row] for whose, row in zip(entities, found.rows, strict=True)), named=names)
    for view in found.views:
        layout.line(f"{view.view} is as of {view.moment}.")
