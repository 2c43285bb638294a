"""What was written about an attempt by whoever kept it, perhaps of another release: a field that is not known is passed over,
one that is missing has its usual value, and what makes no sense at all spoils that one attempt alone."""

from collections.abc import Mapping
from typing import Any, Final, get_args

from falaj.base.clock import Moment
from falaj.jobs.engines.engine import Cause, Seen, Used

_CAUSES: Final = frozenset(get_args(Cause))
UNREADABLE: Final = "what was written about its end cannot be read"


class Senseless(ValueError):
    """It is no document of ours."""


def used_of(told: object) -> Used:
    """Raises `Senseless`."""
    if not isinstance(told, Mapping):
        raise Senseless(f"{told!r} is no use of anything")
    known = {name: told[name] for name in Used.__dataclass_fields__ if name in told}
    for name, amount in known.items():
        if not isinstance(amount, (int, float)):
            raise Senseless(f"{name} is {amount!r}")
    return Used(**known)


def cause_of(told: object) -> Cause:
    """One that a later release may have a word for is no cause that we know anything about."""
    return told if told in _CAUSES else "lost"  # type: ignore[return-value]


def moment_of(told: object) -> Moment | None:
    if told is None:
        return None
    if not isinstance(told, int):
        raise Senseless(f"{told!r} is no moment")
    return Moment(told)


def over(attempt: str, told: object, nodes: tuple[str, ...]) -> Seen:
    """Of one that ended. Raises `Senseless`."""
    if not isinstance(told, Mapping):
        raise Senseless("it is no document")
    fields: Mapping[str, Any] = told
    if (ended := moment_of(fields.get("ended"))) is None:
        raise Senseless("it does not say when it ended")
    code = fields.get("code")
    return Seen(
        attempt=attempt,
        state="ended",
        started=moment_of(fields.get("started")),
        ended=ended,
        cause=cause_of(fields.get("cause")),
        code=code if isinstance(code, int) else None,
        words=str(fields.get("words", "")),
        used=used_of(fields.get("used", {})),
        nodes=nodes,
        image=str(fields.get("image", "")),
    )


def going(attempt: str, told: Mapping[str, Any] | None, nodes: tuple[str, ...]) -> Seen:
    """Of one that is kept. Raises `Senseless`."""
    started = moment_of((told or {}).get("started"))
    if told is None or started is None:
        return Seen(attempt=attempt, state="preparing", nodes=nodes)
    used, image = used_of(told.get("used", {})), str(told.get("image", ""))
    return Seen(attempt=attempt, state="running", started=started, used=used, nodes=nodes, image=image)
