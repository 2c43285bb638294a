"""`falaj abtest`: revisions of an endpoint held against each other, by what becomes of their predictions."""

from typing import Annotated, Literal

import typer

from falaj.cli import abtest_looks
from falaj.cli.amounts import fraction_of, part_of
from falaj.cli.choosing import InProject, project_of
from falaj.cli.command import Commands, Cursor, Limit, Yes
from falaj.cli.layout import Layout
from falaj.cli.terminal import Terminal
from falaj.monitoring.operations import abtests as declared
from falaj.monitoring.operations.abtests import Abtest, Better, Design

commands = Commands("A/B tests: which revision brings more, decided however often you look.")
OfEndpoint = Annotated[str, typer.Argument(help="The endpoint's name.", show_default=False)]
Which = Annotated[str, typer.Argument(help="The test's name or id.", show_default=False)]
Candidates = Annotated[
    list[str], typer.Argument(help="Revisions, with their share in per cent where you like: 4, or 4=10.", show_default=False)
]
MetricName = Annotated[str, typer.Option(help="right, truth, or a value of the labels by its name.")]
Kind = Annotated[
    Literal["binary", "bounded", "mean", ""],
    typer.Option(help="What outcomes are like; found by default.", metavar="<binary|bounded|mean>", show_default=False),
]
Per = Annotated[str, typer.Option(help="For each of this value: a ratio.", show_default=False)]
Covariate = Annotated[str, typer.Option(help="A value that was known before; narrows intervals.", show_default=False)]
Low = Annotated[float, typer.Option(help="The least a bounded outcome can be.")]
High = Annotated[float, typer.Option(help="The most a bounded outcome can be.")]
BetterWay = Annotated[Better, typer.Option(help="Which way is better.")]
Guardrails = Annotated[
    list[str] | None,
    typer.Option("--guardrail", help="What must not get worse, and by how much: errors:1%, lower:cost:0.5. Repeatable."),
]
Confidence = Annotated[str, typer.Option(help="How sure a verdict is: 0.95, or 95%.")]
Least = Annotated[str, typer.Option("--least-effect", help="The least difference that matters: 0.01, or 1%.")]
Days = Annotated[int, typer.Option(help="The most days it takes.", min=1, max=366)]
Incumbent = Annotated[int, typer.Option(help="What they are held against; the main revision by default.", show_default=False)]


@commands.command("create")
def create(
    terminal: Terminal,
    endpoint: OfEndpoint,
    candidates: Candidates,
    metric: MetricName = "right",
    kind: Kind = "",
    per: Per = "",
    covariate: Covariate = "",
    low: Low = 0.0,
    high: High = 1.0,
    better: BetterWay = "higher",
    guardrail: Guardrails = None,
    confidence: Confidence = "0.95",
    least_effect: Least = "0",
    days: Days = 28,
    incumbent: Incumbent = 0,
    on_win: Annotated[Literal["promote", "tell"], typer.Option(help="What is done with a winner.")] = "tell",
    on_loss: Annotated[Literal["back", "tell"], typer.Option(help="What is done where none wins.")] = "back",
    name: Annotated[str, typer.Option(help="Its name; made up by default.", show_default=False)] = "",
    reason: Annotated[str, typer.Option(help="Why; it stays on record.", show_default=False)] = "",
    project: InProject = "",
) -> None:
    """Test revisions against the one that answers. The traffic is split at once; what to expect is said.

    Example: falaj abtest create fraud 4 --metric right --least-effect 1% --on-win promote --project fraud
    """
    measured = abtest_looks.metric_of(metric, kind=kind, per=per, low=low, high=high, covariate=covariate, better=better)
    design = Design(
        candidates=tuple(abtest_looks.candidate_of(one) for one in candidates),
        incumbent=incumbent,
        metric=measured,
        guardrails=tuple(abtest_looks.guardrail_of(one) for one in guardrail or ()),
        confidence=fraction_of(confidence, "--confidence"),
        least_effect=part_of(least_effect, "effect"),
        days=days,
        on_win=on_win,
        on_loss=on_loss,
    )
    chosen = project_of(terminal, project)
    request = declared.CreateAbtest(
        project=chosen, endpoint=endpoint, name=name, design=abtest_looks.designed(design), reason=reason
    )
    terminal.run(declared.CREATE_ABTEST, request, _created)


@commands.command("plan")
def plan(
    terminal: Terminal,
    endpoint: OfEndpoint,
    candidates: Candidates,
    metric: MetricName = "right",
    kind: Kind = "",
    per: Per = "",
    covariate: Covariate = "",
    low: Low = 0.0,
    high: High = 1.0,
    confidence: Confidence = "0.95",
    least_effect: Least = "0",
    power: Annotated[str, typer.Option(help="Of many tests with the effect, this share shows it in time.")] = "0.8",
    days: Days = 28,
    incumbent: Incumbent = 0,
    project: InProject = "",
) -> None:
    """Say what a test could show and how long it would take, without beginning it.

    Example: falaj abtest plan fraud 4 --least-effect 1% --days 14 --project fraud
    """
    design = Design(
        candidates=tuple(abtest_looks.candidate_of(one) for one in candidates),
        incumbent=incumbent,
        metric=abtest_looks.metric_of(metric, kind=kind, per=per, low=low, high=high, covariate=covariate),
        confidence=fraction_of(confidence, "--confidence"),
        power=fraction_of(power, "--power"),
        least_effect=part_of(least_effect, "effect"),
        days=days,
    )
    request = declared.PlanAbtest(
        project=project_of(terminal, project), endpoint=endpoint, design=abtest_looks.designed(design)
    )
    terminal.run(declared.PLAN_ABTEST, request, abtest_looks.expected)


@commands.command("list")
def list_abtests(
    terminal: Terminal,
    endpoint: Annotated[str, typer.Argument(help="Of this endpoint; of all by default.", show_default=False)] = "",
    project: InProject = "",
    limit: Limit = 100,
    cursor: Cursor = "",
) -> None:
    """List A/B tests, newest first.

    Example: falaj abtest list --project fraud
    """
    request = declared.ListAbtests(project=project_of(terminal, project), endpoint=endpoint, limit=limit, cursor=cursor)
    terminal.run(declared.LIST_ABTESTS, request, abtest_looks.listed)


@commands.command("show")
def show(terminal: Terminal, abtest: Which, project: InProject = "") -> None:
    """Say how a test stands, or what came of it. Look as often as you like: that does not change the verdict.

    Example: falaj abtest show checkout-4 --project fraud
    """
    request = declared.OneAbtest(project=project_of(terminal, project), abtest=abtest)
    terminal.run(declared.SHOW_ABTEST, request, abtest_looks.shown)


@commands.command("stop")
def stop(
    terminal: Terminal,
    abtest: Which,
    then: Annotated[Literal["back", "tell"], typer.Option(help="Back to the split before, or leave it (tell).")] = "back",
    reason: Annotated[str, typer.Option(help="Why; it stays on record.", show_default=False)] = "",
    yes: Yes = False,
    project: InProject = "",
) -> None:
    """End a test without a verdict.

    Example: falaj abtest stop checkout-4 --reason "the campaign ended" --yes --project fraud
    """
    chosen = project_of(terminal, project)
    terminal.confirm(f"End the A/B test {abtest}?", yes)
    request = declared.StopAbtest(project=chosen, abtest=abtest, then=then, reason=reason)
    terminal.run(declared.STOP_ABTEST, request, abtest_looks.shown)


def _created(layout: Layout, made: Abtest) -> None:
    abtest_looks.expected(layout, made.expected)
    abtest_looks.shown(layout, made)
