"""Where a version answered, and how much: its revisions' shares over time, from the changes of a split. Pure."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from falaj.base.clock import Moment
from falaj.lifecycle.operations.stories import Span
from falaj.registry.operations.promotions import Person
from falaj.serving.operations.endpoints import Change
from falaj.serving.operations.words import Arm

DELETED = "deleted"


def spans_of(changes: Sequence[Change], revisions: Collection[int], deleted: Moment | None) -> tuple[Span, ...]:
    """In order of their beginnings. `changes` are oldest first; a share that a change left as it was is one span."""
    going: dict[int, Span] = {}
    over: list[Span] = []
    for change in changes:
        after = {arm.revision: arm for arm in change.arms if arm.revision in revisions}
        for number in [number for number, span in going.items() if not _same(span, after.get(number))]:
            ended = replace(going.pop(number), until=change.at, end=change.kind)
            over.append(replace(ended, end_by=_name(change.by), end_reason=change.reason))
        for number, arm in after.items():
            if number not in going and (arm.share or arm.role == "live"):
                going[number] = _begun(change, arm)
    if deleted is not None:
        over += [replace(span, until=deleted, end=DELETED) for span in going.values()]
        going = {}
    return tuple(sorted((*over, *going.values()), key=lambda span: (span.since, span.revision)))


def share_now(spans: Sequence[Span]) -> int:
    return sum(span.share for span in spans if span.until is None and span.role == "live")


def answered_at(spans: Sequence[Span], at: Moment) -> bool:
    return any(span.since <= at and (span.until is None or at <= span.until) for span in spans)


def _same(span: Span, arm: Arm | None) -> bool:
    return arm is not None and (span.share, span.role) == (arm.share, arm.role)


def _begun(change: Change, arm: Arm) -> Span:
    return Span(
        since=change.at,
        until=None,
        revision=arm.revision,
        share=arm.share,
        role=arm.role,
        change=change.kind,
        by=_name(change.by),
        reason=change.reason,
    )


def _name(person: Person | None) -> str:
    return "" if person is None else person.name
