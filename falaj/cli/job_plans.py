"""What a person is told of a job that is about to run: where, when, at what cost; and then what it writes."""

import time
from collections.abc import Callable

import typer

from falaj.base.clock import SECOND, Moment
from falaj.cli.amounts import span_told
from falaj.cli.following import INTERRUPTED, LOST_SIGHT, follow_job
from falaj.cli.layout import Layout
from falaj.cli.terminal import Terminal
from falaj.jobs.operations import jobs as declared


def begun(
    terminal: Terminal,
    project: str,
    made: declared.Submitted,
    follow: bool,
    afterwards: Callable[[Terminal, str, declared.Job], None] | None = None,
) -> None:
    """`afterwards` is done once it was followed to its end."""
    if terminal.as_json:
        terminal.show(made)
        return
    planned(Layout(), made.plan, name=f"{made.job.name} ({made.job.id[-8:]})")
    if follow:
        code = follow_job(terminal, project, made.job.id)
        if afterwards is not None and code not in (INTERRUPTED, LOST_SIGHT):
            afterwards(terminal, project, made.job)
        if code:
            raise typer.Exit(code)


def told(it: declared.Forecast) -> str:
    if it.reason.startswith("It is over"):
        return it.reason
    if it.expected is None:
        return f"nobody can say when it starts. {it.reason}".strip()
    if it.latest is None or it.earliest is None or it.latest - it.earliest < SECOND:
        return f"{_when(it.expected)}. {it.reason}".strip()
    return f"{_when(it.expected)}, most likely between {_when(it.earliest)} and {_when(it.latest)}. {it.reason}".strip()


def _when(moment: Moment) -> str:
    seconds = (moment - time.time() * SECOND) / SECOND
    return "now" if seconds < 1 else f"in {span_told(seconds)}"


def planned(layout: Layout, plan: declared.Planned, name: str = "The job") -> None:
    where = ", ".join(sorted({place.node for place in plan.places}))
    prices = [f"{word} {amount / 1e6:.2f}" for word, amount in (("about", plan.cost), ("at most", plan.cost_most)) if amount]
    cost = f" It costs {', '.join(prices)}." if prices else ""
    starts = "starts " if plan.forecast.expected is not None else ""
    when = f"now on {where}. {plan.forecast.reason}".strip() if where else told(plan.forecast)
    layout.line(f"{name} in queue {plan.queue}: {starts}{when}{cost}")
    for remark in plan.remarks:
        layout.line(f"  {remark}")
