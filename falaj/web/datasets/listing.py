"""The list of a project's datasets: what each holds, which classes its columns have, what waits in quarantine."""

from typing import Any, Final

from falaj.datasets.operations.classes import Classes
from falaj.datasets.operations.datasets import LIST_DATASETS, OneDataset
from falaj.datasets.operations.versions import OneVersion
from falaj.datasets.operations.words import QUARANTINED
from falaj.web.forms import checked
from falaj.web.visits import Visit

# Each is asked two things more, so a page has fewer than lists elsewhere.
MOST: Final = 25


def datasets(visit: Visit) -> Any:
    asked = {"project": visit.project, "limit": MOST, "cursor": visit.query.get("cursor", "")[:500]}
    return checked(LIST_DATASETS, asked)


def _names(visit: Visit) -> list[str]:
    found = visit.loaded["datasets"]
    return [dataset.name for dataset in found.items] if found is not None else []


def classes(visit: Visit) -> list[OneDataset]:
    return [OneDataset(project=visit.project, dataset=name) for name in _names(visit)]


def quarantined(visit: Visit) -> list[OneVersion]:
    return [OneVersion(project=visit.project, dataset=name, version=QUARANTINED) for name in _names(visit)]


def story(visit: Visit) -> dict[str, Any]:
    kinds = visit.loaded["classes"] or {}
    waiting = visit.loaded["quarantined"] or {}
    return {
        "classes_of": {asked.dataset: counted(found) for asked, found in kinds.items()},
        "waiting": {asked.dataset: found for asked, found in waiting.items()},
    }


def counted(found: Classes) -> list[tuple[str, int]]:
    """How many columns are of each class; those that no column has are left out."""
    kinds = [one.kind for one in found.columns]
    return [(kind, kinds.count(kind)) for kind in ("personal", "sensitive") if kind in kinds]
