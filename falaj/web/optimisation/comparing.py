"""Variants side by side: every measure in a column for each, and quality slice by slice where they have certificates."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.optimisation.names import meant
from falaj.optimisation.operations.optimisations import OneOptimisation
from falaj.optimisation.operations.variants import OneVariant, Variant
from falaj.optimisation.operations.words import Measures
from falaj.web.optimisation.amounts import (
    CERTIFIED,
    FORMATS,
    certificate_of,
    cost,
    energy,
    milliseconds,
    optimisation_of,
    points,
    rate,
    times,
)
from falaj.web.optimisation.listing import variants_of
from falaj.web.rendering import size
from falaj.web.visits import Visit

MOST: Final = 8
MEDIAN: Final = "Latency, median"
NEARLY_ALL: Final = "Latency, 99 of 100 within"
# Which way is better: 1 for more, -1 for less.
_MEASURES: Final[tuple[tuple[str, int, Callable[[Measures], float], Callable[[float], str]], ...]] = (
    ("Times as fast", 1, lambda one: one.times, times),
    (MEDIAN, -1, lambda one: one.p50_ms, milliseconds),
    (NEARLY_ALL, -1, lambda one: one.p99_ms, milliseconds),
    ("Rows a second", 1, lambda one: one.rows_per_s, rate),
    ("Size", -1, lambda one: one.size, lambda number: size(int(number))),
    ("Memory", -1, lambda one: one.memory, lambda number: size(int(number))),
    ("Energy of 1,000", -1, lambda one: one.joules, energy),
    ("Cost of a million", -1, lambda one: one.cost, cost),
)


@value
class Cell:
    """`text` is empty where there is nothing to say; `beside` says it against the original."""

    text: str
    beside: str = ""
    best: bool = False
    fails: bool = False


@value
class Row:
    name: str
    cells: tuple[Cell, ...]
    noted: bool = True

    @property
    def differs(self) -> bool:
        return self.noted and len({cell.text for cell in self.cells}) > 1


# What is asked for


def asked(visit: Visit) -> list[str]:
    """`variants=a,b`, as links say it, or `variants=a&variants=b`, as a form does: names or ids."""
    words = dict.fromkeys(word for text in visit.asked("variants") for word in text.split(",") if word)
    if len(words) > MOST:
        raise Invalid(f"{len(words)} variants were chosen; {MOST} can be compared at once. Choose fewer.")
    return list(words)


def listed(visit: Visit) -> Any:
    return variants_of(visit, visit.path["model"], visit.path["version"])


def chosen(visit: Visit) -> list[Variant]:
    """As they were asked for, by name or by id."""
    there: Sequence[Variant] = visit.loaded["listed"].items
    found: dict[str, Variant] = {}
    for word in asked(visit):
        matching = [one for one in there if word in (one.id, one.name)]
        best = meant(matching) or next(iter(matching), None)
        if best is not None:
            found.setdefault(best.id, best)
    return list(found.values())


def searches(visit: Visit) -> list[OneOptimisation]:
    ids = dict.fromkeys(one.optimisation for one in chosen(visit))
    return [OneOptimisation(project=visit.project, optimisation=id) for id in ids]


def certificates(visit: Visit) -> list[OneVariant]:
    return [_one(visit, one) for one in chosen(visit) if one.state in CERTIFIED]


def _one(visit: Visit, one: Variant) -> OneVariant:
    return OneVariant(project=visit.project, model=one.model, version=one.version, variant=one.id)


# What is made of it


def story(visit: Visit) -> dict[str, Any]:
    variants = chosen(visit)
    known = {asked.optimisation: found for asked, found in (visit.loaded["searched"] or {}).items()}
    signed = visit.loaded["signed"] or {}
    found = [signed.get(_one(visit, one)) for one in variants]
    hosts = list(dict.fromkeys(one.host.shown for one in known.values() if one.host is not None))
    return {
        "variants": variants,
        "names": _distinct(variants),
        "missing": len(asked(visit)) - len(variants),
        "certificates": {one.id: certificate_of(visit.project, one) for one in variants if one.state in CERTIFIED},
        "searches": {one.id: optimisation_of(visit.project, one.optimisation) for one in variants},
        "hosts": hosts,
        "compared": _facts(variants) + _measured(variants, known),
        "quality": _quality(found),
        "choices": [one for one in visit.loaded["listed"].items if one.measures is not None][:60],
        "model": visit.path["model"],
        "version": visit.path["version"],
        "most": MOST,
        **FORMATS,
    }


def _distinct(variants: Sequence[Variant]) -> list[str]:
    """Searches may name variants alike; then the end of their ids tells them apart."""
    names = [one.name for one in variants]
    return [one.name if names.count(one.name) == 1 else f"{one.name} ({one.id[-6:]})" for one in variants]


def _facts(variants: Sequence[Variant]) -> list[Row]:
    told: list[tuple[str, Callable[[Variant], str]]] = [
        ("Steps", lambda one: " → ".join(one.steps) or "none"),
        ("Runtime", lambda one: one.runtime),
        ("Settings", lambda one: ", ".join(f"{each.name} {each.value}" for each in one.settings)),
        ("Files", lambda one: ", ".join(f"{each.name} ({size(each.size)})" for each in one.files)),
        ("What was done", lambda one: " ".join(one.notes)),
    ]
    return [Row(name=name, cells=tuple(Cell(text=say(one)) for one in variants)) for name, say in told]


def _measured(variants: Sequence[Variant], known: dict[str, Any]) -> list[Row]:
    rows = [_drops(variants, known)]
    for name, better, read, write in _MEASURES:
        numbers = [read(one.measures) if one.measures is not None else None for one in variants]
        seen = [number for number in numbers if number is not None and number > 0]
        best = (max(seen) if better > 0 else min(seen)) if len(set(seen)) > 1 else None
        cells = [
            Cell(
                text=(write(number)) if number is not None else "",
                beside=beside,
                best=best is not None and number == best,
            )
            for number, beside in zip(numbers, _beside(name, variants, known, read), strict=True)
        ]
        rows.append(Row(name=name, cells=tuple(cells)))
    return rows


def _drops(variants: Sequence[Variant], known: dict[str, Any]) -> Row:
    """On the rows that candidates are compared on; a drop below zero is a gain."""
    tasks = [known[one.optimisation].task if one.optimisation in known else "classes" for one in variants]
    numbers = [one.measures.drop if one.measures is not None else None for one in variants]
    seen = {number for number in numbers if number is not None}
    cells = [
        Cell(text=points(number, task) if number is not None else "", best=len(seen) > 1 and number == min(seen))
        for number, task in zip(numbers, tasks, strict=True)
    ]
    return Row(name="Drop", cells=tuple(cells))


def _beside(name: str, variants: Sequence[Variant], known: dict[str, Any], read: Callable[[Measures], float]) -> list[str]:
    told = []
    for one in variants:
        search = known.get(one.optimisation)
        base = read(search.baseline) if search is not None and search.baseline is not None else 0.0
        ours = read(one.measures) if one.measures is not None else 0.0
        share = f"{ours / base:.0%} of the original's" if base > 0 and ours > 0 and name != "Times as fast" else ""
        told.append(f"{_interval(name, one.measures)}{share}")
    return told


def _interval(name: str, of: Measures | None) -> str:
    if of is None or name not in (MEDIAN, NEARLY_ALL):
        return ""
    low, high = (of.p50_low, of.p50_high) if name == MEDIAN else (of.p99_low, of.p99_high)
    return f"{low:.3g} to {high:.3g} ms; "


def _quality(found: Sequence[Any]) -> list[Row]:
    """A row for all rows and one for each slice that any of the certificates names."""
    groups = [
        {one["name"]: one for one in (each.document["quality"]["overall"], *each.document["quality"]["slices"])}
        if each is not None and each.document
        else {}
        for each in found
    ]
    names = dict.fromkeys(name for group in groups for name in group)
    tasks = [each.task if each is not None else "classes" for each in found]
    return [_slice(name, groups, tasks) for name in names]


def _slice(name: str, groups: Sequence[dict[str, Any]], tasks: Sequence[str]) -> Row:
    drops = [float(group[name]["drop"]) for group in groups if name in group]
    cells = []
    for group, task in zip(groups, tasks, strict=True):
        one = group.get(name)
        if one is None:
            cells.append(Cell(text=""))
            continue
        most, margin = points(float(one["high"]), task), points(float(one["margin"]), task)
        best = len(set(drops)) > 1 and float(one["drop"]) == min(drops)
        beside = f"at most {most}, allowed {margin}{'' if one['ok'] else ': not shown'}"
        cells.append(Cell(text=points(float(one["drop"]), task), beside=beside, best=best, fails=not one["ok"]))
    return Row(name=name, cells=tuple(cells))
