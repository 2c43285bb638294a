"""The page that lays runs side by side: which ones the address asks for, and their curves."""

import re
from typing import Any, Final

from falaj.base.errors import Invalid
from falaj.tracking.operations.runs import READ_CURVES, SHOW_RUN
from falaj.web.drawing import parallel
from falaj.web.experiments import comparing
from falaj.web.experiments.columns import is_system
from falaj.web.experiments.numbers import duration_text, moment_of
from falaj.web.experiments.table import TONES
from falaj.web.forms import checked
from falaj.web.visits import Visit

MOST_KEYS: Final = 20
_NUMBER: Final = re.compile(r"-?[0-9]{1,18}")


def asked_runs(visit: Visit) -> list[str]:
    """`runs=a,b,c`, as the page's own links say it, or `runs=a&runs=b`, as a form does."""
    ids = dict.fromkeys(id for text in visit.asked("runs") for id in text.split(",") if id)
    if len(ids) > comparing.MOST_RUNS:
        raise Invalid(f"{len(ids)} runs were chosen; {comparing.MOST_RUNS} can be compared at once. Choose fewer.")
    return list(ids)


def each_run(visit: Visit) -> list[Any]:
    return [checked(SHOW_RUN, {"project": visit.project, "run": id}) for id in asked_runs(visit)]


def curves(visit: Visit) -> Any:
    """What a chart asks for: some metrics of some runs, perhaps only what came after a step."""
    document: dict[str, Any] = {"project": visit.project, "runs": asked_runs(visit), "keys": visit.asked("key")[:MOST_KEYS]}
    document |= {name: visit.query[name] for name in ("points", "first_step") if _NUMBER.fullmatch(visit.query.get(name, ""))}
    return checked(READ_CURVES, document)


def story(visit: Visit) -> dict[str, Any]:
    runs = list(visit.loaded["answers"].values())
    names = distinct_names(runs)
    compared = comparing.rows(runs)
    charts = sorted({metric.key for run in runs for metric in run.metrics}, key=lambda key: (is_system(key), key))
    return {
        "runs": runs,
        "run_names": names,
        "tones": TONES,
        "started": [moment_of(run.info.started) for run in runs],
        "took": [duration_text(None if run.info.ended is None else run.info.ended - run.info.started) for run in runs],
        "compared": compared,
        "summary": comparing.sentence(names, compared) if len(runs) > 1 else "",
        "parallel": parallel.drawing(names, comparing.axes(compared), "What differed between the runs"),
        "charts": charts,
        "missing": len(asked_runs(visit)) - len(runs),
    }


def distinct_names(runs: list[Any]) -> list[str]:
    """Runs may bear the same name; then the beginning of their ids tells them apart."""
    names = [run.info.name or run.info.id[:12] for run in runs]
    return [name if names.count(name) == 1 else f"{name} ({run.info.id[-6:]})" for name, run in zip(names, runs, strict=True)]
