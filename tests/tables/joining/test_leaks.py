"""What was not yet known never reaches a label, and the edges of time."""

import math
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest

from falaj.base.errors import Invalid
from falaj.tables.arrow_schemas import from_arrow
from falaj.tables.errors import Altered
from falaj.tables.joining.rows import Held, Piece
from falaj.tables.joining.training_sets import Source, training_set
from falaj.tables.joining.views import Feature, Key, View
from falaj.tables.moments import MOMENT, assumed
from falaj.tables.parts import PartReader, PartWriter
from tests.tables.joining.oracle import microseconds

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = 3_600_000_000


def view(*features: Feature, known: str = "known", live: int | None = None) -> View:
    return View(name="v", keys=(Key(column="who"),), event="event", known=known, features=features, time_to_live=live)


def rows(*given: tuple[str | None, Any, Any, Any]) -> pa.Table:
    names = ("who", "event", "known", "value")
    kinds = (pa.string(), MOMENT, MOMENT, pa.float64())
    return pa.table({name: pa.array([row[at] for row in given], kinds[at]) for at, name in enumerate(names)})


def labels(*given: tuple[str | None, Any]) -> pa.Table:
    return pa.table({"who": pa.array([who for who, _ in given], pa.string()), "t": pa.array([at for _, at in given], MOMENT)})


def joined(some: pa.Table, one: View, *tables: pa.Table, known: int | None = None) -> pa.Table:
    pieces = tuple(Piece(rows=Held(table), known=known) for table in tables)
    return pa.concat_tables(training_set(some, time="t", sources=[Source(view=one, pieces=pieces)]))


def at(hours: float) -> datetime:
    return NOON + timedelta(hours=hours)


LAST = Feature(name="last", column="value")
SUM = Feature(name="sum", column="value", function="sum", period=24 * HOUR)


def test_a_late_backfill_does_not_leak_and_would_if_knowledge_were_ignored() -> None:
    given = rows(("a", at(-5), at(-5), 1.0), ("a", at(-1), at(+6), 1000.0))  # the second was told of seven hours later
    asked = labels(("a", at(0)), ("a", at(6)))
    honest = joined(asked, view(LAST, SUM), given)
    assert honest.column("last").to_pylist() == [1.0, 1000.0]
    assert honest.column("sum").to_pylist() == [1.0, 1001.0]
    careless = joined(asked, view(LAST, SUM, known="event"), given)
    assert careless.column("last").to_pylist() == [1000.0, 1000.0]
    assert careless.column("sum").to_pylist() == [1001.0, 1001.0]


def test_a_part_that_was_ingested_later_is_not_known_before() -> None:
    given = rows(("a", at(-2), None, 7.0))
    asked = labels(("a", at(-1)), ("a", at(0)), ("a", at(1)))
    found = joined(asked, view(LAST, known=""), given, known=microseconds(at(0)))
    assert found.column("last").to_pylist() == [None, 7.0, 7.0]


def test_a_correction_that_became_known_later_replaces_what_was_known_of_the_same_event() -> None:
    given = rows(("a", at(-3), at(+1), 2.0), ("a", at(-3), at(-3), 1.0), ("a", at(-3), at(+1), 3.0))
    found = joined(labels(("a", at(0)), ("a", at(1))), view(LAST), given)
    assert found.column("last").to_pylist() == [1.0, 3.0]


def test_an_older_event_that_becomes_known_later_changes_no_last_value() -> None:
    given = rows(("a", at(-2), at(-2), 2.0), ("a", at(-3), at(-1), 1.0))
    assert joined(labels(("a", at(0))), view(LAST), given).column("last").to_pylist() == [2.0]


def test_a_null_is_a_value_of_last_and_none_of_a_sum() -> None:
    given = rows(("a", at(-2), at(-2), 2.0), ("a", at(-1), at(-1), None))
    found = joined(labels(("a", at(0))), view(LAST, SUM), given)
    assert found.select(["last", "sum"]).to_pylist() == [{"last": None, "sum": 2.0}]


def test_what_is_as_old_as_the_time_to_live_is_gone() -> None:
    given = rows(("a", at(-2), at(-2), 2.0))
    asked = labels(("a", at(0)), ("a", at(0) - timedelta(microseconds=1)))
    found = joined(asked, view(LAST, SUM, live=2 * HOUR), given)
    assert found.select(["last", "sum"]).to_pylist() == [{"last": None, "sum": None}, {"last": 2.0, "sum": 2.0}]


