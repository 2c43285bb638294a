"""Documents of this room as they were written: what is none says so, as an error that those who read others catch."""

from typing import Any, TypeVar

import msgspec

from falaj.base.errors import Corrupt

T = TypeVar("T")


def read(content: bytes | str, kind: type[T], what: str) -> T:
    """Raises `Corrupt`. Moments and the like are made of the numbers that they were written as."""
    try:
        return msgspec.json.decode(content, type=kind, dec_hook=_made)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Corrupt(f"{what} cannot be read: {error}") from None


def _made(kind: type, one: Any) -> Any:
    return kind(one)
