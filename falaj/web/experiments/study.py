"""The page of a study: how its trials did, what decided that, and which of them none beats."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from markupsafe import Markup

from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.tracking.operations.runs import SEARCH_RUNS
from falaj.training.search import written
from falaj.training.search.studies import Study, Trial, front
from falaj.web.drawing import parallel
from falaj.web.drawing.parallel import Axis
from falaj.web.drawing.quotas import meter
from falaj.web.drawing.scatter import Dot, scatter
from falaj.web.experiments.numbers import number_text
from falaj.web.forms import checked
from falaj.web.visits import Visit

MOST_TRIALS: Final = 1000
MOST_LINES: Final = 20
TONES: Final = {"running": "accent", "complete": "good", "pruned": "warn", "failed": "bad", "cancelled": ""}


@value
class Row:
    number: int
    state: str
    tone: str
    leads: bool
    run: str
    job: str
    values: tuple[str, ...]
    params: tuple[str, ...]
    words: str


def trials(visit: Visit) -> Any:
    document = {"project": visit.project, "experiments": [visit.path["experiment"]], "limit": MOST_TRIALS}
    return checked(SEARCH_RUNS, document | {"filter": f"tags.`{written.TRIAL}` LIKE '%'"})


def story(visit: Visit) -> dict[str, Any]:
    tags = {tag.key: tag.value for tag in visit.loaded["experiment"].tags}
    try:
        study, _ = written.read_study(visit.loaded["experiment"].name, tags)
        limits = written.read_limits(tags)
    except Invalid as error:
        return {"study": None, "why": str(error)}
    known = sorted(_trials(visit, study), key=lambda one: one.number)
    leading = front(study.objectives, known)
    weights = written.read_importance(tags)
    return {
        "study": study,
        "limits": limits,
        "stopped": written.STOP in tags,
        "counts": Counter(one.state for one in known),
        "leading": leading,
        "rows": [_row(one, leading, study) for one in _ordered(study, known)],
        "histories": [_history(study, place, known) for place in range(len(study.objectives))],
        "front": _front(study, known, leading),
        "weights": [(name, meter(part), f"{part:.0%}") for name, part in sorted(weights.items(), key=lambda one: -one[1])],
        "parallel": _parallel(study, known),
        "many": bool(visit.loaded["runs"] is not None and visit.loaded["runs"].next),
    }


def _trials(visit: Visit, study: Study) -> list[Trial]:
    """Of the runs those whose id follows from their number; others are whatever somebody put there."""
    found = visit.loaded["runs"].items if visit.loaded["runs"] is not None else ()
    kept = visit.loaded["experiment"]
    read = [
        written.read_trial(
            study,
            run.info.id,
            {tag.key: tag.value for tag in run.tags},
            {param.key: param.value for param in run.params},
        )
        for run in found
    ]
    trials = [one for one in read if one is not None]
    return [one for one in trials if one.run == written.run_id(visit.project, kept.id, int(kept.created), one.number)]


def _row(trial: Trial, leading: Sequence[Trial], study: Study) -> Row:
    return Row(
        number=trial.number,
        state=trial.state,
        tone=TONES[trial.state],
        leads=trial in leading,
        run=trial.run,
        job=trial.job,
        values=tuple(number_text(at) for at in trial.values) or ("",) * len(study.objectives),
        params=tuple(_shortly(trial.params[one.name]) for one in study.space),
        words=trial.words,
    )


def _ordered(study: Study, known: Sequence[Trial]) -> list[Trial]:
    """The best first where one metric decides; those without a value last."""
    sign = 1 if study.objectives[0].direction == "min" else -1
    return sorted(known, key=lambda one: (not one.values, sign * one.values[0] if one.values else 0, one.number))


def _history(study: Study, place: int, known: Sequence[Trial]) -> Markup:
    """Each trial's value, and the best so far as a line."""
    objective = study.objectives[place]
    dots: list[Dot] = []
    line: list[tuple[float, float]] = []
    for one in known:
        if one.state != "complete":
            continue
        at = one.values[place]
        better = not line or objective.better(at, line[-1][1])
        line.append((one.number, at if better else line[-1][1]))
        words = f"trial {one.number}: {objective.metric} {number_text(at)}"
        dots.append(Dot(x=one.number, y=at, words=words, kind="best" if better else "plain"))
    told = f"{objective.metric} of each trial, and the best so far"
    return scatter(dots, across="trial", up=objective.metric, label=told, line=line, whole=True)


def _front(study: Study, known: Sequence[Trial], leading: Sequence[Trial]) -> Markup:
    """The first two metrics against each other, where several decide."""
    if len(study.objectives) < 2:
        return Markup("")
    one, other = study.objectives[:2]
    dots = [
        Dot(
            x=trial.values[0],
            y=trial.values[1],
            words=f"trial {trial.number}: {number_text(trial.values[0])} and {number_text(trial.values[1])}",
            kind="best" if trial in leading else "faint",
        )
        for trial in known
        if trial.state == "complete"
    ]
    told = f"{other.metric} against {one.metric}; marked are the trials that none beats"
    return scatter(dots, across=one.metric, up=other.metric, label=told)


def _parallel(study: Study, known: Sequence[Trial]) -> Markup:
    best = [one for one in _ordered(study, known) if one.values][:MOST_LINES]
    axes = [Axis(name=each.name, cells=tuple(_cell(one.params[each.name]) for one in best)) for each in study.space]
    axes += [
        Axis(name=each.metric, cells=tuple(one.values[place] for one in best)) for place, each in enumerate(study.objectives)
    ]
    return parallel.drawing([f"trial {one.number}" for one in best], axes, "The parameters and values of the best trials")


def _cell(chosen: float | str) -> float | str:
    return chosen if isinstance(chosen, str) else float(chosen)


def _shortly(chosen: float | str) -> str:
    return f"{chosen:.5g}" if isinstance(chosen, float) else str(chosen)
