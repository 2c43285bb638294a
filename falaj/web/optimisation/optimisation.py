"""One optimisation's page: what was searched for and where, every candidate side by side, and what nothing else beats."""

import shlex
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from markupsafe import Markup

from falaj.jobs.operations.jobs import LIST_JOBS
from falaj.optimisation.operations.optimisations import Optimisation
from falaj.optimisation.operations.variants import Variant
from falaj.web.drawing.pareto import Kind, Mark, pareto
from falaj.web.forms import checked
from falaj.web.jobs.amounts import between, span
from falaj.web.optimisation.amounts import CERTIFIED, FORMATS, certificate_of, milliseconds, points, times, unit
from falaj.web.optimisation.asking import searched_by
from falaj.web.rendering import size
from falaj.web.visits import Visit

SOON: Final = 4  # seconds between looks while its job runs
LATER: Final = 20
_KINDS: Final[dict[str, Kind]] = {"certified": "certified", "refused": "refused", "dropped": "dropped", "made": "made"}
_WORTH: Final = ("certified", "made", "refused", "dropped")
_ORDER: Final = ("original", *_WORTH)


def jobs(visit: Visit) -> Any:
    """Those among which its own is: the live ones while it is open, else the newest."""
    live = visit.loaded["optimisation"].state == "open"
    return checked(LIST_JOBS, {"project": visit.project, "limit": 100} | ({"state": "live"} if live else {}))


def story(visit: Visit) -> dict[str, Any]:
    one: Optimisation = visit.loaded["optimisation"]
    tried = [each for each in one.variants if each.state != "skipped"]
    tried = tried if one.state == "open" else best_first(tried)  # while it goes on, rows stay where they are
    job = _job(visit, one)
    best = next((each for each in one.variants if each.best), None)
    return {
        "job": job,
        "stopped": one.state == "open" and visit.loaded["jobs"] is not None and job is None,
        "every": 0 if one.state != "open" else SOON if job is not None else LATER,
        "tried": tried,
        "skipped": [each for each in one.variants if each.state == "skipped"],
        "settled": sum(each.state in _WORTH for each in tried),
        "counts": Counter(each.state for each in one.variants),
        "best": best,
        "lines": _lines(visit.project, best),
        "chart": chart(one),
        "kinds": sorted({mark.kind for mark in marks(one)}, key=_ORDER.index),
        "apart": one.held_out.digest == one.on.digest,
        "certificates": {each.id: certificate_of(visit.project, each) for each in tried if each.state in CERTIFIED},
        "took": between(one.created, one.ended or visit.now),
        "budget": span(one.seconds),
        "unit": unit(one.task),
        **FORMATS,
    }


def _job(visit: Visit, one: Optimisation) -> Any:
    found = visit.loaded["jobs"]
    return next((job for job in found.items if searched_by(job.spec.command) == one.id), None) if found is not None else None


def _lines(project: str, best: Variant | None) -> dict[str, str]:
    """What to type next."""
    if best is None:
        return {}
    deploy = ["falaj", "deploy", f"{best.model}:{best.version}"]
    lines = {
        "deploy": [*deploy, "--variant", best.name],
        "ladder": [*deploy, "--ladder"],
        "export": ["falaj", "model", "export", best.model, str(best.version), best.name, "./model"],
    }
    return {name: shlex.join([*line, "--project", project]) for name, line in lines.items()}


def chart(one: Optimisation) -> Markup:
    told = f"{len(marks(one))} forms of {one.model} v{one.version}: how many times as fast, and how much worse"
    return pareto(marks(one), allowed=one.limits.max_drop * 100, unit=unit(one.task), label=told)


def marks(one: Optimisation) -> list[Mark]:
    measured = [each for each in one.variants if each.measures is not None and each.state in _KINDS]
    found = [_mark(each, one.task) for each in measured]
    if one.baseline is not None:
        at = one.baseline
        words = f"the original: {milliseconds(at.p50_ms)} a row, {size(at.size)}"
        found.insert(0, Mark(fast=1.0, lost=0.0, size=at.size, kind="original", words=words, name="original"))
    return found


def _mark(each: Variant, task: str) -> Mark:
    at = each.measures
    if at is None:
        raise ValueError(f"{each.name} was not measured")
    told = [each.state, f"{times(at.times)} as fast", f"{points(at.drop, task)} worse", size(at.size)]
    front = each.on_front and each.state != "dropped"
    if front:
        told.append("on the front")
    return Mark(
        fast=at.times,
        lost=at.drop * 100,
        size=at.size,
        kind=_KINDS[each.state],
        words=f"{each.name}: {', '.join(told)}",
        name=each.name,
        link=f"#variant-{each.id}",
        front=front,
    )


def best_first(variants: Sequence[Variant]) -> list[Variant]:
    """Those that are worth most, and among them the fastest."""

    def place(each: Variant) -> tuple[int, float]:
        worth = _WORTH.index(each.state) if each.state in _WORTH else len(_WORTH)
        return worth, -each.measures.times if each.measures else 0.0

    return sorted(variants, key=place)
