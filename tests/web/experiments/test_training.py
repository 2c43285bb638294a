"""How a run's page draws what its training told."""

from falaj.web.experiments.training import Spent, training_of

TAGS = {"falaj.training.verdict": "input-bound: 41 % of each step waits for data"}
FIGURES = {"falaj.training/data_share": 0.41, "falaj.training/compute_share": 0.59}


def test_a_run_that_told_nothing_of_its_training_has_no_such_part():
    assert training_of({"team": "fraud"}, FIGURES, set()) is None


def test_the_steps_are_drawn_in_their_phases_and_recordings_are_linked():
    found = training_of(TAGS, FIGURES, {"profile/trace.json.gz", "model.pt"})
    assert found.split == [Spent(phase="data", share="41 %", series=1), Spent(phase="compute", share="59 %", series=0)]
    assert found.bar.count("<rect") == 2
    assert found.files == [("profile/trace.json.gz", "Trace")]


def test_before_a_step_was_measured_nothing_is_drawn():
    assert training_of(TAGS, {}, set()).bar == ""
