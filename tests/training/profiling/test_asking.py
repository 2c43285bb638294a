"""What the next training asks for, by the words of earlier ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.training.profiling.asking import Ask, Earlier, Shape, asks_by, asks_of, asks_told, decide
from falaj.training.profiling.changes import Changes
from falaj.training.profiling.verdicts import Setting, Verdict

SLOW = "input-bound: 63 % of each step waits for data; 2 loader workers, 6 would hide it"
MORE_CPUS = Ask(option="cpus", number=7, why=SLOW, had=2, workers=6)
NO_GPU = Ask(option="gpus", number=0, why="GPU not needed")
A_GPU = Ask(option="gpus", number=1, why="a GPU would be many times as fast")


def _earlier(run="a", *, cpus=3.0, gpus=0.0, rate=100.0, work=("source", "train.py"), asks=(), **wanted):
    changes = Changes(wanted=wanted, rate=rate if wanted else 0.0)
    return Earlier(run=run, shape=Shape(cpus=cpus, gpus=gpus), work=work, rate=rate, asks=asks, changes=changes)


def test_the_cpus_that_loader_workers_need_are_asked_for_and_the_workers_start_with_them():
    decision = decide([_earlier(asks=(MORE_CPUS,))], Shape(), ())
    assert decision.shape == Shape(cpus=3.0)
    assert decision.asks == (MORE_CPUS,)
    assert decision.changes_on(Shape(cpus=7.0)) == Changes(wanted={"loader_workers": 6}, rate=100.0)
    assert decision.sentences == ("By the profile of run a, which had 3 CPUs.", "Begins with its 3 CPUs instead of 1 CPU.")


@pytest.mark.parametrize(("cpus", "workers"), [(1, {}), (3, {}), (4, {"loader_workers": 3}), (6, {"loader_workers": 5})])
def test_fewer_cpus_than_were_asked_for_have_room_for_fewer_workers_but_never_for_less_than_before(cpus, workers):
    decision = decide([_earlier(asks=(MORE_CPUS,))], Shape(), ())
    assert decision.changes_on(Shape(cpus=cpus)).wanted == workers


def test_workers_that_made_it_slower_before_are_not_tried_again_whatever_the_cpus():
    refused = Earlier(
        run="a",
        shape=Shape(cpus=3.0),
        work=(),
        rate=9.0,
        asks=(MORE_CPUS,),
        changes=Changes(refused=("loader_workers",)),
    )
    assert decide([refused], Shape(), ()).changes_on(Shape(cpus=7.0)).wanted == {}


def test_what_the_person_gave_stands_and_the_profile_s_wish_is_said():
    decision = decide([_earlier(asks=(MORE_CPUS,))], Shape(cpus=2.0), {"cpus"})
    assert decision.shape == Shape(cpus=2.0)
    assert decision.asks == ()
    assert decision.sentences[-1] == f"It asks for 7 CPUs, but --cpus was given: {SLOW}."


def test_who_gave_more_cpus_than_are_asked_for_has_the_workers_as_well():
    decision = decide([_earlier(asks=(MORE_CPUS,))], Shape(cpus=16.0), {"cpus"})
    assert decision.changes_on(decision.shape).wanted == {"loader_workers": 6}


def test_a_gpu_that_is_not_needed_is_not_asked_for_again_and_what_was_found_on_it_stays_there():
    before = _earlier(gpus=1.0, asks=(NO_GPU,), loader_workers=2, micro_batch=64, pin_memory=1, threads=2)
    decision = decide([before], Shape(), ())
    assert (decision.shape, decision.asks) == (Shape(cpus=3.0, gpus=1.0), (NO_GPU,))
    assert decision.changes_on(Shape(cpus=3.0)).wanted == {"loader_workers": 2}
    assert decision.changes_on(Shape(cpus=3.0, gpus=1.0)).wanted == {"loader_workers": 2, "micro_batch": 64, "pin_memory": 1}


def test_nothing_is_asked_for_that_is_there_already():
    assert decide([_earlier(cpus=7.0, asks=(MORE_CPUS,))], Shape(), ()).asks == ()


def test_a_shape_that_made_it_slower_is_left_for_the_faster_one_and_not_asked_for_again():
    fewer = Ask(option="cpus", number=1, why="1 CPU would do")
    slow, fast = _earlier("slow", cpus=1.0, rate=50.0), _earlier("fast", cpus=2.0, rate=90.0, asks=(fewer,))
    decision = decide([slow, fast], Shape(), ())
    assert (decision.model, decision.shape) == (fast, Shape(cpus=2.0))
    assert "Run slow had 1 CPU and made 50 rows/s, this one 90." in decision.sentences
    assert decision.against(fewer, slow.shape) == "1 CPU made it slower in run slow: not asked for again."


def test_fewer_that_were_as_fast_are_asked_for_and_more_that_were_no_faster_are_not():
    fewer = Ask(option="cpus", number=1, why="1 CPU would do")
    one, two = _earlier("one", cpus=1.0, rate=99.0), _earlier("two", cpus=2.0, rate=100.0, asks=(fewer,))
    assert decide([two, one], Shape(), ()).against(fewer, one.shape) == ""
    with_one, without = _earlier("with", gpus=1.0, rate=101.0), _earlier("without", rate=100.0, asks=(A_GPU,))
    decision = decide([without, with_one], Shape(), ())
    assert decision.against(A_GPU, with_one.shape) == "1 GPU made it no faster in run with: not asked for again."


def test_trainings_of_other_files_or_of_no_known_rate_are_not_compared():
    last = _earlier("last", cpus=1.0, rate=50.0)
    for other in (_earlier("other", cpus=2.0, rate=90.0, work=("changed",)), _earlier("untold", cpus=2.0, rate=0.0)):
        assert decide([last, other], Shape(), ()).model is last


def test_what_a_verdict_asks_for_is_read_back_from_a_run_s_tags():
    verdict = Verdict(kind="input-bound", says=SLOW, ask={"cpus": 7}, workers=6)
    asks = (*asks_by(verdict, Setting(workers=2)), NO_GPU)
    assert asks[0] == MORE_CPUS
    assert set(asks_of(asks_told(asks))) == set(asks)
    assert asks_told(()) == {"falaj.training.ask.cpus": "", "falaj.training.ask.gpus": ""}  # what an earlier start left goes


def test_of_two_wishes_for_the_same_the_one_that_matters_more_counts():
    assert asks_of(asks_told([MORE_CPUS, Ask(option="cpus", number=2, why="2 CPUs would do")])) == (MORE_CPUS,)


@pytest.mark.parametrize("text", ["", "-1", "0", "1025", "7.5", "٧", "1e3", "9" * 5000, "x\n7"])
def test_what_is_no_number_within_its_bounds_counts_for_nothing(text):
    assert asks_of({"falaj.training.ask.cpus": text}) == ()


@given(st.text(), st.text())
def test_whatever_somebody_wrote_into_the_tags_is_read_within_bounds(cpus, rest):
    for ask in asks_of({"falaj.training.ask.cpus": cpus, "falaj.training.ask.gpus": f"1\nwhy\n{rest}"}):
        assert 0 <= ask.number <= 1024
        assert 0 <= ask.had <= ask.workers <= 64
        decide([_earlier(asks=(ask,))], Shape(), ()).changes_on(Shape(cpus=2.0))
