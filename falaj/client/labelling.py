"""Labels from rows that people have, sent in requests of a size that is taken, again where an answer got lost: what was said
before counts once."""

import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any, Final

from falaj.base.clock import SECOND, Moment
from falaj.base.errors import Conflict, FalajError, Invalid, TemporaryError, TooLarge
from falaj.client.http import Client
from falaj.monitoring.operations.labels import ADD_LABELS, MOST_LABELS, Added, AddLabels, Label

ENTITY: Final = "entity."
MOST_NAMED: Final = 20
_OWN: Final = ("id", "row", "truth", "unit", "at", "entity", "values")
_WHOLE: Final = re.compile(r"-?(0|[1-9][0-9]{0,14})")
_NUMBER: Final = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
_LONGEST_WAIT: Final = 10.0
_MOST_CONFLICTS: Final = 5


@dataclass
class Summary:
    """What became of labels so far. Lines are counted from 1; the first that were refused, or are unknown, are named."""

    taken: int = 0
    repeated: int = 0
    refused: int = 0
    unknown: int = 0
    refused_lines: list[int] = field(default_factory=list)
    unknown_lines: list[int] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    @property
    def sent(self) -> int:
        return self.taken + self.repeated + self.refused + self.unknown

    def add(self, added: Added, lines: Sequence[int]) -> None:
        self.taken += added.taken
        self.repeated += added.repeated
        self.refused += added.refused
        self.unknown += added.unknown
        self.refused_lines = [*self.refused_lines, *(lines[place] for place in added.refused_at)][:MOST_NAMED]
        self.unknown_lines = [*self.unknown_lines, *(lines[place] for place in added.unknown_at)][:MOST_NAMED]
        self.remarks += [one for one in added.remarks if one not in self.remarks]


def label_of(row: Mapping[str, Any], line: int) -> Label:
    """`id`, or columns `entity.NAME` with `at`; `row`, `truth` and `unit`; all other columns are values, and numbers. What is
    empty is not there. Raises `Invalid` that names the line."""
    given = {name: one for name, one in row.items() if not _is_empty(one)}
    entity = {name.removeprefix(ENTITY): _text(one) for name, one in given.items() if name.startswith(ENTITY)}
    entity |= {str(name): _text(one) for name, one in _object(given, "entity", line).items()}
    others = {name: one for name, one in given.items() if name not in _OWN and not name.startswith(ENTITY)}
    values = {name: _number(name, one, line) for name, one in {**others, **_object(given, "values", line)}.items()}
    if ("id" in given) == bool(entity):
        raise Invalid(f"Line {line} must name its prediction: by a column `id`, or by columns `entity.NAME` and `at`.")
    if entity and "at" not in given:
        raise Invalid(f"Line {line} names an entity and no moment: say in a column `at` when its truth came to be known.")
    if "truth" not in given and not values:
        raise Invalid(f"Line {line} says nothing: give a `truth`, or numbers in columns of other names.")
    return Label(
        id=_text(given.get("id", "")),
        row=_whole("row", given.get("row", 0), line),
        entity=entity or None,
        at=_moment(given["at"], line) if "at" in given else None,
        truth=_truth(given["truth"]) if "truth" in given else None,
        values=values or None,
        unit=_text(given.get("unit", "")),
    )


