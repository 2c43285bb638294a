"""What a monitor is asked to do, held against what there is: all of it, before anything is changed."""

import math
import zoneinfo
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import Any, Final
from zoneinfo import ZoneInfo

from falaj.base.clock import SECOND, Moment
from falaj.base.errors import Invalid, NotFound
from falaj.base.operation import Operation
from falaj.base.values import Message
from falaj.database.work import Context
from falaj.datasets.sight import Sight
from falaj.governance.gate import Gatekeeper
from falaj.jobs.operations.jobs import RETRY_JOB, Retry
from falaj.jobs.store import jobs as job_store
from falaj.monitoring.operations.monitors import Wishes
from falaj.monitoring.operations.words import GAP, Act, Objective, QualityBound
from falaj.monitoring.quality import ESTIMATED, refuse_hidden
from falaj.monitoring.retraining import Pipelines
from falaj.monitoring.store import alerts as alert_store
from falaj.optimisation.store import variants as variant_store
from falaj.serving.forms import read_columns
from falaj.serving.operations.endpoints import DEPLOY_REVISION, ROLL_BACK, SPLIT_TRAFFIC, Deploy, RollBack, Split
from falaj.serving.operations.words import ORIGINAL
from falaj.serving.store.tables import Found

_HOUR: Final = 3600
_WEEKS: Final = 53  # of a year, in which clocks are moved
_MOST_COMPARED: Final = 200  # names
_LONGEST_COMPARED: Final = 100
_FIGURES: Final = (
    "accuracy",
    "balanced accuracy",
    "f1",
    "auc",
    "log loss",
    "brier score",
    "calibration error",
    "rmse",
    "mae",
    "r2",
    ESTIMATED,
    GAP,
)
_MEAN: Final = "mean "
_ALIKE: Final = 0.8  # of two names, one of which is probably meant to be the other


def check(
    context: Context, gate: Gatekeeper, pipelines: Pipelines, endpoint: Found, wishes: Wishes, revisions: Sequence[Found]
) -> None:
    """In a transaction; `revisions` are those in use. Raises `Invalid`, `NotFound` or `Forbidden`."""
    _check_season(wishes, context.now)
    _check_ignored(wishes.ignore, revisions)
    for name in dict.fromkeys((*wishes.channels, *wishes.escalate_to)):
        if alert_store.channel(context.work, context.required_project.id, name) is None:
            raise NotFound(f"There is no channel {name!r} here; `falaj channel set {name} ...` makes one.")
    for act in wishes.actions:
        _check_action(context, act, revisions)
        check_right(context, gate, pipelines, endpoint.name, act)
        if act.pipeline:
            pipelines.check(context, act.pipeline)
    _check_objectives(wishes.objectives)
    _check_quality(wishes.quality)
    if slices := [one.slice for one in wishes.quality if one.slice]:
        refuse_hidden(context, Sight(gate), endpoint, {row.number for row in revisions}, slices)


def _check_season(wishes: Wishes, now: Moment) -> None:
    if wishes.timezone != "UTC" and wishes.timezone not in zoneinfo.available_timezones():
        raise Invalid(f"There is no time zone {wishes.timezone!r}; name one as Asia/Dubai is named, or UTC.")
    if wishes.season == "none":
        return
    if wishes.reference and not wishes.time:
        raise Invalid(f"With a season, `time` has to name the column of {wishes.reference!r} that says when a row was.")
    if wishes.window > _HOUR:
        raise Invalid(
            f"Windows of {wishes.window} seconds span several hours, and the season {wishes.season!r} compares hours: take "
            f"{_HOUR} or fewer."
        )
    fitting = _within_hours(wishes.timezone, now)
    if fitting % wishes.window:
        nearest = max(one for one in range(1, wishes.window) if fitting % one == 0)
        raise Invalid(
            f"Windows of {wishes.window} seconds begin at multiples of that by UTC, so that some span two hours by the clock "
            f"of {wishes.timezone}, and the season {wishes.season!r} compares hours: take {nearest}, or another of which "
            f"{fitting} is a multiple."
        )


