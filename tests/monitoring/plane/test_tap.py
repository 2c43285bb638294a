"""What a tap counts of a revision: every row once, in its window, whatever the rows hold and however they come in batches."""

import json
import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from falaj.base.clock import SECOND, Moment
from falaj.monitoring.plane.tap import WatchTap, watch_tap
from falaj.runtimes.engine import TensorSpec
from falaj.serving.operations.planes import WatchReport
from falaj.serving.plane.core.models import Shape
from falaj.serving.plane.core.taps import Seen
from falaj.serving.plane.windows import Windows
from falaj.serving.states import Arm, Endpoint, Revision, State, Watch, WatchedColumn
from falaj.tables.short_texts import shortened
from falaj.tables.window_sketches import joined

ENDPOINT = "2" * 32
NOON = 1_800_000_000 * SECOND
AGE = WatchedColumn(name="age", edges=(0.0, 10.0, 20.0))
CITY = WatchedColumn(name="city", kinds=("Berlin", "Oman", shortened("x" * 100)))
Y = WatchedColumn(name="y", edges=(0.5,))


class Hand:
    """A clock that is set."""

    def __init__(self) -> None:
        self.at = NOON

    def now(self) -> Moment:
        return Moment(self.at)


def spec(name: str, *tail: int, datatype: str = "FP32") -> TensorSpec:
    return TensorSpec(name=name, datatype=datatype, shape=(-1, *tail))


SHAPE = Shape(
    platform="onnx",
    inputs=(spec("age", 1), spec("city", 1, datatype="BYTES")),
    outputs=(spec("y", 1),),
    columns=("age", "city"),
)


class Watching:
    """A tap that watches one revision by this plan."""

    def __init__(self, watch: Watch | None, shape: Shape = SHAPE, **endpoint) -> None:
        self.clock, self.shape = Hand(), shape
        self.tap = WatchTap(self.clock, np.random.default_rng(7))
        self.adopt(watch, **endpoint)

    def adopt(self, watch: Watch | None, **more) -> None:
        revision = Revision(
            id="4" * 32, number=1, model="m", version=1, runtime="onnx", file="f", files=(), columns=(), watch=watch
        )
        arms = (Arm(revision=1, share=10_000),)
        endpoint = Endpoint(id=ENDPOINT, project="3" * 32, project_name="p", name="e", arms=arms, revisions=(revision,), **more)
        self.tap.adopt(
            State(format=1, serial=1, issued=0, issuer="i", zone="z", endpoints=(endpoint,), token_keys={}, revoked=())
        )

    def see(self, inputs, outputs) -> None:
        rows = len(outputs[0]) if self.shape.batches else 1
        self.tap.see(Seen(ENDPOINT, 1, inputs, outputs, rows, self.shape))

    def people(self, ages, cities=None, ys=None) -> None:
        """Rows of `SHAPE`."""
        count = len(ages)
        text = np.array([[one.encode()] for one in (cities or ["Oman"] * count)], object).reshape(count, 1)
        answers = np.array(ys if ys is not None else [0.0] * count, np.float32).reshape(count, 1)
        self.see([np.array(ages, np.float32).reshape(count, 1), text], [answers])

    def later(self, seconds: float) -> None:
        self.clock.at += int(seconds * SECOND)
        self.tap.wake()

    def told(self) -> list[WatchReport]:
        return list(self.tap.take())

    def ended(self) -> list[WatchReport]:
        self.tap.close()
        return self.told()


def plan(**more) -> Watch:
    return Watch(**({"key": "k", "seconds": 60, "columns": (AGE, CITY), "outputs": (Y,)} | more))


def counts(report: WatchReport) -> dict[str, tuple[int, ...]]:
    return {one.name: one.counts for one in report.columns}


def test_numbers_lie_in_the_bin_of_as_many_edges_as_are_below_them_and_what_is_none_is_missing():
    watching = Watching(plan())
    ages = [-math.inf, -1, 0, 0.1, 10, 10.5, 20, 20.1, 1e38, math.inf, math.nan, math.nan]
    watching.people(ages, ys=[0.5, 0.6] * 6)
    (report,) = watching.ended()
    age = report.columns[0]
    assert age.counts == (3, 2, 2, 3, 2)
    assert [np.searchsorted(AGE.edges, ages[:-2], side="left").tolist().count(place) for place in range(4)] == [3, 2, 2, 3]
    assert (age.finite, report.columns[2].counts) == (8, (6, 6, 0))
    assert age.total == pytest.approx(1e38)
    assert (report.endpoint, report.revision, report.plan, report.at, report.seconds) == (ENDPOINT, 1, "k", NOON, 60)
    assert (report.rows, report.missed) == (12, 0)
    assert [(one.name, one.output) for one in report.columns] == [("age", False), ("city", False), ("y", True)]


