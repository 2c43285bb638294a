"""A pipeline's steps as a drawing from left to right, with how each of them is where it is of a run."""

from collections.abc import Mapping, Sequence
from typing import Final

from markupsafe import Markup

from falaj.base.clock import SECOND
from falaj.base.values import value
from falaj.lifecycle.checking import needs_of, order_of
from falaj.lifecycle.operations.pipelines import StepShown
from falaj.lifecycle.operations.words import Definition, Step
from falaj.web.drawing.lineage import Arrow, Box, drawing
from falaj.web.jobs.amounts import span

_MOST_ARROWS: Final = 2000  # more of them take seconds to draw, and nobody sees anything in them
WORST_FIRST: Final = ("failed", "cancelled", "asking", "running", "waiting", "done", "skipped")


@value
class Summary:
    """How a step is, all its items together. `items` is how many of them there are, 0 where it is done once."""

    state: str
    items: int
    done: int
    seconds: float | None
    cached: bool


def summed(shown: Sequence[StepShown]) -> dict[str, Summary]:
    """By name, in their order."""
    named: dict[str, list[StepShown]] = {}
    for one in shown:
        named.setdefault(one.name, []).append(one)
    return {name: _summary(found) for name, found in named.items()}


def _summary(found: Sequence[StepShown]) -> Summary:
    whole = [one for one in found if one.item < 0]
    items = [one for one in found if one.item >= 0]
    states = [one.state for one in whole or items]
    begun = [one.started for one in found if one.started is not None]
    ended = [one.ended for one in found if one.ended is not None]
    return Summary(
        state=min(states, key=WORST_FIRST.index),
        items=len(items),
        done=sum(one.state == "done" for one in items),
        seconds=(max(ended) - min(begun)) / SECOND if begun and len(ended) == len(found) else None,
        cached=any(one.cached for one in found),
    )


def links_of(definition: Definition) -> list[tuple[str, str]]:
    """Which step comes before which: those alone that say something, and not what follows from others."""
    needs = {step.name: needs_of(step) for step in definition.steps}
    order = order_of(definition)
    place = {name: 1 << number for number, name in enumerate(order)}
    behind: dict[str, int] = {}  # all that it comes after at any remove, a bit for each
    links = []
    for name in order:
        further = 0
        for before in needs[name]:
            further |= behind[before]
        links += [(before, name) for before in sorted(needs[name]) if not place[before] & further]
        behind[name] = further | sum(place[before] for before in needs[name] if not place[before] & further)
    return links


def what(step: Step) -> str:
    """What is done, in few words."""
    if step.function is not None:
        return f"{step.function.name}()"
    return {
        "operation": step.operation,
        "approval": "asks somebody",
        "wait": f"event {step.event}" if step.event else "wait",
    }.get(step.kind, step.kind)


def graph(
    definition: Definition, name: str, shown: Mapping[str, Summary] | None = None, links: Mapping[str, str] | None = None
) -> Markup:
    """`links` are where steps lead to, by name."""
    boxes = [_box(step, (shown or {}).get(step.name), (links or {}).get(step.name, "")) for step in definition.steps]
    links_found = links_of(definition)
    arrows = [Arrow(source=one, target=other) for one, other in links_found] if len(links_found) <= _MOST_ARROWS else []
    return drawing(boxes, arrows, f"The {len(boxes)} steps of {name}, in the order they are done in.")


def _box(step: Step, summary: Summary | None, link: str) -> Box:
    many = "for each" if step.each is not None else ""
    if summary is None:
        return Box(id=step.name, kind=what(step), note=many, label=step.name, link=link)
    took = "" if summary.seconds is None else span(summary.seconds)
    note = f"{summary.done} of {summary.items}" if summary.items else "taken" if summary.cached else took
    return Box(id=step.name, kind=summary.state, note=note, label=step.name, link=link)
