"""`falaj run`: the runs of experiments, what they were given and what they measured."""

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Annotated, Any, Literal

import typer

from falaj.base.errors import Invalid, NotFound
from falaj.cli.choosing import (
    InProject,
    OfExperiment,
    an_id,
    day_of,
    experiment_of,
    ids,
    known_experiment_of,
    pair_of,
    project_of,
)
from falaj.cli.command import Commands, Cursor, Limit
from falaj.cli.layout import Layout, rounded, sentence, tell_of_more
from falaj.cli.naming import name_of
from falaj.cli.terminal import Terminal
from falaj.tracking.operations.experiments import SHOW_EXPERIMENT, OneExperiment
from falaj.tracking.operations.runs import (
    CREATE_RUN,
    DELETE_RUN,
    LOG_TO_RUN,
    READ_HISTORY,
    RESTORE_RUN,
    SEARCH_RUNS,
    SHOW_RUN,
    UPDATE_RUN,
    CreateRun,
    History,
    LogToRun,
    OneRun,
    ReadHistory,
    Run,
    RunInfo,
    Runs,
    SearchRuns,
    UpdateRun,
)
from falaj.tracking.operations.words import Metric, Param, State, Tag
from falaj.training.profiling.shown import Shown, percent, shown

commands = Commands("Runs: what was tried, with what, and how well it did.")
OfRun = Annotated[str, typer.Argument(help="The run's id.", show_default=False, callback=an_id("run"))]
Pairs = list[str] | None
MetricPairs = Annotated[Pairs, typer.Option("--metric", help="A metric, key=number. Repeatable.", metavar="PAIR")]
ParamPairs = Annotated[Pairs, typer.Option("--param", help="A parameter, key=value. Repeatable.", metavar="PAIR")]
TagPairs = Annotated[Pairs, typer.Option("--tag", help="A tag, key=value. Repeatable.", metavar="PAIR")]
FILTER = "Only these, in MLflow's language, e.g. \"metrics.auc > 0.9 AND params.depth = '4'\"."
ORDER = 'What to order by, e.g. "metrics.auc DESC". Repeatable.'
MOST_METRIC_COLUMNS = 4
# Tags that MLflow's clients keep their own books in.
BOOKKEEPING = "mlflow."


@commands.command("list")
def list_runs(
    terminal: Terminal,
    experiment: Annotated[list[str], typer.Argument(help="Experiments, by number or name.", show_default=False)],
    filter: Annotated[str, typer.Option(help=FILTER, show_default=False)] = "",
    order: Annotated[list[str] | None, typer.Option(help=ORDER, metavar="ORDER")] = None,
    metric: Annotated[
        list[str] | None, typer.Option(help="A metric to show; the commonest by default. Repeatable.", metavar="KEY")
    ] = None,
    param: Annotated[list[str] | None, typer.Option(help="A parameter to show. Repeatable.", metavar="KEY")] = None,
    state: Annotated[State, typer.Option(help="Which: those in use, the deleted, or all.")] = "active",
    project: InProject = "",
    limit: Limit = 50,
    cursor: Cursor = "",
) -> None:
    """List the runs of experiments, newest first, with their metrics.

    Example: falaj run list "card fraud" --filter "metrics.auc > 0.9" --order "metrics.auc DESC" --param depth
    """
    chosen = project_of(terminal, project)
    request = SearchRuns(
        project=chosen,
        experiments=tuple(known_experiment_of(terminal, chosen, one) for one in experiment),
        filter=filter,
        order=tuple(order or ()),
        state=state,
        limit=limit,
        cursor=cursor,
    )
    terminal.run(SEARCH_RUNS, request, partial(_table, metric or [], param or [], order or []))