def test_kinds_are_counted_in_their_order_then_new_ones_and_then_what_is_missing():
    watching = Watching(plan())
    watching.people([1] * 8, ["Oman", "Berlin", "Atlantis", "", "oman", "x" * 100, "x" * 90 + "y", "Oman"])
    (report,) = watching.ended()
    assert counts(report)["city"] == (1, 2, 1, 3, 1)


def test_columns_that_are_not_there_are_missing_in_every_row():
    watching = Watching(plan(columns=(AGE, WatchedColumn(name="gone", edges=(1.0,)), WatchedColumn(name="lost", kinds=("a",)))))
    watching.people([1, 2, 3])
    (report,) = watching.ended()
    assert (counts(report)["gone"], counts(report)["lost"]) == ((0, 0, 3), (0, 0, 3))


def test_a_window_in_which_all_is_missing_has_counts_and_no_sums():
    watching = Watching(plan())
    watching.people([math.nan] * 5, [""] * 5, [math.nan] * 5)
    (report,) = watching.ended()
    assert counts(report) == {"age": (0, 0, 0, 0, 5), "city": (0, 0, 0, 0, 5), "y": (0, 0, 5)}
    assert all((one.finite, one.total, one.squares) == (0, 0.0, 0.0) for one in report.columns)


def test_numbers_by_kinds_and_texts_by_edges_are_counted_as_what_they_stand_for():
    columns = (WatchedColumn(name="age", kinds=("3", "2.5")), WatchedColumn(name="city", edges=(1.0,)))
    watching = Watching(plan(columns=columns))
    watching.people([3, 2.5, 7, math.nan], ["0.5", "1e3", "Oman", ""])
    (report,) = watching.ended()
    assert (counts(report)["age"], counts(report)["city"]) == ((1, 1, 1, 1), (1, 1, 2))


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_any_split_into_batches_and_any_moment_of_telling_gives_the_same_counts(data):
    numbers = st.one_of(st.floats(width=32), st.sampled_from([0.0, 10.0, 20.0, math.nan, math.inf]))
    rows = data.draw(st.lists(st.tuples(numbers, st.sampled_from(["Oman", "Berlin", "", "new"])), min_size=1, max_size=60))
    whole, split, held = Watching(plan()), Watching(plan()), Windows()
    whole.people([age for age, _ in rows], [city for _, city in rows])
    start = 0
    while start < len(rows):
        stop = start + data.draw(st.integers(1, 10))
        split.people([age for age, _ in rows[start:stop]], [city for _, city in rows[start:stop]])
        start = stop
        if data.draw(st.booleans()):
            split.later(5.5 if split.clock.at < NOON + 50 * SECOND else 0)
            held.add(split.told())
    held.add(split.ended())
    (one,), (other,) = whole.ended(), held.take()
    assert (one.rows, counts(one), one.at) == (other.rows, counts(other), other.at)
    assert [column.finite for column in one.columns] == [column.finite for column in other.columns]


def test_counts_are_told_within_five_seconds_and_only_once():
    watching = Watching(plan(sample=10))
    watching.people([1, 2])
    watching.later(4)
    assert watching.told() == []
    watching.later(1.1)
    (first,) = watching.told()
    assert (first.rows, first.sampled, counts(first)["age"]) == (2, (), (0, 2, 0, 0, 0))
    watching.later(6)
    assert watching.told() == []
    watching.people([15])
    (second,) = watching.ended()
    assert (second.rows, counts(second)["age"], len(second.sampled)) == (1, (0, 0, 1, 0, 0), 3)


def test_a_window_is_told_when_it_is_over_also_if_nobody_asks_any_more():
    watching = Watching(plan())
    watching.people([1])
    watching.clock.at += 59 * SECOND
    watching.people([2])
    watching.clock.at += SECOND
    watching.people([3])
    watching.later(60)
    first, second = watching.told()
    assert [(one.rows, one.at) for one in (first, second)] == [(2, NOON), (1, NOON + 60 * SECOND)]
    watching.later(600)
    assert watching.told() == []


def test_what_was_seen_by_a_plan_is_told_by_it_when_another_comes_and_when_there_is_none():
    watching = Watching(plan())
    watching.people([1])
    watching.adopt(plan())  # the same again
    watching.people([2])
    watching.adopt(plan(key="new", columns=(WatchedColumn(name="age", edges=(1.5,)),)))
    watching.people([1, 2, 3])
    watching.adopt(None)
    watching.people([1])
    first, second = watching.ended()
    assert (first.plan, first.rows, counts(first)["age"]) == ("k", 2, (0, 2, 0, 0, 0))
    assert (second.plan, second.rows, counts(second)["age"]) == ("new", 3, (1, 2, 0))