class Sender:
    """Sends labels, and keeps on where the platform is busy. `patience` is in seconds."""

    def __init__(self, client: Client, project: str, endpoint: str, *, within: int = 86_400, patience: float = 300.0) -> None:
        self._client, self._patience = client, patience
        self._project, self._endpoint, self._within = project, endpoint, within

    def send(self, rows: Iterable[tuple[int, Mapping[str, Any]]], told: Callable[[Summary], None] = lambda _: None) -> Summary:
        """Rows with their lines. Where one is wrong, those of the requests before are taken, and it is said how many."""
        summary = Summary()
        try:
            for some in _parted(rows, MOST_LABELS):
                self._send([(line, label_of(row, line)) for line, row in some], summary)
                told(summary)
        except FalajError as error:
            safe = f"{summary.sent:,} labels before were sent" if summary.sent else "No label was sent"
            raise type(error)(f"{str(error).rstrip('.')}. {safe}; to send them again is harmless.") from None
        return summary

    def _send(self, labels: Sequence[tuple[int, Label]], summary: Summary) -> None:
        """In two requests, or more, where labels with many values are too much for one."""
        try:
            summary.add(self._sent(tuple(label for _, label in labels)), [line for line, _ in labels])
        except TooLarge:
            if len(labels) == 1:
                raise
            half = len(labels) // 2
            self._send(labels[:half], summary)
            self._send(labels[half:], summary)

    def _sent(self, labels: tuple[Label, ...]) -> Added:
        request = AddLabels(project=self._project, endpoint=self._endpoint, labels=labels, within=self._within)
        end, conflicts = time.monotonic() + self._patience, 0
        while True:
            try:
                return self._client.call(ADD_LABELS, request)
            except TemporaryError as error:
                if time.monotonic() > end:
                    raise
                time.sleep(min(error.delay, _LONGEST_WAIT))
            except Conflict:  # somebody else labels the same predictions at this moment
                conflicts += 1
                if conflicts == _MOST_CONFLICTS:
                    raise


def _parted(rows: Iterable[tuple[int, Mapping[str, Any]]], size: int) -> Iterator[list[tuple[int, Mapping[str, Any]]]]:
    left = iter(rows)
    while some := list(islice(left, size)):
        yield some


def _is_empty(one: Any) -> bool:
    return one is None or one == "" or (isinstance(one, float) and math.isnan(one))


def _object(given: Mapping[str, Any], name: str, line: int) -> Mapping[str, Any]:
    found = given.get(name, {})
    if not isinstance(found, Mapping):
        raise Invalid(f"Line {line}: `{name}` must be an object of names, as JSON has it; other files have a column for each.")
    return found


def _truth(one: Any) -> int | float | str:
    """A text that is a number is one: files of text know no other."""
    if isinstance(one, bool):
        return int(one)
    if not isinstance(one, str):
        return one if isinstance(one, int | float) else _text(one)
    if _WHOLE.fullmatch(one):
        return int(one)
    number = float(one) if _NUMBER.fullmatch(one) and not re.match(r"[-+]?0[0-9]", one) else math.nan
    return number if math.isfinite(number) else one


def _number(name: str, one: Any, line: int) -> float:
    try:
        found = float(one)
    except (TypeError, ValueError):
        found = math.nan
    if not math.isfinite(found):
        what = f"the column {name!r} holds {str(one)[:60]!r}, which is no number"
        raise Invalid(f"Line {line}: {what}. Columns other than id, row, truth, unit, at and entity.NAME are values.")
    return found


def _whole(name: str, one: Any, line: int) -> int:
    number = _number(name, one, line)
    if not number.is_integer() or number < 0:
        raise Invalid(f"Line {line}: {name} must be a whole number from 0 on, not {str(one)[:60]!r}.")
    return int(number)


def _moment(one: Any, line: int) -> Moment:
    try:
        if isinstance(one, datetime):
            one = one.isoformat()
        return Moment.parse(one) if isinstance(one, str) else Moment(round(float(one) * SECOND))
    except (TypeError, ValueError, OverflowError):
        text = "a moment with its offset, such as 2026-11-15T09:30:00Z, or seconds since 1970"
        raise Invalid(f"Line {line}: `at` must be {text}, not {str(one)[:60]!r}.") from None


def _text(one: Any) -> str:
    """Keys are compared as text: 17 and "17" are one."""
    return str(int(one)) if isinstance(one, bool) or (isinstance(one, float) and one.is_integer()) else str(one)
