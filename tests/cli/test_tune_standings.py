"""How far a study is, and what of it stays as it was begun."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from falaj.client.tuning.planning import left_aside
from falaj.client.tuning.records import Kept
from falaj.client.tuning.standings import standing
from falaj.training.search.spaces import read_space
from falaj.training.search.stopping import Limits
from falaj.training.search.studies import State
from falaj.training.search.written import End
from tests.cli.test_tune_conductor import KEPT, TRIAL

DONE = replace(KEPT, ended=End(state="done", words="Enough."))


@pytest.mark.parametrize(
    ("kept", "states", "told"),
    [
        (KEPT, [], "waiting, 0 of 20 trials"),
        (KEPT, ["complete", "running"], "running, 1 of 20 trials"),
        (KEPT, ["complete", "failed", "pruned"], "interrupted, 3 of 20 trials"),
        (replace(KEPT, stopped=True), ["complete", "running"], "running, 1 of 20 trials"),
        (replace(DONE, stopped=True), ["complete", "cancelled"], "stopped, 2 of 20 trials"),
        (replace(DONE, limits=Limits(trials=4)), ["complete"], "done, 1 of 4 trials"),
        (replace(DONE, limits=Limits(trials=1)), ["complete"] * 3, "done, 3 of 3 trials"),
        (replace(KEPT, ended=End(state="given up", words="")), ["failed"] * 3, "given up, 3 of 20 trials"),
        (replace(DONE, study=replace(KEPT.study, sampler="grid", space=read_space({"x": "1,2"}))), [], "done, 0 of 2 trials"),
    ],
)
def test_a_study_says_how_far_it_is(kept: Kept, states: Sequence[State], told: str):
    assert str(standing(kept, [replace(TRIAL, state=state) for state in states])) == told


def test_what_a_study_is_asked_for_otherwise_and_does_not_become_is_named():
    job = KEPT.job
    other = replace(job, resources=replace(job.resources, memory_mib=99), retries=7, source="0" * 64)
    assert left_aside(KEPT, KEPT) == []
    assert left_aside(replace(KEPT, job=other, earlier=(3,)), KEPT) == ["memory", "retries", "the studies to learn from"]
