"""Time as Falaj keeps it: int64 microseconds UTC inside, RFC 3339 outside. The clock is always passed in, never reached for."""

import threading
import time
from datetime import UTC, datetime
from typing import Any, Protocol, Self

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR


class Moment(int):
    """Microseconds since 1970, UTC. Plain arithmetic gives plain numbers; wrap the sum in `Moment` again."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read RFC 3339, e.g. `2026-11-15T09:30:00Z`; an offset is required, for a time without one means nothing."""
        stamp = datetime.fromisoformat(text)
        if stamp.tzinfo is None:
            raise ValueError(f"{text!r} has no time zone: write it like 2026-11-15T09:30:00Z")
        try:
            since = stamp.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
        except OverflowError:
            raise ValueError(f"{text!r} lies outside the years 1 to 9999") from None
        return cls((since.days * 86_400 + since.seconds) * SECOND + since.microseconds)

    def __str__(self) -> str:
        whole, micros = divmod(int(self), SECOND)
        # Not strftime: it writes the year 999 with three digits.
        return datetime.fromtimestamp(whole, UTC).replace(tzinfo=None).isoformat(timespec="seconds") + f".{micros:06d}Z"

    __format__ = object.__format__

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: Any) -> Any:
        from pydantic_core import core_schema  # only pydantic asks, so it is there

        text = core_schema.no_info_after_validator_function(cls.parse, core_schema.str_schema(max_length=40))
        return core_schema.json_or_python_schema(
            json_schema=text,
            python_schema=core_schema.union_schema([core_schema.is_instance_schema(cls), text]),
            serialization=core_schema.plain_serializer_function_ser_schema(str, return_schema=core_schema.str_schema()),
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, _schema: Any, _handler: Any) -> dict[str, Any]:
        return {"type": "string", "format": "date-time"}


class Clock(Protocol):
    """Tells the time. Thread-safe; never goes back within one process."""

    def now(self) -> Moment: ...


class SystemClock:
    """The machine's clock, held from going back: a leap or an adjustment repeats the last moment instead."""

    def __init__(self) -> None:
        self._last = 0
        self._lock = threading.Lock()

    def now(self) -> Moment:
        with self._lock:
            self._last = max(self._last, time.time_ns() // 1000)
            return Moment(self._last)
