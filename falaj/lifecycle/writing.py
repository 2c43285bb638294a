"""What steps are given and hand on, as it is kept: JSON, the same for the same, and not too much of it."""

import json
from collections.abc import Mapping
from typing import Any, Final

from falaj.base.errors import PermanentError
from falaj.lifecycle.operations.words import LARGEST

DEEPEST: Final = 100  # what is nested deeper can be read, and not be written as an answer
_LONGEST_WORDS: Final = 2000


def written(given: Any) -> str:
    """Raises `PermanentError` where it is too much, or too deep."""
    check(given)
    text = json.dumps(given, sort_keys=True, separators=(",", ":"))
    if len(text) > LARGEST:
        raise _too_much()
    return text


def check(given: Any) -> None:
    """Before it is written: a short argument may name what is large many times, and would be gigabytes of text."""
    size, open_ = 0, [(given, 0)]
    while open_:
        one, depth = open_.pop()
        if isinstance(one, str):
            size += len(one)
        elif isinstance(one, Mapping):
            size += sum(map(len, one)) + len(one)
            open_ += [(each, depth + 1) for each in one.values()]
        elif isinstance(one, list | tuple):
            size += len(one)
            open_ += [(each, depth + 1) for each in one]
        if size > LARGEST:
            raise _too_much()
        if depth > DEEPEST:
            raise PermanentError(f"That is nested more than {DEEPEST} deep; hand on what is flatter.")


def _too_much() -> PermanentError:
    return PermanentError(f"That is more than {LARGEST >> 10} KiB: hand on the name of a dataset or a run that holds it.")


def words(text: str) -> str:
    """Whatever somebody's program said, as every database keeps it."""
    return text[:_LONGEST_WORDS].encode("utf-8", "replace").decode().replace("\0", " ")
