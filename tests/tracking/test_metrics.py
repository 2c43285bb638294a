"""Metrics: each point once, in whatever order and however often it comes; and what is read back is what was sent."""

import math
import random
import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from falaj.base.errors import Invalid, NotFound, TooLarge
from falaj.tracking import metrics as tracked
from falaj.tracking.operations import runs as declared
from falaj.tracking.operations.words import Metric
from falaj.tracking.store.metrics import metrics_of_models
from tests.tracking.room import Caller, Room, metric

STRANGE = [0.0, -1.5, 1e308, -1e308, 5e-324, math.inf, -math.inf, float(2**63), float(10**300), 0.1 + 0.2]


def same(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))


def test_a_point_that_is_sent_twice_counts_once(amal: Caller) -> None:
    run = amal.start()
    batch = [metric("loss", 1 / step, step=step, at=step) for step in range(1, 500)]
    for _ in range(2):
        amal.log(run, *batch)
    amal.log(run, batch[7], batch[7])
    assert amal.history(run, "loss") == [(one.step, one.timestamp, one.value) for one in batch]


def test_strange_numbers_come_back_as_they_went_in(amal: Caller) -> None:
    for value in (*STRANGE, math.nan):
        run = amal.start()
        amal.log(run, metric("a", value, step=-(2**62), at=2**62))
        amal.log(run, *(metric(key, value) for key in ("b", "c")))
        ((step, at, read),) = amal.history(run, "a")
        assert (step, at) == (-(2**62), 2**62)
        assert same(read, value)
        assert all(same(last, value) for last in amal.last(run).values())


def test_nan_and_zero_are_two_points(amal: Caller) -> None:
    run = amal.start()
    amal.log(run, metric("a", math.nan), metric("a", 0.0))
    amal.log(run, metric("a", math.nan))
    assert [math.isnan(value) for _, _, value in amal.history(run, "a")] == [False, True]


def test_the_greatest_step_time_and_value_is_the_last(amal: Caller) -> None:
    points = [metric("a", value, step=step, at=at) for step in (0, 1, 5) for at in (0, 9) for value in (-1.0, 2.0)]
    for seed in range(3):
        run = amal.start()
        random.Random(seed).shuffle(points)
        amal.log(run, *points[:5])
        for point in points[5:8]:
            amal.log(run, point)
        amal.log(run, *points[8:])
        (last,) = amal.show(run).metrics
        assert (last.step, last.timestamp, last.value) == (5, 9, 2.0)


def test_two_writers_on_one_run_lose_nothing(room: Room, amal: Caller) -> None:
    run, together, failures = amal.start(), threading.Barrier(4), []

    def write(writer: int) -> None:
        try:
            together.wait()
            for batch in range(10):
                steps = range(batch * 20, batch * 20 + 20)
                own = [metric(f"own {writer}", step, step=step) for step in steps]
                amal.log(run, *own, *(metric("shared", step, step=step) for step in steps), tags={f"t{batch}": str(writer)})
                amal.log(run, metric("shared", -1, step=batch), params={f"p{batch}": "same"})
        except Exception as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    for writer in range(4):
        assert [step for step, _, _ in amal.history(run, f"own {writer}")] == list(range(200))
    assert len(amal.history(run, "shared")) == 200 + 10
    assert amal.last(run)["shared"] == 199
    assert len(amal.params(run)) == 10


