"""Whoever leads a study runs what they agreed to, and cancels what is the study's, whatever the tags of others say."""

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from falaj.base.clock import Moment
from falaj.base.errors import Invalid
from falaj.client.tuning import planning
from falaj.client.tuning.best import leading
from falaj.client.tuning.conductor import Conductor
from falaj.client.tuning.jobs import conductor_of, fingerprint, spec_of
from falaj.client.tuning.records import Kept, Seen, read_kept, read_run
from falaj.governance.identity.operations import WHOAMI
from falaj.jobs.operations import jobs
from falaj.jobs.operations.words import STUDY
from falaj.tracking.operations.words import Metric, Tag
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
        self.settled: list[Trial] = []

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

    def trial(self, kept: Kept, run: str) -> Seen | None:
        return next((one for one in self.seen if one.trial.run == run), None)

    def note(self, *_: Any) -> None: ...

    def settle(self, trial: Trial, *_: Any) -> None:
        self.settled.append(trial)


def seen(trial: Trial) -> Seen:
    return Seen(trial=trial, status="RUNNING", created=Moment(0), created_by="me", latest={})


def lead(platform: Any, say: Any = lambda _: None, **limits: int) -> Conductor:
    return Conductor(platform, KEPT, Limits(**{"trials": 1, **limits}), say=say)


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
    others = SimpleNamespace(run=TRIAL.run, submitted_by=SimpleNamespace(id="other"), spec=MINE.spec)
    platform: Any = Platform(seen(TRIAL), job=others)
    assert not planning.is_agreed(platform, KEPT, "")
    assert not planning.is_agreed(platform, KEPT, "0" * 64)


def test_a_job_that_leads_a_study_is_told_what_was_agreed_to():
    command = conductor_of(KEPT, "fraud", "").command
    assert command[command.index("--agreed") + 1] == fingerprint(KEPT)
    assert [one.value for one in MINE.spec.variables if one.name == STUDY] == [fingerprint(KEPT)]


@pytest.mark.parametrize("more", [{}, {"job": {}}, {"job": {"command": []}}, {"job": {"command": ["a"]}, "earlier": "x"}])
def test_a_study_whose_job_was_changed_into_none_is_refused(more: dict[str, Any]):
    tags = written.study_tags(KEPT.study, {"arguments": True, "earlier": []} | more, 8000)
    experiment: Any = SimpleNamespace(
        id=7, created=Moment(0), name="s", tags=tuple(Tag(key=key, value=text) for key, text in tags.items())
    )
    with pytest.raises(Invalid, match="were changed"):
        read_kept(experiment)


NICE = jobs.Spec(command=("true",), variables=(jobs.Setting(name=STUDY, value=fingerprint(KEPT)),))


@pytest.mark.parametrize(
    ("job", "agreed"),
    [
        (MINE, True),
        (SimpleNamespace(**vars(MINE) | {"spec": replace(MINE.spec, queue="small", zone="home")}), True),  # as it is filled in
        (SimpleNamespace(**vars(MINE) | {"run": "2" * 32}), False),
        (SimpleNamespace(**vars(MINE) | {"spec": NICE, "run": ""}), False),
        (SimpleNamespace(**vars(MINE) | {"spec": replace(NICE, run=TRIAL.run)}), False),
    ],
    ids=["own", "filled-in", "another-run", "repeated", "fingerprint-alone"],
)
def test_a_job_agrees_to_a_study_only_by_being_a_trial_of_it_to_the_letter(job: Any, agreed: bool):
    """Whoever may submit jobs may give one the variable that trials have, and have another repeat it."""
    platform: Any = Platform(seen(TRIAL), job=job)
    assert planning.is_agreed(platform, KEPT, "") is agreed


def run_of(number: str, run: str) -> Any:
    tags = {written.TRIAL: number, written.STATE: "complete", written.VALUES: "[-1e308]", written.JOB: "a" * 32}
    return SimpleNamespace(
        info=SimpleNamespace(id=run, status="FINISHED", created=Moment(0), created_by="vic", deleted=False),
        tags=tuple(Tag(key=key, value=text) for key, text in tags.items()),
        params=(SimpleNamespace(key="x", value="3"),),
        metrics=(),
    )


def test_a_run_that_somebody_put_into_a_study_is_no_trial_of_it():
    own = written.run_id("fraud", 7, 0, 50)
    assert read_run("fraud", KEPT, run_of("50", own)) is not None
    for number, run in (("51", own), ("50", "ad" * 16), ("999999999", written.run_id("fraud", 7, 0, 999_999_999))):
        assert read_run("fraud", KEPT, run_of(number, run)) is None
    assert read_run("other", KEPT, run_of("50", own)) is None


def test_a_number_far_beyond_the_others_takes_none_of_them():
    planted = Trial(number=999_999, params={"x": 3}, run="4" * 32, state="failed")
    began: list[str] = []
    assert lead(Platform(seen(planted)), began.append, trials=2).step(0.0) is None
    assert began[-1].startswith("Trial 3 begins")  # the first three are spoiled


