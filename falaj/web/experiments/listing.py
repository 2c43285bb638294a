"""The list of a project's experiments, each with its newest run."""

from typing import Any, Final

from falaj.tracking.operations.experiments import SEARCH_EXPERIMENTS
from falaj.tracking.operations.runs import SEARCH_RUNS
from falaj.web.experiments.numbers import moment_of
from falaj.web.experiments.run import NOTE
from falaj.web.experiments.table import TONES
from falaj.web.forms import checked
from falaj.web.visits import Visit

LOOKED_BACK: Final = 300


def experiments(visit: Visit) -> Any:
    state = "deleted" if "deleted" in visit.query else "active"
    return checked(SEARCH_EXPERIMENTS, {"project": visit.project, "state": state, "cursor": visit.query.get("cursor", "")})


def latest_runs(visit: Visit) -> Any:
    """The newest runs of all that are listed, in one question: who has none among them has been quiet for long."""
    found = visit.loaded["experiments"]
    numbers = [experiment.id for experiment in found.items] if found is not None else []
    state = "all" if "deleted" in visit.query else "active"
    asked = {"experiments": numbers, "state": state, "limit": LOOKED_BACK}
    return checked(SEARCH_RUNS, {"project": visit.project, **asked}) if numbers else None


def story(visit: Visit) -> dict[str, Any]:
    latest: dict[int, Any] = {}
    counts: dict[int, int] = {}
    found = visit.loaded["latest"]
    for run in found.items if found is not None else ():
        latest.setdefault(run.info.experiment, run.info)
        counts[run.info.experiment] = counts.get(run.info.experiment, 0) + 1
    listed = visit.loaded["experiments"].items if visit.loaded["experiments"] is not None else ()
    return {
        "newest": latest,
        "counts": counts,
        "all_counted": found is not None and not found.next,
        "tones": TONES,
        "moment_of": moment_of,
        "notes": {experiment.id: next((tag.value for tag in experiment.tags if tag.key == NOTE), "") for experiment in listed},
    }
