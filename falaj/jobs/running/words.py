"""What the first process inside may say. It is ours, but it runs where a job does, and no job shall bring its keeper down."""

import json
from typing import Any, Final

LONGEST: Final = 1 << 20  # bytes of a line
_MOST: Final = 2000  # characters of what is for people


class NotOurs(Exception):
    """That was said by somebody else."""


def read(line: bytes) -> dict[str, Any]:
    """A line, as far as it is known. Raises `NotOurs`."""
    try:
        said = json.loads(line)
        known: dict[str, Any] = {name: True for name in ("here", "started", "listening") if name in said}
        if "unusable" in said:
            known["unusable"] = str(said["unusable"])[:_MOST]
        if "ended" in said:
            code, words, memory = (said["ended"][name] for name in ("code", "words", "memory"))
            known["ended"] = {"code": int(code) & 0xFF, "words": str(words)[:_MOST], "memory": max(0, int(memory))}
            if "unkept" in said["ended"]:
                known["ended"]["unkept"] = str(said["ended"]["unkept"])[:_MOST]
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise NotOurs from error
    return known
