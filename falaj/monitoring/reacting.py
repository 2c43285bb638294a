"""What an alert makes happen, by the wishes of its monitor. Pure: `raising` keeps what comes out, `acting` does it."""

from collections.abc import Sequence
from typing import Final, Literal

from falaj.base.clock import DAY, SECOND, Moment
from falaj.base.values import value
from falaj.monitoring.operations.words import Act, ActionKind, ShownKind

NAMES: Final[dict[ActionKind, str]] = {
    "roll-back": "Rolling back",
    "pause-canary": "Pausing the canary",
    "fall-back": "Falling back to a variant",
    "retrain": "Retraining",
}
_FOR_CALLERS: Final = ("roll-back", "fall-back")  # what gives callers another revision


@value
class Earlier:
    """Something of the kind that was decided upon at `at`, whatever came of it."""

    act: Act
    at: Moment


@value
class Reaction:
    act: Act
    state: Literal["waiting", "ready"]
    words: str


@value
class Reactions:
    """What is to be done, and, in `left_out`, a sentence for each thing that is not, though it was wished for."""

    wanted: tuple[Reaction, ...] = ()
    left_out: tuple[str, ...] = ()


def reactions(acts: Sequence[Act], kind: ShownKind, earlier: Sequence[Earlier], now: Moment, silent: int = 0) -> Reactions:
    """`earlier` is all that the monitor decided upon within a cool-down, or a day. `silent` is the revision that the alert is
    of where callers get no answers from it: what they get is not changed for it, and what that may need is not spent."""
    wanted: list[Reaction] = []
    left_out: list[str] = []
    for act in acts:
        if kind not in act.on:
            continue
        before = [one.at for one in earlier if _is_same(one.act, act)]
        before += [now for one in wanted if _is_same(one.act, act)]
        why = _reason_not_to(act, before, now)
        if silent and act.do in _FOR_CALLERS:
            why = f"callers get no answers from revision {silent}"
        if why:
            left_out.append(f"{NAMES[act.do]} is left out: {why}.")
        elif act.approval:
            wanted.append(Reaction(act=act, state="waiting", words="It waits for somebody who may deploy to agree."))
        else:
            wanted.append(Reaction(act=act, state="ready", words="It is about to be done."))
    return Reactions(wanted=tuple(wanted), left_out=tuple(left_out))


def looked_back(acts: Sequence[Act], now: Moment) -> Moment:
    """Since when `reactions` has to know what was decided upon."""
    return Moment(now - max(DAY, *(act.cooldown * SECOND for act in acts), 0))


def _is_same(one: Act, other: Act) -> bool:
    """Whether it is the same that is done; when and how often may be wished for in several ways."""
    return (one.do, one.variant, one.job, one.pipeline) == (other.do, other.variant, other.job, other.pipeline)


def _reason_not_to(act: Act, before: Sequence[Moment], now: Moment) -> str:
    last = max(before, default=None)
    if last is not None and now - last < act.cooldown * SECOND:
        return f"it was decided upon at {str(last)[:19]}Z, and rests for {act.cooldown} seconds"
    if len([at for at in before if at > now - DAY]) >= act.most:
        return f"it may happen {act.most} times a day, and did"
    return ""