@commands.command("show")
def show(terminal: Terminal, run: OfRun, project: InProject = "") -> None:
    """Show a run: what it was given, its last metrics, the data and the models.

    Example: falaj run show 0199a1b2c3d4e5f60718293a4b5c6d7e --project fraud
    """
    chosen = project_of(terminal, project)
    found = terminal.call(SHOW_RUN, OneRun(project=chosen, run=run))
    if terminal.as_json:
        terminal.show(found)
        return
    place = terminal.call(SHOW_EXPERIMENT, OneExperiment(project=chosen, experiment=found.info.experiment))
    by = name_of(terminal, chosen, found.info.created_by)
    terminal.show(found, partial(_one, f"{place.name} ({place.id})", by))


@commands.command("profile")
def profile(terminal: Terminal, run: OfRun, project: InProject = "") -> None:
    """Show where a training's time went, what to change, and why it ran as it did.

    Example: falaj run profile 0199a1b2c3d4e5f60718293a4b5c6d7e --project fraud
    """
    found = terminal.call(SHOW_RUN, OneRun(project=project_of(terminal, project), run=run))
    told = shown({tag.key: tag.value for tag in found.tags}, {metric.key: metric.value for metric in found.metrics})
    if told is None or not (told.verdicts or told.shares or told.facts or told.choices):
        raise NotFound(f"Run {run} has no profile; a training through falaj.training's Session or trainer_for has one.")
    if terminal.as_json:
        choices = {one.name: {"value": one.value, "why": one.why} for one in told.choices}
        terminal.print_json(
            {
                "verdicts": told.verdicts,
                "next": [*told.next, *told.commands],
                "shares": dict(told.shares),
                "facts": dict(told.facts),
            }
            | {"recipe": choices}
        )
        return
    _profile(Layout(), told)


@commands.command("compare")
def compare(
    terminal: Terminal,
    run: Annotated[list[str], typer.Argument(help="The runs' ids, two or more.", show_default=False, callback=ids("run"))],
    same: Annotated[bool, typer.Option("--same", help="Also what is the same in all of them.")] = False,
    project: InProject = "",
) -> None:
    """Put runs side by side: the parameters, data and metrics that differ.

    Example: falaj run compare 0199a1b2c3d4e5f60718293a4b5c6d7e 0199ffeeddccbbaa9988776655443322 --project fraud
    """
    if len(run) < 2:
        raise Invalid("To compare, name at least two runs.")
    chosen = project_of(terminal, project)
    runs = [terminal.call(SHOW_RUN, OneRun(project=chosen, run=one)) for one in run]
    rows = [row for row in _differences(runs) if same or len(set(row[2:])) > 1]
    if terminal.as_json:
        found = [{"kind": kind, "key": key, "values": cells} for kind, key, *cells in rows]
        terminal.print_json({"runs": [one.info.id for one in runs], "rows": found})
        return
    layout = Layout()
    layout.table(["", ""], rows, named=[one.info.name or one.info.id for one in runs])
    if not rows:
        layout.line("Nothing differs between them.")


@commands.command("history")
def history(
    terminal: Terminal,
    run: OfRun,
    key: Annotated[str, typer.Argument(help="The metric.", show_default=False)],
    project: InProject = "",
    limit: Annotated[int, typer.Option(help="How many to list.", min=1, max=25_000)] = 1000,
    cursor: Cursor = "",
) -> None:
    """Read every point of one metric, in the order of steps.

    Example: falaj run history 0199a1b2c3d4e5f60718293a4b5c6d7e loss --project fraud
    """
    chosen = project_of(terminal, project)
    page = terminal.call(READ_HISTORY, ReadHistory(project=chosen, run=run, key=key, limit=limit, cursor=cursor))
    if not page.items and not cursor:
        known = terminal.call(SHOW_RUN, OneRun(project=chosen, run=run)).metrics
        named = ", ".join(metric.key for metric in known) or "none"
        raise NotFound(f"Run {run} has no metric {key}; its metrics: {named}.")
    terminal.show(page, _points)