def test_a_study_whose_every_run_somebody_spoiled_ends_in_words():
    class Spoiled(Platform):
        def claim(self, *_: Any) -> None:
            return None

    platform = Spoiled()
    outcome = lead(platform).step(0.0)
    assert outcome is not None
    assert "10 trials in a row cannot be begun" in outcome.words
    assert platform.called == []


def over(run: str, words: str = "Try 1 ended with code 3.") -> Any:
    return SimpleNamespace(id="a" * 32, run=run, state="failed", cause="failed", words=words)


def test_a_trial_that_names_the_job_of_another_fails_and_nothing_of_that_job_is_read():
    platform = Platform(replace(seen(TRIAL), status="FAILED"), job=over("2" * 32, "secret words"))
    assert lead(platform).step(0.0) is not None
    assert [(one.state, one.words) for one in platform.settled] == [("failed", "Its run names a job of another.")]
    assert platform.called == []


def test_what_a_job_wrote_last_is_said_and_not_kept_with_its_run():
    """Who may read runs may not for that read what jobs wrote."""

    class Writing(Platform):
        def call(self, operation: Any, request: Any, **more: Any) -> Any:
            if operation is jobs.READ_LOG:
                return SimpleNamespace(text="the key is 42\n", next=1)
            return super().call(operation, request, **more)

    said: list[str] = []
    platform = Writing(replace(seen(TRIAL), status="FAILED"), job=over(TRIAL.run))
    outcome = lead(platform, said.append).step(0.0)
    assert said == ["Trial 0 is failed. Try 1 ended with code 3. Its last line: the key is 42"]
    assert outcome is not None
    assert "42" not in f"{platform.settled}{outcome}"


def test_who_is_to_agree_is_shown_all_of_it_as_it_is():
    """What is hidden behind a thousand spaces, in other letters, or beside the command."""
    command = ("python", "t.py", "`, as before.\nNothing else is run." + " " * 3000, "; evil\u202e\x9b31m")
    variables = (jobs.Setting(name="LD_PRELOAD", value="/job/x y.so"),)
    job = jobs.Spec(command=command, variables=variables, lock="evil==1.0\nworse==2.0\n", outputs=("model",))
    told = planning.told(replace(KEPT, job=job, study=replace(KEPT.study, space=read_space({"x": "a,$(evil)"}))))
    assert told.startswith("`python t.py '`, as before.\\nNothing else is run.  ")
    assert "'; evil\\u202e\\x9b31m'` with" in told
    assert re.search(r"\[\.\.\. 1,\d\d\d letters are left out here \.\.\.\]", told)
    assert "the variables LD_PRELOAD='/job/x y.so'; the packages evil==1.0, worse==2.0; the outputs model" in told
    assert "the parameters x=a,$(evil)" in told
    assert told.isprintable()


def finished(value: float, **changed: Any) -> Seen:
    trial = replace(TRIAL, state="complete", values=(0.5,), **changed)
    return replace(seen(trial), status="FINISHED", latest={"loss": Metric(key="loss", value=value, timestamp=0)})


@pytest.mark.parametrize(
    ("found", "job", "why"),
    [
        (finished(0.5), {"state": "done"}, ""),
        (finished(0.5, job=""), {"state": "done"}, "It has no job"),
        (finished(0.5), {"state": "done", "run": "2" * 32}, "names a job of another"),
        (finished(0.5), {"state": "failed"}, "Its job is failed"),
        (finished(0.7), {"state": "done"}, "metrics say something else"),
    ],
    ids=["own", "no-job", "another-job", "failed", "other-metric"],
)
def test_who_leads_by_its_tags_alone_does_not(found: Seen, job: dict[str, str], why: str):
    platform: Any = Platform(found, job=SimpleNamespace(**vars(MINE) | job))
    said: list[str] = []
    assert leading(platform, KEPT, [found.trial], said.append) == ([] if why else [found.trial])
    assert why in "".join(said)


def test_a_study_whose_name_looks_like_an_option_is_led_by_its_name():
    command = conductor_of(replace(KEPT, study=replace(KEPT.study, name="--yes")), "fraud", "net").command
    assert command[-2:] == ("--", "--yes")
    assert command[command.index("--trials") + 1] == "20"


def test_runs_that_others_put_there_as_trials_are_not_run_beyond_the_limits():
    planted = [seen(Trial(number=number, params={"x": 3}, run=f"{number:032x}")) for number in range(5)]
    platform = Platform(*planted)
    assert lead(platform, trials=2).step(0.0) is None
    assert platform.called.count(jobs.SUBMIT_JOB) == 2
    assert [(one.number, one.state) for one in platform.settled] == [(number, "cancelled") for number in (2, 3, 4)]


def test_a_trial_that_names_the_running_job_of_another_is_not_waited_for():
    platform = Platform(seen(TRIAL), job=SimpleNamespace(**vars(MINE) | {"run": "2" * 32, "cause": ""}))
    outcome = lead(platform).step(0.0)
    assert outcome is not None
    assert [(one.state, one.words) for one in outcome.trials] == [("failed", "Its run names a job of another.")]
