"""Changing who gets what: the new split, its place in the history, the way back from it, and a new serial, all at once."""

from collections.abc import Mapping
from typing import Any, Final

from falaj.base.clock import SECOND, Moment
from falaj.base.ids import new_id
from falaj.base.values import value
from falaj.database.work import UnitOfWork
from falaj.serving.operations.words import ChangeKind, Steps
from falaj.serving.splits import Arms, main_revision, previous, read_arms, written
from falaj.serving.states import PURPOSE
from falaj.serving.store import endpoints as store
from falaj.serving.store import states
from falaj.serving.store.tables import Found

REMEMBERED: Final = 500  # so many changes are looked at for the way back


@value
class Growth:
    """A canary on its way: step number `step` of `steps` holds until `until`; then comes the next, or None after the last."""

    canary: int
    steps: Steps
    step: int
    since: Moment
    until: Moment | None


def first_step(canary: int, steps: Steps, now: Moment) -> Growth:
    return Growth(canary=canary, steps=steps, step=1, since=now, until=Moment(now + steps.seconds * SECOND))


def way_back(work: UnitOfWork, endpoint: str, without: int = 0) -> Arms:
    """The split that a rollback would bring back, in which one revision may have no part; empty where there is none."""
    done = [(row.kind, read_arms(row.arms)) for row in store.last_changes(work, endpoint, REMEMBERED)]
    usable = {number for number, why in store.quarantine_reasons(work, endpoint).items() if not why and number != without}
    return previous(done, usable)


def change_split(
    work: UnitOfWork,
    endpoint: Found,
    *,
    kind: ChangeKind,
    arms: Arms,
    by: str,
    reason: str,
    now: Moment,
    growth: Growth | None = None,
    others: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The endpoint's row is held. `others` are columns of it that change with the split. What the leaf should say of it."""
    id = new_id(now)
    store.add_change(
        work,
        {
            "id": id,
            "endpoint": endpoint.id,
            "place": store.next_change(work, endpoint.id),
            "kind": kind,
            "before": endpoint.arms,
            "arms": written(arms),
            "by": by,
            # Forward in time, also where another control plane's clock is ahead of ours.
            "at": max(int(now), store.last_moment(work, endpoint.id) + 1),
            "reason": reason,
        },
    )
    back = way_back(work, endpoint.id)
    store.use(work, endpoint.id, {arm.revision for arm in (*arms, *back)})
    serial = states.bump(work, endpoint.zone, PURPOSE, now)
    store.change(
        work,
        endpoint.id,
        arms=written(arms),
        back_to=main_revision(back),
        steps=written(growth.steps if growth else Steps()),
        step=growth.step if growth else 0,
        next_step=growth.until if growth else None,
        canary=growth.canary if growth else 0,
        growing=growth.since if growth else None,
        serial=serial,
        changed=now,
        **(others or {}),
    )
    return {"endpoint": endpoint.id, "change": id, "kind": kind, "serial": serial}
