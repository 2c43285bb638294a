"""Optimisations of a project, and on a version's page its variants with what is needed to ask for more."""

from typing import Any, Final

from falaj.base.values import value
from falaj.datasets.operations.datasets import LIST_DATASETS
from falaj.optimisation.operations.optimisations import LIST_OPTIMISATIONS, Optimisation
from falaj.optimisation.operations.variants import LIST_VARIANTS, Variant
from falaj.web.forms import checked
from falaj.web.optimisation.amounts import CERTIFIED, FORMATS, certificate_of, optimisation_of
from falaj.web.optimisation.asking import command_line, prefilled
from falaj.web.visits import Visit

AT_ONCE: Final = 20
MOST_AT_ONCE: Final = 1000
MOST_EARLIER: Final = 10
MOST_ROWS: Final = 30
MADE: Final = ("certified", "refused", "made")


@value
class Row:
    """A search as the list tells it."""

    optimisation: Optimisation
    address: str
    version: str
    tried: int
    certified: int
    best: Variant | None


# The list


def optimisations(visit: Visit) -> Any:
    """Of one model where the address names it."""
    asked = {name: visit.query[name] for name in ("model", "cursor") if visit.query.get(name)}
    return checked(LIST_OPTIMISATIONS, {"project": visit.project, "limit": AT_ONCE, **asked})


def rows(visit: Visit) -> dict[str, Any]:
    found = visit.loaded["optimisations"]
    return {
        "rows": [_row(visit.project, one) for one in found.items] if found is not None else [],
        "model": visit.query.get("model", ""),
        **FORMATS,
    }


def _row(project: str, one: Optimisation) -> Row:
    return Row(
        optimisation=one,
        address=optimisation_of(project, one.id),
        version=f"/projects/{project}/versions/{one.version_id}",
        tried=sum(each.state not in ("skipped", "planned") for each in one.variants),
        certified=sum(each.state == "certified" for each in one.variants),
        best=next((each for each in one.variants if each.best), None),
    )


# On a version's page


def variants(visit: Visit) -> Any:
    version = visit.loaded["registered"]
    return variants_of(visit, version.model, version.version)


def variants_of(visit: Visit, model: str, version: int | str) -> Any:
    return checked(LIST_VARIANTS, {"project": visit.project, "model": model, "version": version, "limit": MOST_AT_ONCE})


def earlier(visit: Visit) -> Any:
    model = visit.loaded["registered"].model
    return checked(LIST_OPTIMISATIONS, {"project": visit.project, "model": model, "limit": MOST_EARLIER})


def datasets(visit: Visit) -> Any:
    return checked(LIST_DATASETS, {"project": visit.project})


def of_version(visit: Visit) -> dict[str, Any]:
    """What the page of a version shows of its variants, under one name, for the page has much else."""
    version, found = visit.loaded["registered"], visit.loaded["variants"]
    searches = visit.loaded["optimisations"].items if visit.loaded["optimisations"] is not None else ()
    mine = [one for one in searches if one.version_id == version.id]
    last = next(iter((*mine, *searches)), None)
    known = visit.loaded["datasets"].items if visit.loaded["datasets"] is not None else ()
    names = [one.name for one in known]
    made = sorted((one for one in found.items if one.state in MADE), key=_order) if found is not None else []
    return {
        "rows": made[:MOST_ROWS],
        "more": max(0, len(made) - MOST_ROWS),
        "certificates": {one.id: certificate_of(visit.project, one) for one in made[:MOST_ROWS]},
        "searches": [_row(visit.project, one) for one in mine],
        "tasks": {one.id: one.task for one in searches},
        "datasets": names,
        "given": prefilled(last, _data_of(visit, names)),
        "command": command_line(visit.project, version.model, version.version, last),
        **FORMATS,
    }


def address_of(visit: Visit, id: str) -> str:
    """Where a variant is told of, if the page knows it: its certificate, or else the search that made it."""
    found = visit.loaded.get("variants")
    one = next((one for one in found.items if one.id == id), None) if found is not None else None
    if one is None:
        return ""
    return certificate_of(visit.project, one) if one.state in CERTIFIED else optimisation_of(visit.project, one.optimisation)


def _order(one: Variant) -> tuple[int, float]:
    return MADE.index(one.state), -one.measures.times if one.measures else 0.0


def _data_of(visit: Visit, names: list[str]) -> str:
    """A dataset of the project that the version came from, where the lineage knows one."""
    found = visit.loaded["lineage"]
    data = [node.id.rpartition("@")[0] for node in found.nodes if node.kind == "dataset"] if found is not None else []
    return next((name for name in data if name in names), "")