def test_the_hour_that_clocks_show_twice_is_two_hours() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    twice = [datetime(2026, 10, 25, 2, 30, tzinfo=berlin, fold=fold) for fold in (0, 1)]
    given = rows(("a", twice[0], twice[0], 1.0), ("a", twice[1], twice[1], 2.0))
    asked = labels(
        ("a", datetime(2026, 10, 25, 2, 45, tzinfo=berlin, fold=0)), ("a", datetime(2026, 10, 25, 2, 45, tzinfo=berlin, fold=1))
    )
    window = Feature(name="hour", column="value", function="count", period=HOUR)
    found = joined(asked, view(LAST, window), given)
    assert found.column("last").to_pylist() == [1.0, 2.0]
    assert found.column("hour").to_pylist() == [1, 1]
    local = pa.chunked_array([assumed(pa.array([datetime(2026, 3, 29, 3, 0)], pa.timestamp("us")), "Europe/Berlin", name="t")])  # noqa: DTZ001
    leapt = labels(("a", None)).set_column(1, "t", local)
    spring = rows(*[("a", datetime(2026, 3, 29, hour, 30, tzinfo=UTC), NOON, 1.0) for hour in (0, 1)])
    assert joined(leapt, view(window), spring).column("hour").to_pylist() == [1]  # an hour after 01:59 is 03:59


def test_labels_of_other_zones_units_and_key_types_are_the_same_labels() -> None:
    given = rows(("a", at(-1), at(-1), 2.0))
    muscat = pa.array([at(0)], pa.timestamp("ms", "Asia/Muscat"))
    asked = pa.table({"who": pa.array(["a"]).dictionary_encode(), "t": muscat})
    found = joined(asked, view(LAST), given)
    assert found.column("last").to_pylist() == [2.0]
    assert found.schema.field("t").type == muscat.type


def test_the_first_and_the_last_of_all_moments_are_moments_too() -> None:
    ends = [-(2**63), 2**63 - 1]
    moments = pa.array(ends).cast(MOMENT)
    given = pa.table({"who": ["a", "a"], "event": moments, "known": moments, "value": [1.0, 2.0]})
    asked = pa.table({"who": ["a", "a", "b"], "t": pa.array([*ends, 0]).cast(MOMENT)})
    found = joined(asked, view(LAST, SUM, Feature(name="all", function="count")), given)
    assert found.column("last").to_pylist() == [1.0, 2.0, None]
    assert found.column("sum").to_pylist() == [1.0, 2.0, None]
    assert found.column("all").to_pylist() == [1, 2, 0]


@pytest.mark.parametrize("labelled", [0, 3])
@pytest.mark.parametrize("told", [0, 2])
def test_no_labels_and_no_rows_have_the_schema_of_many(labelled: int, told: int) -> None:
    functions = ("last", "count", "sum", "mean", "min", "max", "distinct")
    some: Any = [Feature(name=word, column="value", function=word) for word in functions]  # type: ignore[arg-type]
    found = joined(labels(*[("b", at(0))] * labelled), view(*some), rows(*[("a", at(0), at(0), 1.0)] * told))
    assert found.num_rows == labelled
    assert [str(field.type) for field in found.schema][2:] == [
        "double",
        "int64",
        "double",
        "double",
        "double",
        "double",
        "int64",
    ]
    assert found.select(["count", "distinct"]).to_pylist() == [{"count": 0, "distinct": 0}] * labelled