@commands.command("create")
def create(
    terminal: Terminal,
    experiment: OfExperiment,
    name: Annotated[str, typer.Option(help="Its name; one is made up by default.", show_default=False)] = "",
    tag: TagPairs = None,
    project: InProject = "",
) -> None:
    """Start a run, as from a shell script; `run log` and `run finish` do the rest.

    Example: falaj run create "card fraud" --name nightly --project fraud
    """
    chosen = project_of(terminal, project)
    request = CreateRun(
        project=chosen,
        experiment=experiment_of(terminal, chosen, experiment),
        name=name,
        tags=tuple(Tag(key=key, value=text) for key, text in map(pair_of, tag or ())),
    )
    terminal.run(CREATE_RUN, request, sentence(lambda made: made.info.id))


@commands.command("log")
def log(
    terminal: Terminal,
    run: OfRun,
    metric: MetricPairs = None,
    param: ParamPairs = None,
    tag: TagPairs = None,
    step: Annotated[int, typer.Option(help="The step the metrics belong to.")] = 0,
    project: InProject = "",
) -> None:
    """Log metrics, parameters and tags to a run, all or none.

    Example: falaj run log 0199a1b2c3d4e5f60718293a4b5c6d7e --metric auc=0.93 --param depth=4 --project fraud
    """
    if not (metric or param or tag):
        raise Invalid("There is nothing to log: say --metric, --param or --tag.")
    now = time.time_ns() // 1_000_000
    request = LogToRun(
        project=project_of(terminal, project),
        run=run,
        metrics=tuple(Metric(key=key, value=_number(text), timestamp=now, step=step) for key, text in _read(metric)),
        params=tuple(Param(key=key, value=text) for key, text in _read(param)),
        tags=tuple(Tag(key=key, value=text) for key, text in _read(tag)),
    )
    terminal.run(LOG_TO_RUN, request, sentence(lambda _: "Logged."))


@commands.command("finish")
def finish(
    terminal: Terminal,
    run: OfRun,
    status: Annotated[Literal["FINISHED", "FAILED", "KILLED"], typer.Option(help="How it ended.")] = "FINISHED",
    project: InProject = "",
) -> None:
    """Say that a run has ended.

    Example: falaj run finish 0199a1b2c3d4e5f60718293a4b5c6d7e --status FAILED --project fraud
    """
    now = time.time_ns() // 1_000_000
    request = UpdateRun(project=project_of(terminal, project), run=run, status=status, ended=now)
    terminal.run(UPDATE_RUN, request, sentence(lambda info: f"Run {info.id} is {info.status}."))


@commands.command("delete")
def delete(terminal: Terminal, run: OfRun, project: InProject = "") -> None:
    """Hide a run; `restore` brings it back.

    Example: falaj run delete 0199a1b2c3d4e5f60718293a4b5c6d7e --project fraud
    """
    said = sentence(lambda _: f"Run {run} is hidden; `falaj run restore` brings it back.")
    terminal.run(DELETE_RUN, OneRun(project=project_of(terminal, project), run=run), said)


@commands.command("restore")
def restore(terminal: Terminal, run: OfRun, project: InProject = "") -> None:
    """Bring a deleted run back.

    Example: falaj run restore 0199a1b2c3d4e5f60718293a4b5c6d7e --project fraud
    """
    terminal.run(RESTORE_RUN, OneRun(project=project_of(terminal, project), run=run), sentence(lambda _: f"Run {run} is back."))


def _read(pairs: list[str] | None) -> Iterable[tuple[str, str]]:
    return map(pair_of, pairs or ())


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise Invalid(f"{text!r} is no number; a metric is written like auc=0.93.") from None


def _table(metrics: list[str], params: list[str], order: list[str], layout: Layout, page: Runs) -> None:
    keys = metrics or _commonest(page.items, order)
    rows = []
    for run in page.items:
        measured, given = _measured(run), {param.key: param.value for param in run.params}
        rows.append(
            [
                run.info.id,
                run.info.name,
                run.info.status + (" (deleted)" if run.info.deleted else ""),
                day_of(run.info.started),
                _lasted(run.info),
                *(measured.get(key) for key in keys),
                *(given.get(key) for key in params),
            ]
        )
    layout.table(["id", "name", "status", "started", "took"], rows, named=[*keys, *params])
    tell_of_more(page)


