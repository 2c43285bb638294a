"""What a gate concludes."""

from collections.abc import Mapping
from typing import Any

from falaj.base.values import value


@value
class Finding:
    """Passed or not, in one sentence, with the figures behind it. Absence of proof is a no."""

    passed: bool
    words: str
    document: Mapping[str, Any]


def failed(words: str, **document: Any) -> Finding:
    return Finding(passed=False, words=words, document={"problem": words, **document})
