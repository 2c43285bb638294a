"""What the next start of a training should do otherwise: in a small file beside its checkpoints, and as a tag of its run.

What is read is bounded in size and in each number. The file is the job's own, and sealed by its key.
"""

import hashlib
import hmac
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Final

from falaj.base.errors import FalajError
from falaj.base.files import write_durably
from falaj.base.values import value
from falaj.training.checkpoints.errors import KeyMissing
from falaj.training.checkpoints.keys import key_from_environment
from falaj.training.profiling.verdicts import BOUNDS

NAME: Final = "profile.json"
_MOST_BYTES: Final = 1 << 16
# Of a document that is none of ours.
_NONE: Final = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)
_PURPOSE: Final = b"falaj training profile 1"


@value
class Changes:
    """`wanted` by the names of BOUNDS; `rate` is the rows a second without them. `refused` were tried and made it slower."""

    wanted: Mapping[str, int] = field(default_factory=dict)
    rate: float = 0.0
    refused: tuple[str, ...] = ()

    def with_more(self, taken: Mapping[str, int], new: Mapping[str, int], rate: float) -> "Changes":
        """What this start took stays, for a verdict on it is that nothing is in the way any more."""
        allowed = {name: number for name, number in new.items() if name not in self.refused}
        wanted = {**taken, **allowed}
        return Changes(wanted=wanted, rate=self.rate if wanted == taken else rate, refused=self.refused)

    def without(self, names: Mapping[str, int]) -> "Changes":
        left = {name: number for name, number in self.wanted.items() if name not in names}
        return Changes(wanted=left, refused=tuple(sorted({*self.refused, *names})))

    def only(self, *names: str) -> "Changes":
        return replace(self, wanted={name: number for name, number in self.wanted.items() if name in names})

    def text(self) -> str:
        said = {"wanted": dict(self.wanted), "rate": self.rate, "refused": list(self.refused)}
        return json.dumps(said, sort_keys=True)

    def same_as(self, other: "Changes") -> bool:
        """Whatever the rate was."""
        return (self.wanted, self.refused) == (other.wanted, other.refused)


class Keeper:
    """Reads and writes them. A file that is none of ours, or changed by anybody, is as good as none."""

    def __init__(self, folder: Path, key: bytes) -> None:
        self._file = folder / NAME
        self._key = hmac.digest(key, _PURPOSE, hashlib.sha256)

    def read(self) -> Changes:
        try:
            with self._file.open("rb") as file:
                content = file.read(_MOST_BYTES + 1)
            document = json.loads(content) if len(content) <= _MOST_BYTES else {}
            text, seal = document["changes"], document["seal"]
            return changes_in(text) if hmac.compare_digest(self._seal(text), str(seal)) else Changes()
        except (OSError, *_NONE):
            return Changes()

    def write(self, changes: Changes) -> None:
        """What cannot be written is not: the training is worth more than a hint for the next one."""
        text = changes.text()
        with suppress(OSError, FalajError):
            write_durably(self._file, json.dumps({"changes": text, "seal": self._seal(text)}).encode())

    def _seal(self, text: str) -> str:
        return hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()


def changes_in(text: str) -> Changes:
    """None in what is no such text, or too long; what is out of its bounds is left out."""
    try:
        return _checked(json.loads(text)) if len(text) <= _MOST_BYTES else Changes()
    except _NONE:
        return Changes()


def in_words(wanted: Mapping[str, int]) -> str:
    named = {"loader_workers": "{} loader worker{}", "micro_batch": "{} row{} at a time", "threads": "{} thread{}"}
    return ", ".join(
        named.get(name, "pinned memory" if number else "no pinned memory").format(number, "" if number == 1 else "s")
        for name, number in wanted.items()
    )


def _checked(said: Any) -> Changes:
    wanted = {}
    for name, (least, most) in BOUNDS.items():
        number = said["wanted"].get(name)
        if type(number) is int and least <= number <= most:
            wanted[name] = number
    rate = float(said["rate"])
    refused = tuple(name for name in BOUNDS if name in said["refused"])
    return Changes(wanted=wanted, rate=rate if 0 <= rate < float("inf") else 0.0, refused=refused)


def keeper_from_environment(variables: Mapping[str, str] = os.environ) -> Keeper | None:
    """In a job's own folder; None where there is none, or no key to seal with."""
    folder = variables.get("FALAJ_CHECKPOINTS", "")
    try:
        return Keeper(Path(folder), key_from_environment(variables).key()) if folder else None
    except KeyMissing:
        return None
