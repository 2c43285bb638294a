"""Candidates are made in a process that may die: then one candidate is lost, and the next is made."""

import multiprocessing
import os
import signal
import threading
from dataclasses import replace

import numpy as np
import pytest

from falaj.base.errors import Invalid
from falaj.client.optimising.choosing import hope, hopeless, in_order, narrowed, no_better
from falaj.client.optimising.figures import measured
from falaj.client.optimising.naming import plainly_named
from falaj.client.optimising.rows import Rows, parted, sliced
from falaj.client.optimising.workshop import Order, Workshop
from falaj.optimisation.making.answers import read
from falaj.optimisation.making.candidates import Candidate, Planned
from falaj.optimisation.making.running import answers
from falaj.optimisation.making.values import CannotBeMade, Made
from falaj.optimisation.operations.optimisations import Limits
from tests.optimisation.making.models import conv, digits
from tests.optimisation.plans import made, plan
from tests.web.optimised import measures


@pytest.fixture(scope="module")
def workshop():
    learnt, compared, _ = digits()
    said = tuple(answers(conv(), compared))
    order = Order(
        model=conv(),
        reading=read(said, ["scores"], {}, compared.truth),
        calibration=learnt.part(0, 256),
        training=learnt,
        selection=compared,
        original=said,
        allowed=0.02,
        seed=1,
    )
    with Workshop(order) as made:
        yield made


def test_a_candidate_is_made_and_compared(workshop):
    found = workshop.make(("int8",), 60)
    assert found.made is not None, found.problem
    assert found.made.size < conv().size
    assert abs(found.drop) < 0.02


def test_what_cannot_be_made_says_why_and_costs_nothing_else(workshop):
    assert "no step 'fly'" in workshop.make(("fly",), 60).problem
    assert workshop.make(("trees:3",), 60).made is None
    assert workshop.make(("fold",), 60).made is not None


def test_what_was_learnt_is_learnt_once_for_all_candidates_that_begin_with_it(workshop):
    learnt = workshop.make(("prune:0.3",), 6)
    small = workshop.make(("prune:0.3", "int8"), 6)
    assert learnt.made is not None, learnt.problem
    assert small.made is not None, small.problem
    assert small.made.notes[: len(learnt.made.notes)] == learnt.made.notes
    assert workshop.make(("prune:0.3",), 6).made == learnt.made


def test_a_process_that_is_killed_costs_one_candidate(workshop):
    workshop.make(("fold",), 60)
    child = multiprocessing.active_children()[0]
    threading.Timer(0.3, os.kill, (child.pid, signal.SIGKILL)).start()
    lost = workshop.make(("prune:0.5",), 60)
    assert lost.made is None
    assert "ended" in lost.problem
    assert workshop.make(("fold",), 60).made is not None


@pytest.mark.parametrize("name", ["data/Net.ONNX", "MODEL.onnx"])
def test_a_variant_with_its_originals_files_has_names_that_the_platform_takes(name):
    learnt, compared, _ = digits()
    original = replace(conv(), file=name, files={name: conv().content})
    said = tuple(answers(original, compared))
    given = {"calibration": learnt, "training": learnt, "selection": compared, "allowed": 0.02, "seed": 1}
    order = Order(model=original, reading=read(said, ["scores"], {}, compared.truth), original=said, **given)
    with Workshop(order) as workshop:
        found = workshop.make(("settings:threads=2",), 60)
    assert found.made is not None, found.problem
    assert (found.made.file, dict(found.made.files)) == ("model.onnx", {"model.onnx": conv().content})
    assert dict(found.made.settings) == {"threads": "2"}


def test_files_that_refer_to_each_other_keep_their_names_or_the_variant_is_not_made():
    network = Made(runtime="openvino", file="Net.xml", files={"Net.xml": b"x", "Net.bin": b"w"})
    assert dict(plainly_named(network).files) == {"model.xml": b"x", "model.bin": b"w"}
    assert plainly_named(network).file == "model.xml"
    with pytest.raises(CannotBeMade, match="and refer to each other by these names"):
        plainly_named(Made(runtime="onnx", file="net.onnx", files={"net.onnx": b"x", "Weights.bin": b"w"}))


def test_a_candidate_that_takes_longer_than_there_is_time_is_ended(workshop):
    assert workshop.make(("prune:0.5",), 600, 1.0).problem == "It took more than 1 seconds and was ended."
    assert workshop.make(("fold",), 60).made is not None


def test_rows_are_parted_without_overlap_and_always_the_same():
    whole = Rows(inputs=(np.arange(1000)[:, None],), labels=None, slices={})
    first, again = parted(whole, None, 7), parted(whole, None, 7)
    parts = [set(one.inputs[0].ravel().tolist()) for one in (first.training, first.selection, first.held_out)]
    assert [len(one) for one in parts] == [500, 200, 300]
    assert len(set.union(*parts)) == 1000
    assert (first.held_out.inputs[0] == again.held_out.inputs[0]).all()
    with pytest.raises(Invalid, match="too few"):
        parted(whole.taken(np.arange(2)), None, 7)