def test_rows_that_were_missed_are_told_and_those_of_others_are_nobodys():
    watching = Watching(plan())
    watching.tap.miss(ENDPOINT, 1, 40)
    watching.tap.miss(ENDPOINT, 2, 50)
    watching.people([1])
    (report,) = watching.ended()
    assert (report.rows, report.missed) == (1, 40)


def test_what_is_watched_without_a_plan_is_learnt_by_sketches():
    watching = Watching(plan(columns=(), outputs=()))
    for turn in range(10):
        watching.people([turn * 100 + number for number in range(100)], ["Oman", "Berlin"] * 50, [0.25] * 100)
    watching.later(6)
    assert watching.told()[0].sketches == ()
    (report,) = watching.ended()
    assert {(one.name, one.output) for one in report.sketches} == {("age", False), ("city", False), ("y", True)}
    found = {one.name: joined([one.sketch]) for one in report.sketches}
    assert found["age"].quantiles([0, 0.5, 1]) == pytest.approx([0, 500, 999], abs=30)
    assert found["city"].top(5) == [("Berlin", 500), ("Oman", 500)]
    assert found["y"].distinct() == 1
    assert counts(report) == {"age": (), "city": (), "y": ()}


def test_some_columns_are_counted_while_others_are_learnt():
    watching = Watching(plan(columns=(AGE, WatchedColumn(name="city"))))
    watching.people([1, 2])
    (report,) = watching.ended()
    assert (counts(report), [one.name for one in report.sketches]) == (
        {"age": (0, 2, 0, 0, 0), "city": (), "y": (2, 0, 0)},
        ["city"],
    )


def test_the_sample_is_uniform_over_the_window_and_its_rows_are_in_the_order_of_the_columns():
    shares = []
    for seed in range(60):
        watching = Watching(plan(sample=20))
        watching.tap._random = np.random.default_rng(seed)
        watching.adopt(plan(key=str(seed), sample=20))
        for start in range(0, 3000, 100):
            watching.people(range(start, start + 100), ys=range(start, start + 100))
        (report,) = watching.ended()
        rows = [json.loads(one.row) for one in report.sampled]
        assert len(rows) == 20
        assert all(city == "Oman" and age == y for age, city, y in rows)
        draws = [one.draw for one in report.sampled]
        assert draws == sorted(draws)
        assert max(draws) < 0.02
        shares += [age / 3000 for age, _, _ in rows]
    assert np.mean(shares) == pytest.approx(0.5, abs=0.03)
    assert np.std(shares) == pytest.approx(math.sqrt(1 / 12), abs=0.02)


def test_what_is_masked_is_counted_but_neither_sketched_nor_sampled():
    watching = Watching(plan(columns=(), sample=5), masked=("city",))
    watching.people([1, 2], ["secret", "secret"])
    (report,) = watching.ended()
    assert [one.name for one in report.columns] == ["age", "y"]
    assert "secret" not in repr(report)
    watching = Watching(plan(sample=5), masked=("city", "y"))
    watching.people([1], ["secret"])
    (report,) = watching.ended()
    assert counts(report)["city"] == (0, 0, 0, 1, 0)
    assert json.loads(report.sampled[0].row) == [1.0, None, None]


def test_a_masked_name_that_is_nowhere_may_be_any_nameless_column():
    shape = Shape(platform="onnx", inputs=(spec("x", 3),), outputs=(spec("y", 1),), columns=())
    watching = Watching(plan(columns=(), outputs=(), sample=5), shape, masked=("salary",))
    watching.see([np.ones((2, 3), np.float32)], [np.ones((2, 1), np.float32)])
    (report,) = watching.ended()
    assert [one.name for one in report.columns] == ["y"]


def test_columns_are_called_as_the_model_says_and_by_their_place_where_it_does_not():
    shape = Shape(platform="onnx", inputs=(spec("x", 2),), outputs=(spec("y", 2),), columns=("a", "b"))
    watching = Watching(plan(columns=(), outputs=()), shape)
    watching.see([np.ones((2, 2), np.float32)], [np.full((2, 2), 3.0, np.float32)])
    (report,) = watching.ended()
    assert [one.name for one in report.columns] == ["a", "b", "y[0]", "y[1]"]


def test_confidence_and_class_are_told_of_answers_that_look_like_probabilities():
    shape = Shape(platform="onnx", inputs=(spec("x", 1),), outputs=(spec("p", 3), spec("label", datatype="INT64")), columns=())
    outputs = (
        WatchedColumn(name="confidence", edges=(0.6,)),
        WatchedColumn(name="class", kinds=("0", "2")),
        WatchedColumn(name="label", edges=(0.5,)),
    )
    watching = Watching(plan(columns=(), outputs=outputs), shape)
    scores = np.array([[0.7, 0.2, 0.1], [0.1, 0.4, 0.5], [0.3, 0.4, 0.3], [np.nan, 0.1, 0.2]], np.float32)
    watching.see([np.ones((4, 1), np.float32)], [scores, np.array([0, 2, 1, 1])])
    (report,) = watching.ended()
    found = counts(report)
    assert (found["confidence"], found["class"], found["label"]) == ((2, 1, 1), (1, 1, 1, 1), (1, 3, 0))


