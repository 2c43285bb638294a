"""How studies and trials are written down: as tags of experiments and of runs, which say all there is to know."""

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, Final, Literal

from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.training.search import spaces, studies
from falaj.training.search.stopping import Limits
from falaj.training.search.studies import Study, Trial

MARK: Final = "falaj.tune"  # of which every study's experiment has numbered parts
LIMITS: Final = "falaj.tune.limits"
STOP: Final = "falaj.tune.stop"
ENDED: Final = "falaj.tune.ended"
IMPORTANCE: Final = "falaj.tune.importance"
TRIAL: Final = "falaj.tune.trial"
STATE: Final = "falaj.tune.state"
VALUES: Final = "falaj.tune.values"
WORDS: Final = "falaj.tune.words"
CLAIM: Final = "falaj.tune.claim"
JOB: Final = "falaj.job"
_ENDS: Final = ("done", "given up")
_STATES: Final = ("running", "complete", "pruned", "failed", "cancelled")
_JOB: Final = re.compile(r"[0-9a-f]{6,32}")
# What reading a tag may raise: whoever may write runs may write anything into it.
_UNREADABLE: Final = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)


def run_id(project: str, experiment: int, created: int, number: int) -> str:
    """Of a trial's run. The same for whoever begins that trial, so that it can be begun once only; a run of another id is no
    trial, whatever its tags say."""
    return hashlib.sha256(f"{project} {experiment} {created} {number}".encode()).hexdigest()[:32]


def read_number(tags: Mapping[str, str]) -> int | None:
    """Which trial a run says it is; None where it says none that can be."""
    said = tags.get(TRIAL, "")
    return int(said) if re.fullmatch("[0-9]{1,6}", said, re.ASCII) else None


def read_job(tags: Mapping[str, str]) -> str:
    """Which job a run says it is of: anybody's word, until the job itself says so, too."""
    said = tags.get(JOB, "")
    return said if _JOB.fullmatch(said) else ""


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
    except _UNREADABLE:
        raise Invalid(f"The tags {MARK}.0 and following of {name!r} were changed: they say no study any more.") from None


def limits_tag(limits: Limits) -> str:
    return json.dumps({name: getattr(limits, name) for name in ("trials", "patience", "seconds", "target", "parallel")})


def read_limits(tags: Mapping[str, str]) -> Limits:
    """Raises `Invalid` for what are none."""
    try:
        said = dict(json.loads(tags.get(LIMITS, "{}")))
        if not all(spaces.is_number(one) for name, one in said.items() if (name, one) != ("target", None)):
            raise TypeError("limits are numbers")
        return Limits(**said)
    except (Invalid, *_UNREADABLE):
        raise Invalid(f"The tag {LIMITS} was changed: it says no limits any more. Remove it, and say them anew.") from None


def read_importance(tags: Mapping[str, str]) -> dict[str, float]:
    """Nothing where the tag says none."""
    try:
        found = dict(json.loads(tags.get(IMPORTANCE, "{}")))
    except _UNREADABLE:
        return {}
    return {name: float(part) for name, part in found.items() if spaces.is_number(part) and 0 <= part <= 1}


@value
class End:
    """`given up` where its trials failed."""

    state: Literal["done", "given up"]
    words: str


def end_tag(end: End, longest: int) -> str:
    return f"{end.state}: {end.words}"[:longest]


def read_end(tags: Mapping[str, str]) -> End | None:
    """None, too, where the tag says nothing of the kind."""
    state, _, words = tags.get(ENDED, "").partition(": ")
    return End(state=state, words=words) if state in _ENDS else None  # type: ignore[arg-type]


def trial_tags(trial: Trial) -> dict[str, str]:
    """What became of it."""
    return {STATE: trial.state, WORDS: trial.words} | ({VALUES: json.dumps(trial.values)} if trial.values else {})


def read_trial(study: Study, run: str, tags: Mapping[str, str], params: Mapping[str, str]) -> Trial | None:
    """None for a run that is no trial of the study: anybody may put runs into an experiment."""
    number, state, chosen = read_number(tags), tags.get(STATE, ""), spaces.read_params(study.space, params)
    if number is None or state not in _STATES or chosen is None:
        return None
    values = _values(tags.get(VALUES, "[]")) if state == "complete" else ()
    if state == "complete" and len(values) != len(study.objectives):
        return None
    return Trial(
        number=number,
        params=chosen,
        state=state,  # type: ignore[arg-type]
        values=values,
        words=tags.get(WORDS, ""),
        run=run,
        job=read_job(tags),
    )


def _values(text: str) -> tuple[float, ...]:
    """None where one is no number."""
    try:
        found = tuple(json.loads(text))
    except _UNREADABLE:
        return ()
    return tuple(map(float, found)) if all(map(spaces.is_number, found)) else ()
