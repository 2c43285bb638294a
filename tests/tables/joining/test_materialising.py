"""What is materialised at a moment has the bits of a training set of that moment."""

import random
from datetime import timedelta

import pyarrow as pa

from falaj.base.errors import Invalid
from falaj.tables.joining.materialising import materialised
from falaj.tables.joining.rows import Held, Piece
from falaj.tables.joining.training_sets import Source, training_set
from falaj.tables.joining.views import Feature, Key, View
from falaj.tables.moments import MOMENT
from tests.tables.joining.cases import START, made
from tests.tables.joining.oracle import bits, microseconds


def rows_of(tables: list[pa.Table]) -> list[list[object]]:
    return [[bits(value) for value in row.values()] for table in tables for row in table.to_pylist()]


def test_values_have_the_same_bits_as_in_a_training_set() -> None:
    compared = 0
    for seed in range(60):
        case, at = made(random.Random(seed)), START + timedelta(minutes=40 + seed)
        for source in case.sources:
            try:
                tables = list(materialised(source, at=microseconds(at)))
            except Invalid:  # a sum beyond 64 bits
                continue
            names = [key.in_labels for key in source.view.keys]
            keys = pa.concat_tables(tables).select([key.column for key in source.view.keys]).rename_columns(names)
            shuffled = keys.take(random.Random(seed).sample(range(len(keys)), len(keys))) if len(keys) else keys
            labels = shuffled.append_column("t", pa.array([at] * len(keys), MOMENT))
            once = [table.drop_columns(["t"]) for table in training_set(labels, time="t", sources=[source])]
            assert sorted(map(repr, rows_of(once))) == sorted(map(repr, rows_of(tables)))
            compared += len(keys)
    assert compared > 300


def test_the_order_of_rows_and_their_parts_change_no_sum() -> None:
    random_ = random.Random(5)
    rows = [
        {"key": number % 7, "at": START, "value": random_.uniform(-1, 1) * 10 ** random_.randint(-9, 9)}
        for number in range(700)
    ]
    features = tuple(Feature(name=word, column="value", function=word) for word in ("sum", "mean", "min", "max", "distinct"))
    view = View(name="v", keys=(Key(column="key"),), event="at", known="at", features=features)
    schema = pa.schema([("key", pa.int64()), ("at", MOMENT), ("value", pa.float64())])

    def found(rows: list[dict[str, object]], parts: int) -> list[str]:
        pieces = [Piece(rows=Held(pa.Table.from_pylist(rows[number::parts], schema))) for number in range(parts)]
        tables = list(materialised(Source(view=view, pieces=tuple(pieces)), at=microseconds(START)))
        return sorted(map(repr, rows_of(tables)))

    assert len(found(rows, 1)) == 7
    assert found(rows, 1) == found(rows[::-1], 3) == found(sorted(rows, key=lambda row: row["value"]), 5)


def test_every_entity_has_one_row_even_one_of_which_nothing_is_known_yet() -> None:
    table = pa.table(
        {
            "key": ["a", "b", "a", None],
            "at": pa.array([START, START + timedelta(days=1), START, START], MOMENT),
            "at_": [1, 2, 3, 4],
        }
    )
    view = View(
        name="v",
        keys=(Key(column="key", label="who"),),
        event="at",
        known="at",
        features=(Feature(name="at", column="at_"), Feature(name="event", column="at")),
    )
    [found] = materialised(Source(view=view, pieces=(Piece(rows=Held(table)),)), at=microseconds(START))
    assert found.to_pylist() == [{"key": "a", "at": 3, "event": START}, {"key": "b", "at": None, "event": None}]
