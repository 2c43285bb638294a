"""What a trigger may wish for, and when a schedule is due. Apart from what starts pipelines, because whoever writes a wish down
holds it against the same rules before anything is sent."""

from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from falaj.base.clock import SECOND, Moment
from falaj.base.errors import Invalid
from falaj.lifecycle.expressions import references
from falaj.lifecycle.operations.triggers import Trigger

_FIELDS: Final = 5  # with a sixth, there would be seconds


def next_time(wish: Trigger, now: Moment) -> int | None:
    """When a schedule is due after that moment, in the time of its zone; None for what has no schedule."""
    if wish.kind != "schedule":
        return None
    here = datetime.fromtimestamp(now / SECOND, ZoneInfo(wish.zone))
    return int(next(CronSim(wish.cron, here)).timestamp()) * SECOND


def check_wish(wish: Trigger) -> None:
    if wish.cron and len(wish.cron.split()) != _FIELDS:
        raise Invalid(f"{wish.cron!r} is no schedule: five fields are, minute hour day month weekday, such as '0 6 * * 1-5'.")
    if (wish.kind == "schedule") is not bool(wish.cron):
        raise Invalid("A schedule, and nothing else, has a `cron`, such as '0 6 * * 1-5'.")
    if (wish.kind in ("schedule", "webhook")) is bool(wish.about):
        raise Invalid(f"A trigger of the kind {wish.kind!r} {'has no' if wish.about else 'needs'} `about`.")
    try:
        next_time(wish, Moment(0))
    except (CronSimError, StopIteration):
        raise Invalid(
            f"{wish.cron!r} is no schedule: five fields are, minute hour day month weekday, such as '0 6 * * 1-5'."
        ) from None
    except (KeyError, ValueError, OSError):
        raise Invalid(f"There is no time zone {wish.zone!r}; write it like Asia/Dubai or UTC.") from None
    if bad := next((one for one in references(wish.parameters) if one.path[0] != "trigger"), None):
        raise Invalid(f"Parameters may refer to `trigger` alone, and not to {'.'.join(bad.path)}.")
