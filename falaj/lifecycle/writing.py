"""What steps are given and hand on, as it is kept: JSON, the same for the same, and not too much of it."""

import json
from typing import Any

from falaj.base.errors import PermanentError
from falaj.lifecycle.operations.words import LARGEST

_LONGEST_WORDS = 2000


def written(given: Any) -> str:
    """Raises `PermanentError` where it is too much."""
    text = json.dumps(given, sort_keys=True, separators=(",", ":"))
    if len(text) > LARGEST:
        raise PermanentError(f"That is more than {LARGEST >> 10} KiB: hand on the name of a dataset or a run that holds it.")
    return text


def words(text: str) -> str:
    """Whatever somebody's program said, as every database keeps it."""
    return text[:_LONGEST_WORDS].encode("utf-8", "replace").decode().replace("\0", " ")
