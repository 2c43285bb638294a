"""One run's page: what it asks for beside the run itself, and what it makes of tags and metrics."""

import re
from typing import Any, Final

from markupsafe import Markup

from falaj.registry.operations.versions import SEARCH_VERSIONS
from falaj.tracking.operations.artifacts import LIST_ARTIFACTS
from falaj.tracking.operations.models import SHOW_LOGGED_MODEL
from falaj.tracking.operations.runs import READ_CURVES, SEARCH_RUNS, SHOW_RUN
from falaj.training.profiling.names import FIGURES
from falaj.training.profiling.shown import is_told
from falaj.web.drawing.sparklines import sparkline
from falaj.web.experiments.columns import is_own_tag, is_system
from falaj.web.experiments.files import Folder, tree
from falaj.web.experiments.numbers import duration_text, moment_of
from falaj.web.experiments.table import TONES
from falaj.web.experiments.training import training_of
from falaj.web.forms import checked
from falaj.web.visits import Visit

PARENT: Final = "mlflow.parentRunId"
NOTE: Final = "mlflow.note.content"
JOB: Final = "falaj.job"
DRAWN_AT_ONCE: Final = 12
DRAWN_POINTS: Final = 150
MOST_CHARTS: Final = 400
MOST_RELATED: Final = 50
_ID: Final = re.compile(r"[0-9a-f]{32}")


def tags_of(run: Any) -> dict[str, str]:
    return {tag.key: tag.value for tag in run.tags}


def experiment(visit: Visit) -> dict[str, Any]:
    return {"project": visit.project, "experiment": visit.loaded["run"].info.experiment}


def parent(visit: Visit) -> Any:
    found = tags_of(visit.loaded["run"]).get(PARENT, "")
    return checked(SHOW_RUN, {"project": visit.project, "run": found}) if _ID.fullmatch(found) else None


def children(visit: Visit) -> Any:
    info = visit.loaded["run"].info
    words = f"tags.`{PARENT}` = '{info.id}'"
    asked = {"experiments": [info.experiment], "filter": words, "limit": MOST_RELATED}
    return checked(SEARCH_RUNS, {"project": visit.project, **asked})


def models_made(visit: Visit) -> list[Any]:
    ids = dict.fromkeys(made.model for made in visit.loaded["run"].models_made)
    return [checked(SHOW_LOGGED_MODEL, {"project": visit.project, "model": id}) for id in list(ids)[:MOST_RELATED]]


def versions_made(visit: Visit) -> Any:
    words = f"run_id = '{visit.loaded['run'].info.id}'"
    return checked(SEARCH_VERSIONS, {"project": visit.project, "filter": words, "limit": MOST_RELATED})


def all_files(holder: str) -> Any:
    return lambda visit: checked(LIST_ARTIFACTS, {"project": visit.project, "holder": visit.path[holder], "deep": True})


def first_curves(visit: Visit) -> Any:
    """A few points of the first charts, so that the page shows something before its script does, or without one."""
    keys = [metric.key for metric in _metrics(visit)][:DRAWN_AT_ONCE]
    asked = {"runs": [visit.loaded["run"].info.id], "keys": keys, "points": DRAWN_POINTS}
    return checked(READ_CURVES, {"project": visit.project, **asked}) if keys else None


def _metrics(visit: Visit) -> list[Any]:
    return sorted(visit.loaded["run"].metrics, key=lambda metric: (is_system(metric.key), metric.key))


def story(visit: Visit) -> dict[str, Any]:
    run = visit.loaded["run"]
    info, tags = run.info, tags_of(run)
    end = info.ended if info.ended is not None else (int(visit.now) // 1000 if info.status == "RUNNING" else None)
    metrics = _metrics(visit)
    return {
        "info": info,
        "tone": TONES[info.status],
        "title": info.name or info.id[:12],
        "started": moment_of(info.started),
        "took": duration_text(None if end is None else end - info.started),
        "live": info.status in ("RUNNING", "SCHEDULED") and not info.deleted,
        "note": tags.get(NOTE, ""),
        "job": tags.get(JOB, "") if _ID.fullmatch(tags.get(JOB, "")) else "",
        "source": tags.get("mlflow.source.name", ""),
        "commit": tags.get("mlflow.source.git.commit", ""),
        "own_tags": sorted((tag for tag in run.tags if is_own_tag(tag.key)), key=lambda tag: str(tag.key)),
        "tags": sorted(
            (tag for tag in run.tags if not (is_own_tag(tag.key) or is_told(tag.key))), key=lambda tag: str(tag.key)
        ),
        "params": sorted(run.params, key=lambda param: str(param.key)),
        "charts": [metric for metric in metrics if not is_system(metric.key)][:MOST_CHARTS],
        "system_charts": [metric for metric in metrics if is_system(metric.key)][:MOST_CHARTS],
        "metrics": metrics,
        "values": [metric for metric in metrics if not metric.key.startswith(FIGURES)],
        "sparks": _sparks(visit),
        "lone": _lone(visit),
        "files": _files(visit),
        "names": names_of(visit),
        "training": training_of(tags, {metric.key: metric.value for metric in metrics}, _file_names(visit)),
    }


def _sparks(visit: Visit) -> dict[str, Markup]:
    found = visit.loaded["curves"].items if visit.loaded["curves"] is not None else ()
    return {curve.key: sparkline(curve.values, width=300, height=150, class_="spark spark-large") for curve in found}


def _lone(visit: Visit) -> set[str]:
    """The metrics that are one number and no course, as far as curves were read; the page's script finds the others."""
    found = visit.loaded["curves"].items if visit.loaded["curves"] is not None else ()
    return {curve.key for curve in found if curve.total == 1}


def _files(visit: Visit) -> Folder | None:
    found = visit.loaded["artifacts"]
    return tree(entry for entry in found.items if not entry.folder) if found is not None else None


def _file_names(visit: Visit) -> set[str]:
    found = visit.loaded["artifacts"]
    return {entry.name for entry in found.items if not entry.folder} if found is not None else set()


def names_of(visit: Visit) -> dict[str, str]:
    """What the project's members are called, by id."""
    members = visit.loaded.get("members")
    return {member.id: member.name for member in members.items} if members is not None else {}
