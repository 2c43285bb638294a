"""The best parameters of a function, searched in one process: pruned, in threads, killed, and gone on with."""

import os
import signal
import threading
from pathlib import Path

import pytest

from falaj.base.errors import Conflict, Invalid
from falaj.training.search import Limits, tune
from falaj.training.search.local import Attempt, SearchFailed

SPACE = {"x": "-10.0..10.0", "act": ["u", "v"]}


def bowl(attempt: Attempt) -> float:
    return (attempt["x"] - 2) ** 2 + (attempt["act"] == "u")


def test_the_best_of_a_function_is_found():
    found = tune(bowl, SPACE, limits=Limits(trials=30), seed=1)
    (best,) = found.best
    assert best.values[0] < 1
    assert best.params["act"] == "v"
    assert len(found.trials) == 30
    assert found.words == "All 30 trials were begun."
    weights = found.importance()
    assert weights["x"] > weights["act"]


def test_a_function_that_reports_is_stopped_where_it_promises_nothing():
    def climbing(attempt: Attempt) -> float:
        for step in range(10):
            attempt.report(step, abs(attempt["x"]) + 1 / (step + 1))
        return abs(attempt["x"])

    found = tune(climbing, SPACE, limits=Limits(trials=20), pruner="median", seed=1)
    states = [trial.state for trial in found.trials]
    assert {"complete", "pruned"} == set(states)
    assert all(len(trial.steps) == 10 for trial in found.trials if trial.state == "complete")
    assert any(len(trial.steps) < 10 for trial in found.trials if trial.state == "pruned")


def test_threads_try_several_at_once_and_each_number_once():
    together, most = threading.Barrier(3, timeout=30), []

    def tried(attempt: Attempt) -> float:
        together.wait()
        most.append(attempt.number)
        return bowl(attempt)

    found = tune(tried, SPACE, limits=Limits(trials=9, parallel=3))
    assert sorted(most) == [trial.number for trial in found.trials] == list(range(9))


def test_a_killed_search_goes_on_and_repeats_what_was_not_finished(tmp_path: Path):
    journal = tmp_path / "study"

    def deadly(attempt: Attempt) -> float:
        if attempt.number == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return bowl(attempt)

    if (child := os.fork()) == 0:
        tune(deadly, SPACE, limits=Limits(trials=6), journal=journal)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    with journal.open("ab") as file:
        file.write(b'{"begin": 4, "par')  # as a kill within a line leaves it
    began = []
    found = tune(lambda one: began.append(dict(one)) or bowl(one), SPACE, limits=Limits(trials=6), journal=journal)
    assert [trial.number for trial in found.trials] == list(range(6))
    assert len(began) == 3
    assert began[0] == found.trials[3].params
    assert tune(bowl, SPACE, limits=Limits(trials=6), journal=journal).trials == found.trials


def test_a_journal_is_of_one_study_and_of_one_process_at_a_time(tmp_path: Path):
    journal = tmp_path / "study"
    tune(bowl, SPACE, limits=Limits(trials=2), journal=journal)
    with pytest.raises(Conflict, match=r"a study of something else: .*x was .*, and is now 1\.\.2"):
        tune(bowl, {"x": "1..2"}, limits=Limits(trials=2), journal=journal)

    def nested(attempt: Attempt) -> float:
        with pytest.raises(Conflict, match="Another process"):
            tune(bowl, SPACE, journal=journal)
        return bowl(attempt)

    assert len(tune(nested, SPACE, limits=Limits(trials=3), journal=journal).trials) == 3


def test_failures_are_trials_too_and_nothing_but_failures_is_an_error():
    def picky(attempt: Attempt) -> float:
        if attempt["act"] == "u":
            raise ValueError("not that one")
        return float("nan") if attempt.number % 5 == 4 else bowl(attempt)

    found = tune(picky, SPACE, limits=Limits(trials=20), sampler="random", seed=2)
    assert {trial.words for trial in found.trials if trial.state == "failed"} == {
        "ValueError: not that one",
        "It gave nan, which is no number.",
    }
    with pytest.raises(SearchFailed, match="ZeroDivisionError"):
        tune(lambda one: 1 / 0, SPACE)


def test_a_grid_ends_by_itself_and_several_metrics_have_a_front():
    found = tune(lambda one: (one["x"], -one["x"]), {"x": "1..4"}, metrics=("up:min", "down:min"), sampler="grid")
    assert [trial.params["x"] for trial in found.best] == [1, 2, 3, 4]
    assert found.words == "All points of the grid were tried."
    with pytest.raises(Invalid, match="gave 1 values, and 2 metrics"):
        tune(lambda one: 1.0, {"x": "1..4"}, metrics=("up:min", "down:min"))


def test_cma_goes_on_from_what_it_found_before(tmp_path: Path):
    space, journal = {"x": "-10.0..10.0", "y": "-5..5"}, tmp_path / "study"
    for trials in (30, 60):
        found = tune(
            lambda one: (one["x"] - 2) ** 2 + one["y"] ** 2, space, sampler="cma", limits=Limits(trials=trials), journal=journal
        )
        assert len(found.trials) == trials
    assert found.best[0].values[0] < 1


@pytest.mark.parametrize(
    "content",
    [
        '{"precious": true}',
        "weights line1\nweights line2 without an end",
        '{"name":"x","study":5}\n',
        '{"name":"study","study":{"version":9}}\nhalf a line',
        "[" * 100_000 + "\nrest",
    ],
    ids=["no-line", "text", "number", "version", "deep"],
)
def test_a_file_that_is_no_journal_is_refused_and_left_as_it_is(tmp_path: Path, content: str):
    file = tmp_path / "study"
    file.write_text(content)
    with pytest.raises(Invalid, match=f"{file} is no journal of a search"):
        tune(bowl, SPACE, limits=Limits(trials=1), journal=file)
    assert file.read_text() == content


def test_a_journal_is_a_file_of_its_own(tmp_path: Path):
    other, link, pipe = tmp_path / "other", tmp_path / "link", tmp_path / "pipe"
    tune(bowl, SPACE, limits=Limits(trials=1), journal=other)
    link.symlink_to(other)
    os.mkfifo(pipe)
    for odd in (link, pipe, tmp_path):
        with pytest.raises(Invalid, match=f"{odd} cannot be a journal"):
            tune(bowl, SPACE, limits=Limits(trials=1), journal=odd)


@pytest.mark.parametrize("line", ['{"begin":"x","params":{}}', '{"end":0}', "{}", "7", '{"end":0,"state":"running"}'])
def test_a_line_that_is_none_of_a_journal_is_named(tmp_path: Path, line: str):
    file = tmp_path / "study"
    tune(bowl, SPACE, limits=Limits(trials=1), journal=file)
    with file.open("a") as journal:
        journal.write(f"{line}\n")
    with pytest.raises(Invalid, match="its line 4 is none of one"):
        tune(bowl, SPACE, limits=Limits(trials=2), journal=file)


def test_a_journal_that_was_killed_at_its_first_line_begins_anew(tmp_path: Path):
    file = tmp_path / "study"
    tune(bowl, SPACE, limits=Limits(trials=1), journal=file)
    file.write_bytes(file.read_bytes()[:25])
    assert len(tune(bowl, SPACE, limits=Limits(trials=1), journal=file).trials) == 1
    assert file.read_bytes().count(b"\n") == 3
