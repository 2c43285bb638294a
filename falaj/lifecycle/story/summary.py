"""A story in a sentence or two, as a colleague would tell it. Pure."""

from collections.abc import Collection, Sequence

from falaj.lifecycle.operations.stories import Chapter, DataTold, Served, Training
from falaj.lifecycle.story.happenings import percent
from falaj.registry.operations.promotions import Approval, Move
from falaj.registry.operations.versions import Version

_MOST_NAMED = 3


def summary(
    version: Version,
    registered_by: str,
    data: Sequence[DataTold],
    training: Training | None,
    moves: Sequence[Move],
    approvals: Sequence[Approval],
    served: Sequence[Served],
    hidden: Collection[Chapter],
) -> str:
    """Version 3 of scorer answers 90 % of `scoring` since 2026-11-15, trained on flights@4 by Maryam, approved by Khalid."""
    answers = "answers where its reader may not see it" if "serving" in hidden else _answers(served)
    trained = _trained(data, training, registered_by, known="data" not in hidden)
    parts = [answers, trained, _approved(version.version, moves, approvals)]
    told = f"Version {version.version} of {version.model} {', '.join(part for part in parts if part)}."
    return f"{told} It is the {_and(version.aliases)}." if version.aliases else told


def _answers(served: Sequence[Served]) -> str:
    now = [
        f"{percent(one.share)} of `{one.endpoint}` since {_day(min(span.since for span in one.spans if span.until is None))}"
        for one in served
        if one.share
    ]
    if now:
        return f"answers {_and(now)}"
    live = ((one.endpoint, span) for one in served for span in one.spans if span.role == "live")
    if ended := [(span.until, endpoint) for endpoint, span in live if span.until is not None]:
        until, endpoint = max(ended)
        return f"answered at `{endpoint}` until {_day(until)} and answers nothing now"
    shadows = [f"`{one.endpoint}`" for one in served if any(span.until is None for span in one.spans)]
    return f"answers nothing, and gets copies at {_and(shadows)}" if shadows else "has never answered"


def _trained(data: Sequence[DataTold], training: Training | None, registered_by: str, *, known: bool) -> str:
    nearest = min((one.distance for one in data), default=0)
    named = [f"{one.name}@{one.version}" if one.version else one.name for one in data if one.distance == nearest]
    on = f" on {_and(named)}" if named else "" if known else " on data that its reader may not see"
    if training is not None:
        return f"trained{on} by {training.by}"
    return f"made{on}, registered by {registered_by}"


def _approved(version: int, moves: Sequence[Move], approvals: Sequence[Approval]) -> str:
    approvers = [person.name for move in moves if move.version == version for person in move.approvers]
    if approvers:
        return f"approved by {_and(list(dict.fromkeys(approvers)))}"
    waiting = [one for one in approvals if one.state in ("waiting", "ready")]
    return f"waiting for approval as {waiting[-1].alias}" if waiting else ""


def _and(words: Sequence[str]) -> str:
    """At most a few of them by name."""
    named = list(words[:_MOST_NAMED])
    if len(words) > _MOST_NAMED:
        named.append(f"{len(words) - _MOST_NAMED} more")
    return f"{', '.join(named[:-1])} and {named[-1]}" if len(named) > 1 else "".join(named)


def _day(at: object) -> str:
    return str(at)[:10]
