"""What stands in the way of a job that even an idle cluster could not take, as a sentence for the one who asked."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from falaj.jobs.scheduler.hosts import MANY, part_of
from falaj.jobs.scheduler.values import CARD, Job, Node, Shape
from falaj.jobs.scheduler.wording import counted, listed

Alike = Mapping[Node, int]  # hosts that differ by name alone, and how many there are


def alike(nodes: Iterable[Node]) -> Alike:
    """Large clusters have few kinds of hosts. Those that drain count: they may come back."""
    counted: dict[Node, int] = {}
    for node in nodes:
        kind = Node(
            name="",
            zone=node.zone,
            rack=node.rack,
            cpu_milli=node.cpu_milli,
            memory_mib=node.memory_mib,
            io=node.io,
            cards=node.cards,
            sharing=node.sharing,
            engine=node.engine,
        )
        counted[kind] = counted.get(kind, 0) + 1
    return counted


def obstacle(job: Job, count: int, hosts: Alike) -> str:
    """Empty where nothing stands in the way."""
    return (
        _senseless(job.shape, count)
        or _no_zone(job, list(hosts))
        or _no_card(job.shape, within := [node for node in hosts if node.zone in job.zones])
        or _no_host(job.shape, within)
        or _no_gang(job, count, {node: hosts[node] for node in within})
    )


def _senseless(shape: Shape, count: int) -> str:
    if count < 1:
        return f"It asks for {count} tasks; ask for at least one."
    named = (("CPU", shape.cpu_milli), ("memory", shape.memory_mib), ("I/O", shape.io), ("GPUs", shape.gpus))
    for name, amount in named:
        if amount < 0:
            return f"It asks for less than nothing of {name} ({amount}); ask for 0 or more."
    if shape.gpus and not 0 < shape.gpu_milli <= CARD:
        return f"It asks for {shape.gpu_milli} thousandths of a GPU; ask for 1 to {CARD}, and for more cards with `gpus`."
    if shape.gpus > 1 and part_of(shape) < CARD:
        return f"It asks for parts of {shape.gpus} cards; a task has a part of one card, or whole ones."
    return ""


def _no_zone(job: Job, nodes: Sequence[Node]) -> str:
    if not nodes:
        return "There is no host yet; add one, or wait until one joins."
    if not job.zones:
        return "It names no zone that it may run in; name at least one."
    there = sorted({node.zone for node in nodes})
    if not set(there) & set(job.zones):
        return f"No host is in {listed(job.zones, 'or')}; hosts are in {listed(there, 'and')}."
    return ""


def _no_card(shape: Shape, nodes: Sequence[Node]) -> str:
    if not shape.gpus:
        return ""
    there = sorted({model for node in nodes for model in node.cards})
    if not there:
        return "No host of its zones has a GPU."
    if shape.models and not set(there) & set(shape.models):
        return f"No host of its zones has a card of model {listed(shape.models, 'or')}; there are {listed(there, 'and')}."
    kind = "whole" if part_of(shape) == CARD else shape.sharing
    if not any(kind in node.sharing and _cards_of(shape, node) for node in nodes):
        if kind == "whole":
            return "No card that it may use is given out whole; ask for a part of one."
        return f"No card that it may use is shared by {kind}; ask for another sharing or for a whole card."
    return ""


def _no_host(shape: Shape, nodes: Sequence[Node]) -> str:
    if any(_seats(shape, node) for node in nodes):
        return ""
    asked: tuple[tuple[int, Callable[[Node], int], Callable[[int], str]], ...] = (
        (shape.cpu_milli, lambda node: node.cpu_milli, lambda amount: counted(amount / 1000, "CPU")),
        (shape.memory_mib, lambda node: node.memory_mib, lambda amount: f"{amount} MiB of memory"),
        (shape.io, lambda node: node.io, lambda amount: f"an I/O weight of {amount}"),
        (
            shape.gpus,
            lambda node: _cards_of(shape, node),
            lambda amount: f"{counted(amount, 'GPU')} that it may use",
        ),
    )
    for amount, of, words in asked:
        if amount > (most := max(of(node) for node in nodes)):
            return f"One task asks for {words(amount)}, and the largest host of its zones has {words(most)}; ask for less."
    return "No host of its zones has enough CPU, memory, I/O and cards for one task all at once; ask for less of one of them."


def _no_gang(job: Job, count: int, hosts: Alike) -> str:
    engines = sorted({node.engine for node in hosts})
    if len(engines) > 1:  # they never share a gang; what is said is said of the one that could take the most
        parts = [{node: many for node, many in hosts.items() if node.engine == one} for one in engines]
        told = [_no_gang(job, count, part) for part in parts]
        return "" if "" in told else told[_largest(job, parts)]
    seats = {node: _seats(job.shape, node) for node in hosts}
    if job.topology == "host":
        most, where = max(seats.values()), "on one host"
    elif job.topology == "rack":
        racks: dict[tuple[str, str], int] = {}
        for node, each in seats.items():
            if node.rack:
                racks[node.zone, node.rack] = racks.get((node.zone, node.rack), 0) + each * hosts[node]
        most, where = max([*racks.values(), *seats.values()]), "in one rack (a host that names no rack is one of its own)"
    else:
        most, where = sum(each * hosts[node] for node, each in seats.items()), "in its zones"
    if most >= count:
        return ""
    asked = counted(count, "task")
    return f"It asks for {asked} at once, and an idle cluster seats {most} {where}; ask for fewer or smaller ones."


def _largest(job: Job, parts: Sequence[Alike]) -> int:
    together = [sum(_seats(job.shape, node) * many for node, many in part.items()) for part in parts]
    return together.index(max(together))


def _cards_of(shape: Shape, node: Node) -> int:
    """Cards of this host that a task may use."""
    if ("whole" if part_of(shape) == CARD else shape.sharing) not in node.sharing:
        return 0
    return sum(not shape.models or model in shape.models for model in node.cards)


def _seats(shape: Shape, node: Node) -> int:
    most = MANY
    for asked, there in ((shape.cpu_milli, node.cpu_milli), (shape.memory_mib, node.memory_mib), (shape.io, node.io)):
        if asked:
            most = min(most, there // asked)
    if shape.gpus:
        most = min(most, _cards_of(shape, node) * (CARD // part_of(shape)) // shape.gpus)
    return most
