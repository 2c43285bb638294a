"""Which datasets a query speaks of, from its text alone: names that could be meant. Which of them there are is looked up."""

import re
from typing import Final

from falaj.base.errors import Invalid

MOST_WORDS: Final = 5000
_REFERENCE: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}(@[a-z0-9][a-z0-9._-]{0,99})?")
_QUOTED: Final = re.compile(r'"([^"]{1,201})"')
_BARE: Final = re.compile(r"[a-z0-9_]{1,100}")


def mentioned(sql: str) -> frozenset[str]:
    """References such as `flights` and `flights@3`: whatever stands between double quotes, and every bare word."""
    text = sql.lower()
    words = set(_QUOTED.findall(text)) | set(_BARE.findall(_QUOTED.sub(" ", text)))
    found = frozenset(word for word in words if _REFERENCE.fullmatch(word))
    if len(found) > MOST_WORDS:
        raise Invalid("This query has too many words to find out what it reads: name its tables.")
    return found


def split(reference: str) -> tuple[str, str]:
    """The dataset's name and the word for its version."""
    name, _, version = reference.partition("@")
    return name, version or "current"
