"""What follows when an attempt ends."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.jobs.retrying import FIRST_WAIT, LONGEST_WAIT, MOST_LOSSES, Ending, judge
from falaj.jobs.running.measures import UNMEASURED
from falaj.jobs.running.outputs import UNSENT

CAUSES = ("done", "failed", "stopped", "timeout", "memory", "disk", "environment", "lost", "refused", "unstarted")
STOPS = ("", "preempted", "cancelled", "drained", "idle", "resized")

endings = st.builds(
    Ending,
    cause=st.sampled_from(CAUSES),
    code=st.none() | st.integers(0, 255),
    words=st.text(max_size=20),
    stop_for=st.sampled_from(STOPS),
    number=st.integers(1, 100),
    retries=st.integers(0, 100),
    failures=st.integers(0, 100),
    losses=st.integers(0, MOST_LOSSES),
    memory_used=st.integers(0, 10**6),
    memory_asked=st.integers(0, 10**6),
)


@given(ending=endings)
def test_every_ending_has_a_sequel_that_keeps_the_law(ending: Ending):
    sequel = judge(ending)
    assert sequel.words
    assert sequel.kind
    assert 0 <= sequel.wait <= LONGEST_WAIT
    assert sequel.wait == 0 or sequel.state == "waiting"
    assert sequel.failures - ending.failures in (0, 1)
    assert sequel.losses - ending.losses in (0, 1)
    assert (ending.cause == "done") == (sequel.state == "done")
    if ending.stop_for == "cancelled" and ending.cause != "done":
        assert sequel.state == "cancelled"
    if sequel.state == "waiting":
        assert sequel.failures <= max(ending.retries, ending.failures)
        assert sequel.losses <= MOST_LOSSES


@given(ending=endings)
def test_a_job_is_tried_a_bounded_number_of_times(ending: Ending):
    """The same end again and again comes to an end, unless somebody else takes its place each time."""
    failures, losses, tries = 0, 0, 0
    while tries < 300:
        again = Ending(cause=ending.cause, retries=ending.retries, failures=failures, losses=losses)
        sequel = judge(again)
        if sequel.state != "waiting":
            return
        failures, losses, tries = sequel.failures, sequel.losses, tries + 1
    assert ending.cause == "unstarted"


def test_waits_double_up_to_a_limit():
    waits = [judge(Ending(cause="failed", retries=20, failures=failures)).wait for failures in range(20)]
    assert waits[:4] == [FIRST_WAIT, 2 * FIRST_WAIT, 4 * FIRST_WAIT, 8 * FIRST_WAIT]
    assert waits == sorted(waits)
    assert waits[-1] == LONGEST_WAIT


@pytest.mark.parametrize("cause", ["failed", "environment"])
def test_what_is_the_job_s_own_counts_against_its_retries(cause: str):
    sequel = judge(Ending(cause=cause, retries=1))
    assert (sequel.state, sequel.failures, sequel.losses) == ("waiting", 1, 0)
    assert judge(Ending(cause=cause, retries=1, failures=1)).state == "failed"


@pytest.mark.parametrize(
    "given",
    [
        *({"cause": cause} for cause in ("memory", "timeout", "disk")),
        {"cause": "failed", "code": 127},
        {"cause": "output", "code": 0, "words": "its output 'm' was not written"},
    ],
)
def test_what_would_end_the_same_way_again_is_not_tried_again(given: dict[str, Any]):
    sequel = judge(Ending(retries=5, **given))
    assert (sequel.state, sequel.wait) == ("failed", 0)
    assert "not tried again" in sequel.words


def test_a_try_that_was_ended_for_the_depth_of_its_folders_says_so():
    assert judge(Ending(cause="disk")).words == "Try 1 filled the disk space it was given."
    deep = judge(Ending(cause="disk", words=f"{UNMEASURED}: folders lie in folders more than 256 deep")).words
    assert deep == "Try 1 was ended: what it filled cannot be measured: folders lie in folders more than 256 deep."


def test_an_output_that_the_platform_was_not_there_to_take_is_tried_again():
    assert judge(Ending(cause="output", code=0, words=f"its output 'm' {UNSENT}: no answer", retries=1)).state == "waiting"


def test_a_loss_is_made_good_at_once_and_losses_in_a_row_after_a_growing_pause():
    waits = [judge(Ending(cause="lost", losses=losses)).wait for losses in range(4)]
    assert waits == [0, FIRST_WAIT, 2 * FIRST_WAIT, 4 * FIRST_WAIT]


@pytest.mark.parametrize("stop_for", ["preempted", "drained", "resized"])
@pytest.mark.parametrize("cause", ["stopped", "failed", "lost", "memory"])
def test_what_others_wanted_counts_for_nothing(stop_for: str, cause: str):
    sequel = judge(Ending(cause=cause, stop_for=stop_for, retries=0))
    assert (sequel.state, sequel.failures, sequel.losses, sequel.wait) == ("waiting", 0, 0, 0)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("", "Try 3 ended with code 1."),
        ("it ended with 1", "Try 3 ended with code 1."),
        ("task 2 ended with 1", "Try 3 ended with code 1 in task 2."),
        ("it ended with 17", "Try 3 ended with code 1: it ended with 17."),
        ("its shell said no", "Try 3 ended with code 1: its shell said no."),
    ],
)
def test_what_an_engine_says_of_a_failure_is_not_said_twice(words: str, told: str):
    assert judge(Ending(cause="failed", code=1, words=words, number=3)).words == told


@pytest.mark.parametrize(("used", "told"), [(100, "100 MiB"), (9, "64 or more MiB"), (64, "64 or more MiB")])
def test_who_needed_more_memory_is_never_told_that_it_had_less(used: int, told: str):
    sequel = judge(Ending(cause="memory", memory_used=used, memory_asked=64))
    assert f"it was at {told} and had asked for 64 MiB" in sequel.words