def test_images_are_watched_by_what_each_is_like_on_the_whole():
    shape = Shape(platform="onnx", inputs=(spec("image", 3, 4, 5, datatype="UINT8"),), outputs=(spec("wide", 501),), columns=())
    watching = Watching(plan(columns=(), outputs=()), shape)
    images = np.random.default_rng(1).integers(0, 255, (6, 3, 4, 5)).astype(np.uint8)
    watching.see([images], [np.zeros((6, 501), np.float32)])
    (report,) = watching.ended()
    names = [f"{name} {measure}" for name in ("image", "wide") for measure in ("mean", "deviation", "least", "most")]
    assert [one.name for one in report.columns] == names
    flat = images.reshape(6, -1).astype(float)
    for one, wanted in zip(report.columns, (flat.mean(1), flat.std(1), flat.min(1), flat.max(1)), strict=False):
        assert one.total == pytest.approx(wanted.sum())


def test_a_model_that_takes_one_row_at_a_time_is_watched_too():
    shape = Shape(platform="onnx", inputs=(spec("x"),), outputs=(spec("y"),), columns=(), batches=False)
    watching = Watching(plan(columns=(WatchedColumn(name="x[1]", edges=(5.0,)),), outputs=()), shape)
    for number in (1, 5, 9):
        watching.see([np.array([0, number], np.float32)], [np.array([number], np.float32)])
    (report,) = watching.ended()
    assert (report.rows, counts(report)["x[1]"]) == (3, (2, 1, 0))


def test_rows_of_several_widths_are_counted_each_as_what_it_is():
    shape = Shape(platform="onnx", inputs=(spec("x", -1),), outputs=(spec("y", 1),), columns=())
    watching = Watching(plan(columns=(WatchedColumn(name="x[2]", edges=(5.0,)),), outputs=()), shape)
    for width in (3, 2, 3, 900):
        watching.see([np.ones((2, width), np.float32)], [np.ones((2, 1), np.float32)])
    (report,) = watching.ended()
    assert (report.rows, counts(report)["x[2]"]) == (8, (4, 0, 4))


def test_huge_numbers_make_no_sum_infinite():
    shape = Shape(platform="onnx", inputs=(spec("x", 1, datatype="FP64"),), outputs=(spec("y", 1),), columns=())
    watching = Watching(plan(columns=(WatchedColumn(name="x", edges=(0.0,)),)), shape)
    watching.see([np.array([[1e308], [-1e308], [2.0]])], [np.zeros((3, 1), np.float32)])
    (report,) = watching.ended()
    assert report.columns[0].counts == (1, 2, 0)
    assert (report.columns[0].finite, report.columns[0].total, report.columns[0].squares) == (1, 2.0, 4.0)


def test_answers_that_nobody_can_read_are_missed_and_end_nothing():
    watching = Watching(plan())
    watching.see([np.ones((2, 1), np.float32)], [np.ones((2, 1), np.float32)])  # an input too few
    watching.people([1])
    (report,) = watching.ended()
    assert (report.rows, report.missed, sum(report.columns[0].counts)) == (1, 2, 1)


def test_no_more_columns_are_learnt_than_there_is_room_for():
    shape = Shape(
        platform="onnx",
        inputs=tuple(spec(f"x{number}", 400) for number in range(3)),
        outputs=(spec("y", 1),),
        columns=(),
    )
    watching = Watching(plan(columns=(), outputs=()), shape)
    watching.see([np.ones((2, 400), np.float32)] * 3, [np.ones((2, 1), np.float32)])
    (report,) = watching.ended()
    assert len(report.columns) == len(report.sketches) == 501


def test_memory_does_not_grow_with_traffic():
    watching = Watching(plan(seconds=86_400, columns=(), outputs=(), sample=50))
    random = np.random.default_rng(3)

    def traffic(rows: int) -> None:
        for _ in range(rows // 1000):
            watching.people(random.normal(size=1000), [str(number) for number in random.integers(0, 10**9, 1000)])
            watching.later(0.01)
            watching.told()

    traffic(20_000)
    tracemalloc.start()
    try:
        traffic(20_000)
        first, _ = tracemalloc.get_traced_memory()
        traffic(60_000)
        second, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert second - first < 200_000


def test_a_plane_makes_it_with_a_folder_and_nothing_else(tmp_path):
    tap = watch_tap(tmp_path)
    assert tap.take() == []
    assert list(tmp_path.iterdir()) == []
