"""`falaj feature`: what is known of entities, defined once for training and for serving."""

from typing import Annotated, Any

import typer

from falaj.base.clock import SECOND, Moment
from falaj.base.errors import Invalid
from falaj.cli.amounts import span_told
from falaj.cli.choosing import InProject, project_of
from falaj.cli.command import Commands, Cursor, Limit
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
    project: InProject = "",
) -> None:
    """Define the feature views of a file. What is defined so already stays; anything else is a new version.

    Example: falaj feature apply features.toml --project fraud
    """
    chosen = project_of(terminal, project)
    applied = tuple(terminal.call(features.APPLY_VIEW, view, patience=120) for view in views_in(file, chosen))
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
    project: InProject = "",
) -> None:
    """Join labels with what was known of their entities at their moments, and nothing that became known later.

    Example: falaj feature training-set labels training --time asked --feature clicks --project fraud
    """
    request = features.MakeTrainingSet(
        project=project_of(terminal, project), labels=labels, time=time, features=tuple(feature), into=into
    )
    made = terminal.call(features.MAKE_TRAINING_SET, request, patience=PATIENCE, retry=False)
    terminal.show(made, sentence(_made))


@commands.command("materialise")
def materialise(
    terminal: Terminal,
    view: OfView,
    at: Annotated[
        str, typer.Option(help="As of this moment, such as 2026-11-15T09:30:00Z; now by default.", show_default=False)
    ] = "",
    project: InProject = "",
) -> None:
    """Keep what a view knows of every entity, for serving. Again it changes nothing, and it only goes forward.

    Example: falaj feature materialise clicks --project fraud
    """
    request = features.Materialise(project=project_of(terminal, project), view=view, moment=_moment(at) if at else None)
    done = terminal.call(features.MATERIALISE, request, patience=PATIENCE)
    said = sentence(
        lambda it: f"{it.view} of {it.source} is as of {it.moment}: {it.entities:,} entities, {it.written:,} written."
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


def _moment(text: str) -> Moment:
    try:
        return Moment.parse(text)
    except ValueError as error:
        raise Invalid(f"--at: {error}.") from None


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
    return f"{version.dataset}@{version.version} has {version.rows:,} rows and {len(version.columns)} columns: {of}."


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
            ("keys", keys),
            ("event", one.event),
            ("known", one.known or "when the rows were first published"),
            ("time to live", _span(one.time_to_live)),
            ("description", one.description),
            ("fresh as of", one.materialised),
            ("created", one.created),
        ]
    )
    layout.line()
    types = {column.name: column.type for column in one.columns}
    rows = ([each.name, types.get(each.name), each.function, each.column, _span(each.period)] for each in one.features)
    layout.table(["feature", "type", "function", "column", "period"], rows)


def _span(microseconds: int | None) -> str | None:
    return None if microseconds is None else span_told(microseconds / SECOND)


def _values(layout: Layout, found: features.FeatureValues, entities: list[str]) -> None:
    names = [column.name for view in found.views for column in view.columns]
    layout.table(["entity"], ([whose, *row] for whose, row in zip(entities, found.rows, strict=True)), named=names)
    for view in found.views:
        layout.line(f"{view.view} is as of {view.moment}.")
