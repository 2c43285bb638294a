"""Hosts and jobs to place, and an auditor that knows the rules but none of the room's code."""

from collections.abc import Iterable
from typing import Any

from falaj.base.clock import Moment
from falaj.jobs.scheduler.values import CARD, Job, Node, Placement, Running, Seat, Shape


def a_node(name: str = "n0", **given: Any) -> Node:
    return Node(**{"name": name, "zone": "here", "cpu_milli": 64_000, "memory_mib": 256_000, **given})


def nodes(count: int, **given: Any) -> list[Node]:
    return [a_node(f"n{number}", **given) for number in range(count)]


def a_job(id: str = "j", *, project: str = "p", zones: tuple[str, ...] = ("here",), **given: Any) -> Job:
    """Whatever a job or its shape can be given."""
    shape = {name: given.pop(name) for name in tuple(given) if name in Shape.__dataclass_fields__}  # type: ignore[attr-defined]
    return Job(
        id=id,
        project=project,
        user="u",
        queue="q",
        submitted=Moment(0),
        zones=zones,
        shape=Shape(**{"cpu_milli": 1000, "memory_mib": 1000, **shape}),
        **given,
    )


def running(job: Job, placement: Placement) -> Running:
    return Running(job=job, placement=placement, started=Moment(0))


Held = list[tuple[Job, Placement]]


def _taken(shape: Shape) -> int:
    return CARD if shape.sharing == "whole" else shape.gpu_milli


def _on(node: Node, held: Iterable[tuple[Job, Placement]]) -> list[tuple[Job, Seat]]:
    return [(job, seat) for job, placement in held for seat in placement if seat.node == node.name]


def complaints(node: Node, held: Held) -> list[str]:
    """What is wrong on a host."""
    there = _on(node, held)
    wrong = [f"{name} is promised twice" for name, asked, has in _amounts(node, there) if asked > has]
    for card in range(len(node.cards)):
        wrong += _on_card(node, card, [job for job, seat in there if card in seat.cards])
    for job, seat in there:
        if node.zone not in job.zones:
            wrong.append(f"{job.id} is outside its zones")
        if len(set(seat.cards)) != job.shape.gpus or any(card >= len(node.cards) for card in seat.cards):
            wrong.append(f"{job.id} has cards it did not ask for")
        own = [other for other, _ in there if other.label and other.project == job.project]
        if any(other.id != job.id and other.label in job.apart_from for other in own):
            wrong.append(f"{job.id} is beside one that it must be apart from")
    return wrong


def _amounts(node: Node, there: list[tuple[Job, Seat]]) -> list[tuple[str, int, int]]:
    shapes = [job.shape for job, _ in there]
    return [
        ("CPU", sum(shape.cpu_milli for shape in shapes), node.cpu_milli),
        ("memory", sum(shape.memory_mib for shape in shapes), node.memory_mib),
        ("I/O", sum(shape.io for shape in shapes), node.io),
    ]


def _on_card(node: Node, card: int, sharers: list[Job]) -> list[str]:
    wrong = []
    if sum(_taken(job.shape) for job in sharers) > CARD:
        wrong.append(f"card {card} is promised twice")
    if any(job.shape.models and node.cards[card] not in job.shape.models for job in sharers):
        wrong.append(f"card {card} is of a model that somebody cannot use")
    if len({job.shape.sharing for job in sharers}) > 1:
        wrong.append(f"card {card} is shared in two ways")
    if len({job.project for job in sharers if job.shape.sharing == "time"}) > 1:
        wrong.append(f"two projects share the time of card {card}")
    kinds = {"whole" if _taken(job.shape) == CARD else job.shape.sharing for job in sharers}
    if not kinds <= set(node.sharing):
        wrong.append(f"card {card} is not offered like this")
    return wrong


def seats_on(node: Node, job: Job, held: Held, most: int) -> int:
    """How many tasks a host could take, by trying one after the other; equal tasks need no clever order."""
    if not node.open:
        return 0
    held = list(held)
    for done in range(most):
        for cards in _choices(node, job, held):
            seated = (job, (Seat(node=node.name, cards=cards),))
            if not complaints(node, [*held, seated]):
                held.append(seated)
                break
        else:
            return done
    return most


def _choices(node: Node, job: Job, held: Held) -> list[tuple[int, ...]]:
    if not job.shape.gpus:
        return [()]
    if job.shape.gpus == 1:
        return [(card,) for card in range(len(node.cards))]
    used = {card for _, seat in _on(node, held) for card in seat.cards}
    fitting = [
        card
        for card, model in enumerate(node.cards)
        if card not in used and (not job.shape.models or model in job.shape.models)
    ]
    return [tuple(fitting[: job.shape.gpus])] if len(fitting) >= job.shape.gpus else []
