"""How studies and trials are written down: as tags of experiments and of runs, which say all there is to know."""

import json
from collections.abc import Mapping
from typing import Any, Final

from falaj.base.errors import Invalid
from falaj.training.search import spaces, studies
from falaj.training.search.stopping import Limits
from falaj.training.search.studies import Study, Trial

MARK: Final = "falaj.tune"  # of which every study's experiment has numbered parts
LIMITS: Final = "falaj.tune.limits"
STOP: Final = "falaj.tune.stop"
IMPORTANCE: Final = "falaj.tune.importance"
TRIAL: Final = "falaj.tune.trial"
STATE: Final = "falaj.tune.state"
VALUES: Final = "falaj.tune.values"
WORDS: Final = "falaj.tune.words"
CLAIM: Final = "falaj.tune.claim"
JOB: Final = "falaj.job"
_STATES: Final = ("running", "complete", "pruned", "failed", "cancelled")


def study_tags(study: Study, more: Mapping[str, Any], longest: int) -> dict[str, str]:
    """`more` goes with it; what is longer than a tag may be is written in parts."""
    text = json.dumps({"study": studies.as_document(study), **more}, separators=(",", ":"))
    return {f"{MARK}.{start // longest}": text[start : start + longest] for start in range(0, len(text), longest)}


def is_study(tags: Mapping[str, str]) -> bool:
    return f"{MARK}.0" in tags


def read_study(name: str, tags: Mapping[str, str]) -> tuple[Study, dict[str, Any]]:
    """The study, and what was written down with it. Raises `Invalid` for what is none."""
    parts: list[str] = []
    while (part := tags.get(f"{MARK}.{len(parts)}")) is not None:
        parts.append(part)
    if not parts:
        raise Invalid(f"The experiment {name!r} is no study; those that `falaj tune run` makes are.")
    try:
        document = json.loads("".join(parts))
        return studies.from_document(name, document.pop("study")), document
    except (ValueError, KeyError, TypeError):
        raise Invalid(f"The tags {MARK}.0 and following of {name!r} were changed: they say no study any more.") from None


def limits_tag(limits: Limits) -> str:
    return json.dumps({name: getattr(limits, name) for name in ("trials", "patience", "seconds", "target", "parallel")})


def read_limits(tags: Mapping[str, str]) -> Limits:
    return Limits(**json.loads(tags[LIMITS])) if LIMITS in tags else Limits()


def read_importance(tags: Mapping[str, str]) -> dict[str, float]:
    found: dict[str, float] = json.loads(tags.get(IMPORTANCE, "{}"))
    return found


def trial_tags(trial: Trial) -> dict[str, str]:
    """What became of it."""
    return {STATE: trial.state, WORDS: trial.words} | ({VALUES: json.dumps(trial.values)} if trial.values else {})


def read_trial(study: Study, run: str, tags: Mapping[str, str], params: Mapping[str, str]) -> Trial | None:
    """None for a run that is no trial of the study: anybody may put runs into an experiment."""
    number, state, chosen = tags.get(TRIAL, ""), tags.get(STATE, ""), spaces.read_params(study.space, params)
    if not (number.isascii() and number.isdigit()) or state not in _STATES or chosen is None:
        return None
    values = tuple(json.loads(tags.get(VALUES, "[]")))
    if state == "complete" and len(values) != len(study.objectives):
        return None
    return Trial(
        number=int(number),
        params=chosen,
        state=state,  # type: ignore[arg-type]
        values=values,
        words=tags.get(WORDS, ""),
        run=run,
        job=tags.get(JOB, ""),
    )