def test_slices_are_values_quarters_or_the_frequent_ones():
    assert set(sliced("c", np.array(["a", None, "a"], dtype=object))) == {"c=a", "c=missing"}
    quarters = sliced("n", np.array(list(range(100)), dtype=object))
    assert set(quarters) == {"n <= 24.75", "24.75 < n <= 49.5", "49.5 < n <= 74.25", "74.25 < n"}
    many = sliced("t", np.array([f"v{one % 40}" for one in range(100)] + ["v1"] * 50, dtype=object))
    assert "t=other" in set(many)
    assert len(set(many)) == 20


def test_only_what_was_asked_for_is_made_and_what_cannot_be_calibrated_is_skipped():
    one, two = (Candidate(name=name, steps=(name,), why="-") for name in ("int8", "fold"))
    found = Planned(candidates=(one, two))
    assert [it.name for it in narrowed(found, (), "")] == ["int8", "fold"]
    assert [it.name for it in narrowed(found, ("fold", "prune:0.4"), "")] == ["fold", "prune-0.4"]
    skipped = narrowed(found, (), "All rows are the same.")
    assert "All rows are the same." in skipped[0].skipped
    assert not skipped[1].skipped


def test_a_candidate_is_given_up_only_where_it_is_clearly_worse():
    int8 = ("int8",)
    assert hopeless(0.006, int8, Limits(), 500, "classes") == ""
    assert "worse by 5.00 %" in hopeless(0.05, int8, Limits(), 5000, "classes")
    assert hopeless(0.009, int8, Limits(), 5000, "numbers") == ""
    assert hopeless(0.02, int8, Limits(), 5000, "numbers")


def test_a_student_is_not_held_to_rows_that_its_teacher_learnt_by_heart():
    taught = ("distil:mlp", "int8")
    assert hopeless(0.02, taught, Limits(), 50_000, "classes") == ""
    assert hopeless(0.02, ("prune:0.5", "int8"), Limits(), 50_000, "classes")
    assert "worse by 8.00 %" in hopeless(0.08, taught, Limits(), 50_000, "classes")


def test_how_many_times_as_fast_it_is_counts_for_each_of_its_threads():
    wide = replace(conv(), settings={"threads": "2"})
    told = {"drop": 0.0, "changes": 0.0, "memory": 1, "price": 0.04, "gpu_price": 0.0, "device": "cpu"}
    ours, theirs = measured(wide, conv(), digits()[1], **told)
    assert ours.times == pytest.approx(ours.rows_per_s / theirs.rows_per_s / 2)
    assert theirs.memory == 1


@pytest.mark.parametrize(
    ("steps", "failed", "is_left"),
    [
        ("prune:0.5 int8", "prune:0.3 int8", True),
        ("prune:0.5 int8 openvino", "prune:0.3 int8", True),
        ("prune:0.5 int8", "prune:0.3", True),
        ("prune:0.5", "prune:0.3 int8", False),  # which eight bits may have ruined
        ("prune:0.3 int8", "prune:0.5 int8", False),
        ("trees:10 trees-onnx", "trees:30 trees-onnx", True),
        ("trees:30 trees-onnx", "trees:10 trees-onnx", False),
        ("int8 settings:arena=off", "int8", True),
        ("int8", "openvino openvino-int8", False),
        ("distil:mobilenet int8", "distil:mobilenet", True),
        ("distil:mlp", "distil:mlp-large", False),
    ],
)
def test_what_can_only_be_worse_than_what_was_given_up_is_not_made(steps, failed, is_left):
    (given_up,) = (replace(one, steps=tuple(failed.split())) for one in made("hopeless-one"))
    reason = "It can only be worse than hopeless-one, which was given up."
    assert no_better(steps.split(), [given_up]) == (reason if is_left else "")


def test_nothing_made_is_nothing_to_judge():
    assert in_order(plan(), plan()) == []


@pytest.mark.parametrize(
    ("target", "order"), [("cpu", ["student", "same", "risky", "bad"]), ("edge", ["student", "same", "risky", "bad"])]
)
def test_what_looks_likely_to_be_shown_is_judged_before_what_would_be_faster(target, order):
    """One refusal on few rows, and nothing after it can be shown any more."""
    drops = {"risky": (4.0, 0.0056), "same": (2.4, 0.0), "bad": (5.0, 0.02), "student": (9.0, 0.01)}
    found = plan(
        target=target,
        rows=(719, 180, 898),
        variants=tuple(
            replace(
                one,
                steps=("distil:mlp",) if one.name == "student" else ("int8",),
                measures=replace(measures(drops[one.name][0], drops[one.name][1]), size=int(4e5 / drops[one.name][0])),
            )
            for one in made(*drops)
        ),
    )
    assert [one.name for one in in_order(found, found)] == order
    likely = {"risky": 0.005, "same": 0.0001, "bad": 0.03, "student": 0.02}
    known = [replace(one, measures=replace(one.measures, changes=likely[one.name])) for one in found.variants]
    told = replace(found, variants=tuple(known))
    assert hope(known[1], told) > 0.9 > 0.5 > hope(known[0], told) > hope(known[2], told)
    assert [one.name for one in in_order(told, told)][:2] == ["student", "same"]
    numbers = replace(found, task="numbers", limits=Limits(max_drop=0.0))
    assert [one.name for one in in_order(numbers, numbers)][:2] == ["student", "same"]
