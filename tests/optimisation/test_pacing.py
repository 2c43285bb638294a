"""A slow model is asked about fewer rows, so that its search ends in time; never about fewer than its margins need."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from falaj.client.loaded_models import LoadedModel
from falaj.client.optimising import job
from falaj.client.optimising.job import Optimising
from falaj.client.optimising.pacing import Pace, afforded, pace_of
from falaj.client.optimising.rows import Parts, Rows
from falaj.client.optimising.workshop import Outcome
from falaj.optimisation.judging import fewest_rows, harder, surer
from falaj.optimisation.operations.optimisations import Limits, Optimisation
from falaj.optimisation.operations.variants import Variant
from falaj.runtimes.hosts import this_host
from tests.optimisation.making.models import conv, digits
from tests.optimisation.plans import made, plan


def rows(count: int, **slices: np.ndarray) -> Rows:
    return Rows(inputs=(np.arange(count)[:, None],), labels=None, slices=slices)


PARTS = Parts(training=rows(100_000), selection=rows(40_000), held_out=rows(60_000))


class Slow:
    """Each row takes so many seconds of a clock of its own, and so long the first time."""

    def __init__(self, row: float, first: float = 0.0) -> None:
        self.row, self.first, self.now, self.most = row, first, 0.0, 0

    def clock(self) -> float:
        return self.now

    def __call__(self, inputs: Sequence[Any]) -> None:
        self.now += self.row * len(inputs[0]) + self.first
        self.first, self.most = 0.0, max(self.most, len(inputs[0]))


@pytest.mark.parametrize(("row", "most"), [(0.000_01, 64), (0.125, 8), (5.0, 1)])
def test_a_look_at_how_fast_it_is_takes_a_few_seconds_at_most_and_leaves_the_first_call_out(row: float, most: int) -> None:
    model = Slow(row, first=30.0)
    assert pace_of(model, PARTS.training, 900, model.clock).row == pytest.approx(row)
    assert model.most == most
    assert model.now - 30 <= max(3.0, 5 * row) + 0.3


def test_a_fast_model_is_asked_about_all_rows() -> None:
    pace = Pace(row=0.000_5, within=900)
    assert afforded(PARTS, plan(), pace) == (PARTS, "")
    assert pace.read_on == 1000


def test_a_slow_model_goes_through_its_rows_in_a_twentieth_of_the_time() -> None:
    pace = Pace(row=0.02, within=900)
    fewer, told = afforded(PARTS, plan(), pace)
    assert (fewer.training.count, fewer.selection.count, fewer.held_out.count) == (100_000, 2250, 2250)
    assert len(np.unique(fewer.held_out.inputs[0])) == 2250
    assert 25_000 < fewer.held_out.inputs[0].mean() < 35_000  # from everywhere
    assert "takes about 20 ms for a row" in told
    assert "compared on 2,250 of 40,000 rows and judged on 2,250 of 60,000" in told
    assert told.endswith("takes it 5 % of the 900 seconds.")
    assert (afforded(PARTS, plan(), pace)[0].held_out.inputs[0] == fewer.held_out.inputs[0]).all()


def test_the_margins_get_the_rows_that_they_need_and_people_are_told() -> None:
    """To be judged, those of the third where two were refused before it; and of others, where there were others before."""
    needed = fewest_rows(0.005, surer(0.95, harder(2)))
    fewer, told = afforded(PARTS, plan(), Pace(row=1.0, within=900))
    assert (fewer.selection.count, fewer.held_out.count) == (fewest_rows(0.005, 0.95), needed)
    later, _ = afforded(PARTS, plan(refused_before=4, certify=1), Pace(row=1.0, within=900))
    assert later.held_out.count == fewest_rows(0.005, surer(0.95, harder(4)))
    assert told.endswith(f"takes it {needed / 9:.0f} % of the 900 seconds. Fewer could not show what the margins ask for.")


def test_so_does_each_slice_that_could_show_something_at_all() -> None:
    names = np.array(["c=usual"] * 59_000 + ["c=rare"] * 990 + ["c=hopeless"] * 10, dtype=object)
    parts = replace(PARTS, held_out=rows(60_000, c=names))
    fewer, _ = afforded(parts, plan(slices=("c",)), Pace(row=1.0, within=900))
    kept = dict(zip(*np.unique(fewer.held_out.slices["c"], return_counts=True), strict=True))
    assert kept["c=rare"] == fewest_rows(0.02, surer(0.95, 3 * harder(2)))
    assert fewer.held_out.count < 30_000


def test_a_later_try_takes_the_rows_that_the_first_one_told_of() -> None:
    fewer, _ = afforded(PARTS, plan(rows=(100_000, 900, 1200)), Pace(row=0.000_5, within=900))
    first, _ = afforded(PARTS, plan(limits=Limits(max_drop=0.2)), Pace(row=0.05, within=480))
    assert (fewer.selection.count, fewer.held_out.count) == (900, 1200)
    assert set(first.held_out.inputs[0].ravel()) < set(fewer.held_out.inputs[0].ravel())


# In the program of the job


class Platform:
    def __init__(self, found: Optimisation) -> None:
        self.found, self.judged = found, list[str]()

    def shown(self) -> Optimisation:
        return self.found

    def contents(self, files: Any, **_: Any) -> dict[str, bytes]:
        return dict(conv().files)


def test_the_original_is_not_asked_about_more_rows_than_there_is_time_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that takes a third of a second for a picture, in a search of ten minutes."""
    learnt, others, truth = digits()
    model = Slow(1 / 3)

    class Loaded(LoadedModel):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            run = self.engine.run

            def slowly(arrays: Any) -> Any:
                model(arrays)
                return run(arrays)

            self.engine.run = slowly

    pictures = Rows(inputs=learnt.inputs, labels=learnt.truth, slices={})
    apart = Rows(inputs=others.inputs, labels=truth, slices={})
    monkeypatch.setattr(job, "LoadedModel", Loaded)
    monkeypatch.setattr(Optimising, "_parts", lambda *_: Parts(training=pictures, selection=apart, held_out=apart))
    asked = plan(seconds=600, file="model.onnx", limits=Limits(max_drop=0.07))
    search = Optimising(Platform(asked), model.clock)  # type: ignore[arg-type]
    subject = search._subject(asked)
    assert subject.training.rows == learnt.rows
    assert subject.selection.rows == subject.held_out.rows == len(subject.on_held_out[0]) == 90
    assert subject.parts.held_out.count == 90
    assert model.now < 0.05 * 600 + 5
    assert "judged on 90 of 897" in search._remarks[0]


