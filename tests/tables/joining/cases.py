"""Cases for the join, made from a seed: few entities and moments, so that ties, duplicates and late arrivals are everywhere."""

import math
import random
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple

import pyarrow as pa

from falaj.tables.joining.rows import Held, Piece
from falaj.tables.joining.training_sets import Source
from falaj.tables.joining.views import Feature, Key, View
from falaj.tables.moments import MOMENT
from tests.tables.joining.oracle import Row, microseconds

# Clocks in Berlin showed the hour before the second of these twice.
START = datetime(2026, 10, 25, 0, 0, tzinfo=UTC)
_FLOATS = (0.1, -0.1, 1e300, 1.7e308, -1.7e308, 5e-324, -2.5e-310, 1e-9, 3.0, -0.0, 0.0, 2.0**53, 1.0, 2**-60, 123456.789)
_STRANGE = (math.nan, math.inf, -math.inf)
KINDS: dict[str, tuple[pa.DataType, tuple[Any, ...]]] = {
    "int64": (pa.int64(), (0, 1, -1, 2**40, -(2**40), 7, 2**58, -(2**58))),
    "int8": (pa.int8(), (-128, 127, 0, 5)),
    "uint32": (pa.uint32(), (0, 2**32 - 1, 1)),
    "uint64": (pa.uint64(), (0, 2**63, 2**63 - 1, 1, 2**64 - 1)),
    "float64": (pa.float64(), _FLOATS),
    "strange": (pa.float64(), (*_FLOATS, *_STRANGE)),
    "float32": (pa.float32(), (0.5, -0.25, 1.0, 2.0**100, 2.0**-100, -0.0, 0.0, math.nan)),
    "bool": (pa.bool_(), (True, False)),
    "text": (pa.string(), ("", "a", "ä", "longer than the others")),
    "moment": (MOMENT, (START, START + timedelta(microseconds=1), datetime(1969, 1, 1, tzinfo=UTC))),
    "date": (pa.date32(), (date(2026, 1, 1), date(1960, 2, 29))),
    "duration": (pa.duration("us"), (timedelta(seconds=-1), timedelta(microseconds=3), timedelta(days=400))),
}
_KEYS: tuple[tuple[pa.DataType, tuple[Any, ...]], ...] = (
    (pa.int64(), (1, 2, 3, 4, 5, 2**40)),
    (pa.string(), ("a", "b", "", "ab", "ä", "long enough to be kept elsewhere")),
    (pa.int32(), (-1, 0)),
    (MOMENT, (START,)),
    (pa.bool_(), (True, False)),
    (pa.float64(), (0.5, 1.0)),
)
_ONLY = {"duration": ["sum"], "uint64": ["mean"]}  # sums of its numbers are beyond 64 bits
_NUMBERS = frozenset(("int64", "int8", "uint32", "float64", "strange", "float32", "bool"))


class Case(NamedTuple):
    labels: pa.Table
    sources: list[Source]
    plain_labels: list[Row]
    plain_views: list[tuple[View, list[Row]]]


def made(random_: random.Random, *, labels: int = 40, rows: int = 60) -> Case:
    keys = random_.sample(_KEYS, random_.choice((1, 1, 1, 2, 3)))
    key_columns = {f"key{number}": kind for number, kind in enumerate(keys)}
    steps = random_.choice((3, 10, 1000))
    plain_labels = [
        {name: _or_none(random_, values) for name, (_, values) in key_columns.items()}
        | {"t": _moment(random_, steps), "id": number}
        for number in range(random_.randint(0, labels))
    ]
    schema = pa.schema([*((name, kind) for name, (kind, _) in key_columns.items()), ("t", MOMENT), ("id", pa.int64())])
    views = [_view(random_, number, list(key_columns), steps) for number in range(random_.choice((1, 1, 2, 3)))]
    plain_views, sources = [], []
    for view in views:
        pieces, plain = _rows(random_, view, key_columns, steps, rows)
        plain_views.append((view, plain))
        sources.append(Source(view=view, pieces=tuple(pieces)))
    return Case(pa.Table.from_pylist(plain_labels, schema), sources, plain_labels, plain_views)


def _view(random_: random.Random, number: int, keys: list[str], steps: int) -> View:
    features = [Feature(name=f"v{number}rows", function="count", period=_period(random_, steps))]
    for kind in random_.sample(sorted(KINDS), 3):
        functions = ["last", "count", "distinct"]
        functions += ["min", "max"] if kind != "text" else []
        functions += ["sum", "mean"] if kind in _NUMBERS else _ONLY.get(kind, [])
        for function in functions:
            period: Any = _period(random_, steps)
            features.append(Feature(name=f"v{number}{kind}{function}", column=kind, function=function, period=period))  # type: ignore[arg-type]
    some = random_.sample(keys, random_.randint(1, len(keys)))
    return View(
        name=f"v{number}",
        keys=tuple(Key(column=f"of_{name}", label=name) for name in some),
        event="event",
        known=random_.choice(("known", "known", "")),
        features=tuple(features),
        time_to_live=_period(random_, steps),
    )


def _rows(
    random_: random.Random, view: View, keys: dict[str, tuple[pa.DataType, tuple[Any, ...]]], steps: int, most: int
) -> tuple[list[Piece], list[Row]]:
    used = {feature.column for feature in view.features}
    kinds = {f"of_{name}": kind for name, kind in keys.items()} | {name: kind for name, kind in KINDS.items() if name in used}
    schema = pa.schema([*((name, kind) for name, (kind, _) in kinds.items()), ("event", MOMENT), ("known", MOMENT)])
    pieces, plain = [], []
    for _ in range(random_.choice((1, 1, 2, 4))):
        ingested = _moment(random_, steps, never=0)
        some: list[Row] = []
        for _ in range(random_.randint(0, most)):
            row = {name: _or_none(random_, values) for name, (_, values) in kinds.items()}
            row["event"] = _moment(random_, steps)
            late = random_.choice((0, 0, -1, 1, 2, steps // 2))
            row["known"] = None if row["event"] is None or random_.random() < 0.03 else row["event"] + _step() * late
            row["__known"] = ingested
            some += [row] * random_.choice((1, 1, 1, 2))
        plain += some
        table = pa.Table.from_pylist([{name: row[name] for name in schema.names} for row in some], schema)
        pieces.append(Piece(rows=Held(table), known=None if view.known else microseconds(ingested)))
    return pieces, plain


def _period(random_: random.Random, steps: int) -> int | None:
    return random_.choice((None, 1, _step() // timedelta(microseconds=1) * random_.randint(1, steps)))


def _moment(random_: random.Random, steps: int, never: float = 0.05) -> Any:
    if random_.random() < never:
        return None
    return START + _step() * random_.randrange(steps) + timedelta(microseconds=random_.choice((0, 0, 0, 1, -1)))


def _step() -> timedelta:
    return timedelta(minutes=20)


def _or_none(random_: random.Random, values: tuple[Any, ...]) -> Any:
    return None if random_.random() < 0.08 else random_.choice(values)