def test_sealed_parts_are_joined_as_they_lie_and_a_flipped_one_is_told(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    many = pa.table(
        {
            "who": pa.array([f"w{number}" for number in random.integers(0, 40, 60_000)]),
            "event": (event := pa.array(random.integers(0, 10**12, 60_000)).cast(MOMENT)),
            "known": event,
            "value": random.random(60_000),
        }
    )
    file = tmp_path / "part"
    with file.open("wb") as out, PartWriter(out, from_arrow(many.schema), key=b"k" * 32, object_id="one") as writer:
        for batch in many.to_batches(7_000):
            writer.write(batch)
    asked = labels(*[(f"w{number % 50}", datetime.fromtimestamp(number * 1000, UTC)) for number in range(1000)])
    one = view(LAST, SUM)

    def from_part() -> pa.Table:
        part = PartReader(file, key=b"k" * 32, object_id="one")
        return pa.concat_tables(training_set(asked, time="t", sources=[Source(view=one, pieces=(Piece(rows=part),))]))

    assert from_part().equals(joined(asked, one, many))
    assert from_part().column("last").null_count < 400
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(Altered, match="Part one is not what was sealed"):
        from_part()


@pytest.mark.parametrize(
    ("features", "said"),
    [
        ([Feature(name="x", column="other")], "needs a column 'other'"),
        ([Feature(name="t", column="value")], "more than one column called t"),
        ([Feature(name="x", column="value"), Feature(name="x", column="value")], "more than one feature called x"),
        ([Feature(name="x", column="who", function="sum")], "the sum of a column that holds text"),
        ([Feature(name="x", column="event", function="mean")], "the mean of a column that holds moment"),
        ([Feature(name="x", function="sum")], "the sum of no column"),
        ([Feature(name="x", column="value", period=0)], "longer than nothing"),
    ],
)
def test_features_that_cannot_be_are_refused_before_a_row_is_read(features: list[Feature], said: str) -> None:
    with pytest.raises(Invalid, match=said):
        joined(labels(("a", at(0))), view(*features), rows())


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (pa.table({"who": ["a"], "t": pa.array([NOON.replace(tzinfo=None)], pa.timestamp("us"))}), "times with their zone"),
        (pa.table({"who": ["a"], "t": pa.array([1], pa.timestamp("ns", "UTC"))}), "finer than a microsecond"),
        (pa.table({"who": [1], "t": pa.array([NOON], MOMENT)}), "is int64 in the labels and text"),
        (pa.table({"t": pa.array([NOON], MOMENT)}), "no column 'who'"),
        (pa.table({"who": ["a"], "at": pa.array([NOON], MOMENT)}), "no column 't'"),
    ],
)
def test_labels_that_cannot_be_joined_are_refused(asked: pa.Table, said: str) -> None:
    with pytest.raises(Invalid, match=said):
        joined(asked, view(LAST), rows(("a", at(0), at(0), 1.0)))


def test_a_key_that_is_not_a_number_is_equal_to_nothing_and_zeros_are_equal() -> None:
    floats = (0.0, -0.0, math.nan, 1.0)
    given = rows(*[("a", at(-1), at(-1), number) for number in floats[1:]]).set_column(0, "who", pa.array(floats[1:]))
    asked = labels(*[("a", at(0))] * 4).set_column(0, "who", pa.array(floats))
    found = joined(asked, view(Feature(name="rows", function="count")), given)
    assert found.column("rows").to_pylist() == [1, 1, 0, 1]


def test_columns_that_only_ever_were_null_match_nothing() -> None:
    nothing = pa.nulls(1)
    given, asked = rows(("a", at(-1), at(-1), 1.0)), labels(("a", at(0)))
    one = view(LAST, Feature(name="rows", function="count"))
    for place, name in enumerate(("who", "event", "known")):
        assert joined(asked, one, given.set_column(place, name, nothing)).column("rows").to_pylist() == [0]
    for place, name in enumerate(("who", "t")):
        assert joined(asked.set_column(place, name, nothing), one, given).column("rows").to_pylist() == [0]
    assert joined(asked, one, given.set_column(3, "value", nothing)).to_pylist()[0]["rows"] == 1


def test_a_sum_of_integers_beyond_64_bits_is_refused_by_name() -> None:
    given = rows(*[("a", at(-1), at(-1), 0.0)] * 3).set_column(3, "value", pa.array([2**62] * 3))
    with pytest.raises(Invalid, match="sum for total is beyond what an int64 holds"):
        joined(labels(("a", at(0))), view(Feature(name="total", column="value", function="sum")), given)
    mean = Feature(name="mean", column="value", function="mean")
    assert joined(labels(("a", at(0))), view(mean), given).column("mean").to_pylist() == [2.0**62]


def test_rows_of_which_nobody_says_when_they_became_known_are_refused() -> None:
    with pytest.raises(Invalid, match="does not say it either"):
        joined(labels(("a", at(0))), view(LAST, known=""), rows(("a", at(0), at(0), 1.0)))


def test_parts_with_narrower_columns_are_widened() -> None:
    narrow = rows(("a", at(-2), at(-2), 1.5)).set_column(3, "value", pa.array([2], pa.int8()))
    wide = rows(("b", at(-1), at(-1), 2.5))
    found = joined(labels(("a", at(0)), ("b", at(0))), view(LAST, SUM), narrow, wide)
    assert found.column("last").to_pylist() == [2.0, 2.5]
