"""What became of predictions: rows of a logged call, read from what was written down of it, joined to what is known of them."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from falaj.base.values import value
from falaj.monitoring.reading import read

Plain = int | float | str
_MOST_COLUMNS: Final = 100  # of the inputs that are kept beside a label, to tell groups apart by
_LONGEST_GROUP: Final = 100
_LONGEST_CLASS: Final = 500
_SUMS_TO: Final = 1e-3  # so far from 1 may chances add up
_LARGEST: Final = 2**63
_ENTITIES: Final = "entities"


@value
class Said:
    """What a model answered to one row: `answer` is a class or a number, `chances` are of the classes where it told them."""

    answer: Plain | None = None
    chances: tuple[float, ...] = ()


@value
class Joined:
    """One prediction, made at `at`, and what became of it. `groups` are columns of its inputs; `unit` is a digest. Where
    a caller chose the revision it was not `drawn`, and says nothing of how revisions compare."""

    revision: int
    at: int
    unit: str
    said: Said
    truth: Plain | None = None
    values: dict[str, float]
    groups: dict[str, str]
    drawn: bool = True


def encode(rows: Sequence[Joined]) -> bytes:
    return msgspec.json.encode(rows)


def decode(content: bytes) -> list[Joined]:
    return read(content, list[Joined], "What became of predictions")


class Logged:
    """One logged call, read once. What a plane wrote may be anything: what is not understood is not there."""

    def __init__(self, call: Mapping[str, Any]) -> None:
        self.id, self.at, self.revision = str(call["id"]), int(call["at"]), int(call["revision"])
        self.is_answered, self.is_drawn = call["status"] == "ok", bool(call.get("drawn", True))
        self.caller = str(call.get("caller", ""))
        inputs = _document(call["inputs"])
        self._entities = inputs.pop(_ENTITIES, None)
        self._inputs, self._outputs = _tables(inputs), _tables(_document(call["outputs"]))

    @property
    def rows(self) -> int:
        """How many it asked for; 0 where that is not known, as of one whose tensors were too large to write down. Where all
        answers are masked, the inputs tell."""
        told = self._outputs or self._inputs
        return max(map(len, told.values()), default=0) if self.is_answered else 0

    def entities(self) -> list[dict[str, str]]:
        """Row by row, the keys that features were looked up by, as text; none where there were none, or they are masked."""
        keys = self._entities
        if not isinstance(keys, dict) or not keys or not all(isinstance(some, list) for some in keys.values()):
            return []
        rows = min(len(some) for some in keys.values())
        return [{str(name): as_kind(some[row]) for name, some in keys.items()} for row in range(rows)]

    def said(self, row: int) -> Said:
        """What is told apart as chances adds up to 1; a class is a text or a whole number; all else is a number."""
        cells = [_flat(table[row]) for table in self._outputs.values() if row < len(table)]
        chances = next((tuple(map(float, cell)) for cell in cells if _are_chances(cell)), ())
        single = [_plain(cell[0]) for cell in cells if len(cell) == 1]
        classes = [one for one in single if isinstance(one, int | str)]
        answer = next((one for one in (*classes, *single) if one is not None), None)
        if answer is None and chances:
            answer = chances.index(max(chances))
        return Said(answer=answer, chances=chances)

    def groups(self, row: int, columns: Sequence[str]) -> dict[str, str]:
        """Columns of the inputs that can name a group: texts and whole numbers. `columns` are the names along a tensor's last
        axis."""
        found: dict[str, str] = {}
        for name, table in self._inputs.items():
            cell = _flat(table[row]) if row < len(table) else []
            named = [name] if len(cell) == 1 else columns if len(cell) == len(columns) else ()
            for column, one in zip(named, cell, strict=False):
                if (isinstance(one, str) and len(one) <= _LONGEST_GROUP) or (_is_number(one) and float(one).is_integer()):
                    found[column] = as_kind(one)
        return dict(sorted(found.items())[:_MOST_COLUMNS])


def as_kind(one: Any) -> str:
    """How a class is called, whether a model said 1, 1.0, true or "1"."""
    if isinstance(one, bool) or (isinstance(one, float) and one.is_integer()):
        one = int(one)
    return str(one)[:_LONGEST_CLASS]


def _plain(one: Any) -> Plain | None:
    if _is_number(one):
        return int(one) if isinstance(one, int) else float(one)
    return str(one)[:_LONGEST_CLASS] if isinstance(one, str | int) else None


def _flat(cell: Any) -> list[Any]:
    """However deep it is nested; texts and numbers in their order."""
    found, left = [], [cell]
    while left:
        one = left.pop()
        if isinstance(one, list):
            left.extend(reversed(one))
        else:
            found.append(one)
    return found


def _are_chances(cell: Sequence[Any]) -> bool:
    if len(cell) < 2 or not all(isinstance(one, float | int) and 0 <= one <= 1 for one in cell):
        return False
    return abs(math.fsum(cell) - 1) <= _SUMS_TO


def _is_number(one: Any) -> bool:
    return abs(one) < _LARGEST if isinstance(one, int) else isinstance(one, float) and math.isfinite(one)


def _tables(tensors: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Rows by tensor. One that is told by its shape, or masked, has none; a single number is one row."""
    rows = {name: [tensor] if _is_number(tensor) else tensor for name, tensor in tensors.items()}
    return {name: tensor for name, tensor in rows.items() if isinstance(tensor, list)}


def _document(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {"": found}