def _within_hours(timezone: str, now: Moment) -> int:
    """Seconds: windows that divide these lie within an hour by the zone's clock, at any time of the year. Clocks of some zones
    are half an hour or a quarter apart from UTC's hours."""
    zone, first = ZoneInfo(timezone), datetime.fromtimestamp(now / SECOND, UTC)
    offsets = [(first + timedelta(weeks=week)).astimezone(zone).utcoffset() for week in range(_WEEKS)]
    return math.gcd(_HOUR, *(round(one.total_seconds()) for one in offsets if one is not None))


def _check_ignored(ignored: Sequence[str], revisions: Sequence[Found]) -> None:
    """What is not among the columns of a model may be one of its answers; what is nearly one of them is mistyped. Only the
    first such is looked at, among few and short ones: names are anybody's, and to compare many long ones takes hours."""
    known = {column.name for row in revisions for column in read_columns(row.columns)}
    unknown = next((name for name in ignored if name not in known), "")
    if not unknown or len(unknown) > _LONGEST_COMPARED:
        return
    short = [name for name in sorted(known) if len(name) <= _LONGEST_COMPARED][:_MOST_COMPARED]
    if meant := get_close_matches(unknown, short, 1, _ALIKE):
        raise Invalid(f"The model has no column {unknown!r} to ignore; it has {meant[0]!r}.")


def _check_action(context: Context, act: Act, revisions: Sequence[Found]) -> None:
    for name, said in (("job", act.job), ("pipeline", act.pipeline)):
        if said and act.do != "retrain":
            raise Invalid(f"The action {act.do!r} takes no {name}; `{name}` goes with retrain.")
    if act.variant and act.do != "fall-back":
        raise Invalid(f"The action {act.do!r} takes no variant; `variant` goes with fall-back.")
    if act.do == "retrain":
        if bool(act.job) is bool(act.pipeline):
            raise Invalid(
                "The action retrain needs `pipeline`, the name of one that is to be started, or else `job`, the id of a job "
                "that is to be submitted once more."
            )
        if act.job and job_store.find(context.work, context.required_project.id, act.job) is None:
            raise NotFound(f"There is no job {act.job!r} here to retrain by; `falaj job list` has the ids.")
    if act.variant and act.variant != ORIGINAL:
        versions = {row.version_id for row in revisions}
        if not any(variant_store.named(context.work, one, act.variant) for one in versions):
            raise NotFound(f"No version that answers has a variant {act.variant!r}; `falaj model variants` lists them.")


def check_right(context: Context, gate: Gatekeeper, pipelines: Pipelines, endpoint: str, act: Act) -> None:
    """Whoever has something done may do it, by the very token that asks for it: it is done later, in their name."""
    project = context.required_project.name
    asked: dict[str, tuple[Operation[Any, Any], Message]] = {
        "roll-back": (ROLL_BACK, RollBack(project=project, endpoint=endpoint)),
        "pause-canary": (SPLIT_TRAFFIC, Split(project=project, endpoint=endpoint, arms=())),
        "fall-back": (DEPLOY_REVISION, Deploy(project=project, endpoint=endpoint, model="any")),
        "retrain": pipelines.asked(project, act.pipeline) if act.pipeline else (RETRY_JOB, Retry(project=project, job=act.job)),
    }
    operation, request = asked[act.do]
    gate.authorise(context.work, context.identity, operation, request)


def _check_quality(bounds: Sequence[QualityBound]) -> None:
    for one in bounds:
        if one.figure.lower() not in _FIGURES and not one.figure.startswith(_MEAN):
            raise Invalid(
                f"There is no figure {one.figure!r}; there are {', '.join(_FIGURES)}, and {_MEAN!r} with a value's name."
            )
        if (one.figure == GAP) is not bool(one.slice):
            wants = "needs" if one.figure == GAP else "takes no"
            raise Invalid(f"A bound of {one.figure!r} {wants} `slice`, the column that tells groups apart.")


def _check_objectives(objectives: Sequence[Objective]) -> None:
    kinds = [one.kind for one in objectives]
    if twice := [kind for kind in kinds if kinds.count(kind) > 1]:
        raise Invalid(f"There are several objectives of the kind {twice[0]!r}; one of each can be held.")
    for one in objectives:
        if not 0 < one.share < 1:
            raise Invalid(
                f"The share {one.share:g} of the objective {one.kind!r} must lie between 0 and 1: at 1 no budget is left."
            )
        if one.kind == "latency" and not one.milliseconds:
            raise Invalid("An objective of latency needs `milliseconds`, within which calls are to be answered.")