def _commonest(runs: Sequence[Run], order: list[str]) -> list[str]:
    """The metrics that are ordered by, then those that most runs have; what machines measure of themselves comes last."""
    counted = Counter(metric.key for run in runs for metric in run.metrics)
    wanted = [key for key in counted if any(f"metrics.{key}" in text or f"metrics.`{key}`" in text for text in order)]
    others = sorted(counted.keys() - set(wanted), key=lambda key: (key.startswith("system/"), -counted[key], key))
    return (wanted + others)[:MOST_METRIC_COLUMNS]


def _measured(run: Run) -> dict[str, str | None]:
    return {metric.key: rounded(metric.value) for metric in run.metrics}


def _lasted(info: RunInfo) -> str:
    if info.ended is None:
        return "-"
    seconds = (info.ended - info.started) / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, hours = int(seconds // 60), int(seconds // 3600)
    return f"{minutes} min {int(seconds) % 60} s" if not hours else f"{hours} h {minutes % 60} min"


def _one(experiment: str, by: str, layout: Layout, run: Run) -> None:
    info = run.info
    layout.pairs(
        [
            ("id", info.id),
            ("name", info.name),
            ("experiment", experiment),
            ("status", info.status + (" (deleted)" if info.deleted else "")),
            ("started", day_of(info.started)),
            ("ended", day_of(info.ended)),
            ("took", _lasted(info)),
            ("user", info.user),
            ("created by", by),
            *((f"data {one.dataset.name}", f"{one.dataset.digest} {_labels(one.tags)}".rstrip()) for one in run.datasets),
            *(("model used", model) for model in run.models_used),
            *(("model made", f"{made.model} at step {made.step}") for made in run.models_made),
            *((f"tag {tag.key}", tag.value) for tag in run.tags if not tag.key.startswith(BOOKKEEPING)),
        ]
    )
    if run.params:
        layout.line()
        layout.table(["parameter", "value"], ([param.key, param.value] for param in run.params))
    if run.metrics:
        layout.line()
        layout.table(["metric", "last", "step"], ([one.key, rounded(one.value), one.step] for one in run.metrics))


def _profile(layout: Layout, told: Shown) -> None:
    for line in [*told.verdicts, *told.next, *told.commands]:
        layout.line(line)
    split = [(f"  {phase}", percent(share)) for phase, share in told.shares.items()]
    figures = [(name.lower(), text) for name, text in told.facts] + ([("of a step", ""), *split] if split else [])
    if figures:
        layout.line()
        layout.pairs(figures)
    if told.choices:
        layout.line()
        layout.table(["choice", "value", "why"], ([one.name, one.value, one.why] for one in told.choices))


def _labels(tags: Sequence[Tag]) -> str:
    return " ".join(f"({tag.value})" for tag in tags if tag.key == "mlflow.data.context")


def _differences(runs: Sequence[Run]) -> list[list[Any]]:
    """Kind, key and one cell for each run, of everything that any of them has."""
    sides: dict[str, list[dict[str, Any]]] = {
        "run": [{"status": run.info.status, "took": _lasted(run.info)} for run in runs],
        "data": [{one.dataset.name: one.dataset.digest for one in run.datasets} for run in runs],
        "param": [{param.key: param.value for param in run.params} for run in runs],
        "metric": [_measured(run) for run in runs],
    }
    return [
        [kind, key, *(column.get(key) for column in columns)]
        for kind, columns in sides.items()
        for key in sorted({key for column in columns for key in column})
    ]


def _points(layout: Layout, history: History) -> None:
    layout.table(["step", "time", "value"], ([one.step, day_of(one.timestamp), repr(one.value)] for one in history.items))
    tell_of_more(history)