def test_of_two_who_log_a_param_differently_at_once_one_is_refused(room: Room, amal: Caller) -> None:
    run, together, refused = amal.start(), threading.Barrier(2), []

    def write(value: str) -> None:
        together.wait()
        try:
            amal.log(run, params=dict.fromkeys(("a", "b", "c"), value))
        except Invalid:
            refused.append(value)

    threads = [threading.Thread(target=write, args=(value,)) for value in ("1", "2")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 1
    (kept,) = {"1", "2"} - set(refused)
    assert amal.params(run) == dict.fromkeys("abc", kept)


def test_a_history_is_read_in_pages_that_meet(amal: Caller) -> None:
    run = amal.start()
    values = [*STRANGE, math.nan, 7.0]
    amal.log(run, *(metric("a", value, step=step, at=at) for value in values for step in (-1, 0) for at in (3, 4)))
    whole = amal.history(run, "a")
    assert len(whole) == 4 * len(values)
    assert [(step, at) for step, at, _ in whole] == sorted((step, at) for step, at, _ in whole)
    for limit in (1, 5, 48):
        paged = amal.history(run, "a", limit=limit)
        assert all(one[:2] == other[:2] and same(one[2], other[2]) for one, other in zip(paged, whole, strict=True))
    assert amal.history(run, "unknown") == []


def test_a_cursor_of_something_else_is_refused(amal: Caller) -> None:
    run = amal.start()
    for cursor in ("x", "WzEsMiwibmFuIiwwXQ", "WzEsMiwiMHgxIiw3XQ", "WzEsMiwiemVybyIsMF0", "WzFd"):
        with pytest.raises(Invalid, match="start again without one"):
            amal.call(declared.READ_HISTORY, run=run, key="a", cursor=cursor)


def test_metrics_about_a_model_are_kept_for_it_and_for_the_run(room: Room, amal: Caller) -> None:
    run = amal.start()
    model = amal.new_model(run=run)
    for _ in range(2):
        amal.log(
            run, metric("auc", 0.9, step=2), metric("loss", math.nan), model=model, dataset_name="iris", dataset_digest="d1"
        )
    amal.log(run, metric("auc", 0.8), model=model)
    found = amal.read(lambda work: metrics_of_models(work, amal.facts.id, [model]))
    assert [(one.name, one.run, one.dataset_name, one.dataset_digest, one.step, bool(one.nan)) for one in found] == [
        ("auc", run, "", "", 0, False),
        ("auc", run, "iris", "d1", 2, False),
        ("loss", run, "iris", "d1", 0, True),
    ]
    assert amal.last(run)["auc"] == 0.9
    assert amal.read(lambda work: metrics_of_models(work, room.caller("beta").facts.id, [model])) == []


def test_a_model_of_another_project_gets_no_metrics(room: Room, amal: Caller) -> None:
    model, badr = amal.new_model(), room.caller("beta")
    run = badr.start()
    with pytest.raises(NotFound, match="no logged model"):
        badr.log(run, metric("auc", 1), model=model)
    assert badr.last(run) == {}


def curves(amal: Caller, runs: list[str], keys: list[str], **fields: object) -> list[declared.Curve]:
    return list(amal.call(declared.READ_CURVES, runs=tuple(runs), keys=tuple(keys), **fields).items)


def test_curves_of_several_runs_are_read_together(amal: Caller) -> None:
    first, second, third = amal.start(), amal.start(), amal.start()
    for run, count in ((first, 3000), (second, 5)):
        for start in range(0, count, 1000):
            steps = range(start, min(count, start + 1000))
            amal.log(run, *(metric("a", math.sin(step), step=step, at=step + 7) for step in steps))
    amal.log(second, metric("b", math.nan, step=4))
    found = curves(amal, [second, first, third], ["b", "a", "none"], points=100)
    assert [(one.run, one.key, one.total) for one in found] == [(second, "b", 1), (second, "a", 5), (first, "a", 3000)]
    assert math.isnan(found[0].values[0])
    assert found[1].steps == (0, 1, 2, 3, 4)
    assert found[1].timestamps == (7, 8, 9, 10, 11)
    thin = found[2]
    assert 50 < len(thin.steps) <= 100
    assert (thin.steps[0], thin.steps[-1]) == (0, 2999)
    assert thin.steps == tuple(sorted(thin.steps))
    assert max(thin.values) == max(math.sin(step) for step in range(3000))
    part = curves(amal, [first], ["a"], first_step=100, last_step=199)
    assert part[0].steps == tuple(range(100, 200))


def test_too_many_points_are_refused_before_they_are_read(amal: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    run = amal.start()
    amal.log(run, *(metric("a", step, step=step) for step in range(50)))
    monkeypatch.setattr(tracked, "MOST_POINTS_READ", 49)
    with pytest.raises(TooLarge, match="50 points"):
        curves(amal, [run], ["a"])
    assert len(curves(amal, [run], ["a"], last_step=10)[0].steps) == 11


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25, deadline=None)
@given(
    batches=st.lists(
        st.lists(
            st.builds(
                metric,
                st.sampled_from("ab"),
                st.floats() | st.just(0.0),
                st.integers(-2, 2) | st.just(2**62),
                st.integers(0, 2),
            ),
            max_size=12,
        ),
        max_size=4,
    )
)
def test_whatever_comes_in_whatever_batches_is_read_back_as_a_set(amal: Caller, batches: list[list[Metric]]) -> None:
    run = amal.start()
    for batch in batches:
        amal.log(run, *batch)

    def point(one: Metric) -> tuple[int, int, float, bool]:
        nan = math.isnan(one.value)
        return (one.step, one.timestamp, 0.0 if nan else one.value, nan)

    for key in "ab":
        sent = {point(one) for batch in batches for one in batch if one.key == key}
        read = [
            (step, at, 0.0 if math.isnan(value) else value, math.isnan(value)) for step, at, value in amal.history(run, key)
        ]
        assert read == sorted(sent)
        last = [one for one in amal.show(run).metrics if one.key == key]
        assert [point(one)[:3] for one in last] == ([max(sent)[:3]] if sent else [])