def test_what_can_only_be_worse_is_dropped_with_the_reason_and_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = {"a": ("prune:0.3", "int8"), "b": ("prune:0.5", "int8"), "c": ("fold",)}
    candidates = tuple(replace(one, state="planned", steps=steps[one.name]) for one in made(*steps))
    asked, dropped = [], dict[str, str]()

    class Workshop:
        def make(self, names: tuple[str, ...], *_: Any) -> Outcome:
            asked.append(names)
            return Outcome(made=conv(), drop=0.9)

    class Told(Platform):
        def begin(self, variant: str) -> bool:
            return True

        def drop(self, variant: str, reason: str, **_: Any) -> None:
            dropped[variant] = reason

        def progress(self, share: float) -> None:
            pass

    planned = plan(variants=candidates)
    reading: Any = type("Reading", (), {"task": "classes"})
    subject: Any = type("Subject", (), {"selection": digits()[1], "reading": reading})
    search = Optimising(Told(planned), Slow(0).clock)  # type: ignore[arg-type]
    search._make_all(planned, subject, this_host(), Workshop())  # type: ignore[arg-type]
    assert asked == [("prune:0.3", "int8"), ("fold",)]
    assert dropped["b"] == "It can only be worse than a, which was given up."
    assert dropped["a"].startswith("It is worse by 90.00 %")


@pytest.mark.parametrize(("now", "judged"), [(10, ["a", "b", "c"]), (901, ["a"])])
def test_once_time_is_over_one_variant_is_judged_and_no_more(
    monkeypatch: pytest.MonkeyPatch, now: int, judged: list[str]
) -> None:
    """Though it was refused, and others were made."""
    search = Optimising(Platform(plan(variants=made("a", "b", "c"))), Slow(0).clock)  # type: ignore[arg-type]
    seen = []

    def refused(search: Optimising, plan: Any, subject: Any, variant: Variant, *_: Any) -> Variant:
        seen.append(variant.name)
        return replace(variant, state="refused")

    monkeypatch.setattr(Optimising, "_judged", refused)
    monkeypatch.setattr(job, "Comparison", lambda *_: None)
    search._earlier = now
    learnt, _, _ = digits()
    subject: Any = type("Subject", (), {"reading": None, "on_held_out": None, "held_out": learnt})
    assert search._certify(plan(), subject, dict.fromkeys("abc", conv())) == 0
    assert seen == judged
