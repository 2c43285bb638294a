"""Whoever leads a study runs what they agreed to, and cancels what is the study's, whatever the tags of others say."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from falaj.base.clock import Moment
from falaj.base.errors import Invalid
from falaj.client.tuning import planning
from falaj.client.tuning.conductor import Conductor
from falaj.client.tuning.jobs import FINGERPRINT, conductor_of, fingerprint, spec_of
from falaj.client.tuning.records import Kept, Seen, read_kept
from falaj.governance.identity.operations import WHOAMI
from falaj.jobs.operations import jobs
from falaj.tracking.operations.words import Tag
from falaj.training.search import written
from falaj.training.search.spaces import read_space
from falaj.training.search.stopping import Limits
from falaj.training.search.studies import Objective, Study, Trial

KEPT = Kept(
    experiment=7,
    created=Moment(0),
    study=Study(name="s", space=read_space({"x": "1..9"}), objectives=(Objective(metric="loss"),)),
    job=jobs.Spec(command=("python", "train.py")),
    arguments=True,
    earlier=(),
    limits=Limits(),
    importance={},
)
TRIAL = Trial(number=0, params={"x": 4}, run="1" * 32, job="a" * 32)
MINE = SimpleNamespace(
    run=TRIAL.run, submitted_by=SimpleNamespace(id="me"), spec=spec_of(KEPT, 0, TRIAL.params, TRIAL.run), state="running"
)


class Platform:
    """Of the records and the platform behind them, what a conductor asks."""

    project = "fraud"

    def __init__(self, *seen: Seen, job: Any = MINE, stopped: bool = False) -> None:
        self.client, self.seen, self.job, self.stopped = self, list(seen), job, stopped
        self.called: list[Any] = []

    def call(self, operation: Any, request: Any, **_: Any) -> Any:
        if operation is WHOAMI:
            return SimpleNamespace(id="me")
        if operation is jobs.SHOW_JOB:
            return self.job
        self.called.append(operation)
        return SimpleNamespace(items=(), next="", job=SimpleNamespace(id="b" * 32))

    def trials(self, kept: Kept, **_: Any) -> list[Seen]:
        return self.seen

    def running(self, kept: Kept) -> list[Seen]:
        return [one for one in self.seen if one.trial.state == "running"]

    def is_stopped(self, kept: Kept) -> bool:
        return self.stopped

    def claim(self, kept: Kept, number: int, params: Any, *_: Any) -> Seen | None:
        return seen(Trial(number=number, params=params, run="3" * 32)) if number > 2 else None

    def note(self, *_: Any) -> None: ...

    def settle(self, *_: Any) -> None: ...


def seen(trial: Trial) -> Seen:
    return Seen(trial=trial, status="RUNNING", created=Moment(0), created_by="me", latest={})


def lead(platform: Platform) -> Conductor:
    return Conductor(platform, KEPT, Limits(trials=1), say=lambda _: None)  # type: ignore[arg-type]


def test_a_trial_cannot_have_the_job_of_another_cancelled():
    given_up = seen(replace(TRIAL, state="pruned"))
    own, others = Platform(given_up), Platform(given_up, job=SimpleNamespace(run="2" * 32))
    for platform in (own, others):
        lead(platform)
    assert (own.called, others.called) == ([jobs.CANCEL_JOB], [])


def test_who_stops_a_study_submits_nothing():
    platform = Platform(seen(replace(TRIAL, job="")), stopped=True)
    outcome = lead(platform).step(0.0)
    assert outcome is not None
    assert [one.state for one in outcome.trials] == ["cancelled"]
    assert jobs.SUBMIT_JOB not in platform.called


def test_numbers_that_somebody_spoiled_are_passed_over():
    platform = Platform()
    leader = lead(platform)
    assert leader.step(0.0) is None
    assert platform.called == [jobs.SUBMIT_JOB]


@pytest.mark.parametrize(
    ("changed", "agreed"),
    [
        (KEPT, True),
        (replace(KEPT, limits=Limits(trials=90)), True),
        (replace(KEPT, job=replace(KEPT.job, secrets=("KEY",))), False),
        (replace(KEPT, job=replace(KEPT.job, source="0" * 64)), False),
        (replace(KEPT, study=replace(KEPT.study, space=read_space({"x": "a,$(evil)"}))), False),
        (replace(KEPT, arguments=False), False),
    ],
)
def test_what_a_person_had_run_before_is_known_again_and_nothing_else(changed: Kept, agreed: bool):
    platform: Any = Platform(seen(TRIAL))
    assert planning.is_agreed(platform, changed, "") is agreed
    assert planning.is_agreed(platform, changed, fingerprint(changed))


def test_what_another_person_had_run_is_not_agreed_to():
    platform: Any = Platform(seen(TRIAL), job=SimpleNamespace(submitted_by=SimpleNamespace(id="other"), spec=MINE.spec))
    assert not planning.is_agreed(platform, KEPT, "")
    assert not planning.is_agreed(platform, KEPT, "0" * 64)


def test_a_job_that_leads_a_study_is_told_what_was_agreed_to():
    command = conductor_of(KEPT, "fraud", "").command
    assert command[command.index("--agreed") + 1] == fingerprint(KEPT)
    assert [one.value for one in MINE.spec.variables if one.name == FINGERPRINT] == [fingerprint(KEPT)]


@pytest.mark.parametrize("more", [{}, {"job": {}}, {"job": {"command": []}}, {"job": {"command": ["a"]}, "earlier": "x"}])
def test_a_study_whose_job_was_changed_into_none_is_refused(more: dict[str, Any]):
    tags = written.study_tags(KEPT.study, {"arguments": True, "earlier": []} | more, 8000)
    experiment: Any = SimpleNamespace(
        id=7, created=Moment(0), name="s", tags=tuple(Tag(key=key, value=text) for key, text in tags.items())
    )
    with pytest.raises(Invalid, match="were changed"):
        read_kept(experiment)
