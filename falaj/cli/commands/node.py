"""`falaj node` and `falaj capacity`: the hosts that jobs run on, and whether there are enough of them."""

from typing import Annotated

import typer

from falaj.cli.amounts import memory_told
from falaj.cli.command import Commands
from falaj.cli.layout import Layout
from falaj.cli.terminal import Terminal
from falaj.jobs.operations import nodes as declared

commands = Commands("Hosts that jobs run on.")
OfNode = Annotated[str, typer.Argument(help="The host's name.", show_default=False)]


@commands.command("list")
def list_nodes(terminal: Terminal) -> None:
    """List hosts: what they have, what is free, what is odd about them.

    Example: falaj node list
    """
    terminal.run(declared.LIST_NODES, declared.LIST_NODES.request(), _nodes)


@commands.command("drain")
def drain(
    terminal: Terminal,
    node: OfNode,
    stop: Annotated[bool, typer.Option("--stop", help="Also ask what runs there to stop, within its grace.")] = False,
    reason: Annotated[str, typer.Option(help="Why; it stays on record.", show_default=False)] = "",
) -> None:
    """Let nothing new start on a host.

    Example: falaj node drain gpu-7 --stop --reason "new fan"
    """
    done = terminal.call(declared.DRAIN_NODE, declared.Drain(node=node, stop=stop, reason=reason))
    terminal.show(done, lambda layout, it: layout.line(f"{it.name} is {it.state}; {it.jobs} jobs run there."))


@commands.command("resume")
def resume(terminal: Terminal, node: OfNode) -> None:
    """Let jobs start on a host again.

    Example: falaj node resume gpu-7
    """
    done = terminal.call(declared.RESUME_NODE, declared.Resume(node=node))
    terminal.show(done, lambda layout, it: layout.line(f"{it.name} is {it.state}."))


def _nodes(layout: Layout, found: declared.Nodes) -> None:
    rows = [
        (
            one.name,
            one.engine,
            one.zone,
            one.state,
            f"{one.cpus_free:g} of {one.cpus:g}",
            f"{memory_told(one.memory_mib_free)} of {memory_told(one.memory_mib)}",
            " ".join(_card(card) for card in one.cards),
            one.jobs,
            one.pool,
            one.flags,
        )
        for one in found.items
    ]
    layout.table(("node", "engine", "zone", "state", "CPUs free", "memory free", "GPUs held", "jobs", "pool", "flags"), rows)


def _card(card: declared.Card) -> str:
    """Not every host says what its cards do."""
    held = f"{card.model}:{card.held:.0%}"
    if not card.measured:
        return held
    memory = f", {card.memory_used_mib / card.memory_mib:.0%} of memory" if card.memory_mib else ""
    return f"{held} ({card.busy:.0%} busy{memory})"
