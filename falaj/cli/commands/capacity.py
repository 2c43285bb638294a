"""`falaj capacity`: how the hosts were used, by whom, and what would help."""

from dataclasses import replace
from typing import Annotated

import typer

from falaj.cli.amounts import span_told
from falaj.cli.command import Commands
from falaj.cli.layout import Layout
from falaj.cli.terminal import Terminal
from falaj.jobs.operations import nodes as declared

commands = Commands("Whether there is enough of everything.")


@commands.command("report")
def report(
    terminal: Terminal,
    days: Annotated[int, typer.Option(help="So far back.", min=1, max=400)] = 14,
    of: Annotated[str, typer.Option(help="Of a queue, a project or a node.", metavar="KIND:NAME", show_default=False)] = "",
) -> None:
    """Say how the hosts were used and by whom, what was odd, and what would help most.

    Example: falaj capacity report --days 30 --of queue:research
    """
    kind, _, name = of.partition(":")
    request = declared.ReadCapacity(days=days, of=kind, name=name)
    terminal.run(declared.READ_CAPACITY_REPORT, request, lambda layout, found: _capacity(layout, _of(request, found)))


def _of(request: declared.ReadCapacity, found: declared.Capacity) -> declared.Capacity:
    """What concerns the one that was asked for: of a host, its cards too. What stands out and would help is said of all."""
    if not request.of:
        return found
    card = f"{request.name} GPU "
    mine = (
        one
        for one in found.used
        if (one.kind, one.name) == (request.of, request.name)
        or (request.of == "node" and one.kind == "gpu" and one.name.startswith(card))
    )
    return replace(found, used=tuple(mine), flags=(), advice=(), levels=())


def _capacity(layout: Layout, found: declared.Capacity) -> None:
    if found.points:
        count = len(found.points)
        cpus, gpus = sum(one.cpus for one in found.points), sum(one.gpus for one in found.points)
        held, busy = sum(one.cpus_held for one in found.points), sum(one.cpus_busy for one in found.points)
        layout.line(f"CPUs: {cpus / count:.1f} on average, {_part(held, cpus)} held, {_part(busy, cpus)} busy.")
        if gpus:
            held, busy = sum(one.gpus_held for one in found.points), sum(one.gpus_busy for one in found.points)
            layout.line(f"GPUs: {gpus / count:.1f} on average, {_part(held, gpus)} held, {_part(busy, gpus)} busy.")
    rows = [
        (
            one.kind,
            one.name,
            one.jobs,
            f"{span_told(one.cpu_seconds)} of {span_told(one.cpu_seconds_asked)}",
            span_told(one.gpu_seconds),
            span_told(one.gpu_idle_seconds),
            f"{one.energy_joules / 3.6e6:.2f}",
            f"{one.cost / 1e6:.2f}",
        )
        for one in found.used
    ]
    layout.table(("by", "name", "jobs", "CPU used of asked", "GPU held", "GPU idle", "kWh", "cost"), rows)
    for level in found.levels:
        met = f"{level.met} of {level.jobs} ({_part(level.met, level.jobs)})"
        layout.line(f"Priority {level.priority}: {met} started within {span_told(level.start_within_seconds)}.")
    for line in (*found.flags, *found.advice):
        layout.line(line)


def _part(part: float, whole: float) -> str:
    return f"{part / whole:.0%}" if whole else "-"
