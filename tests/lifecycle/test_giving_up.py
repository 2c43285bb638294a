"""Steps that are given up, because somebody stops the run or their time is over: what they brought under way ends with them,
and is over before it is done anew."""

import time
from typing import Any

import pytest
from sqlalchemy import select, update

from falaj.base.clock import DAY, SECOND
from falaj.base.errors import Forbidden
from falaj.base.ids import new_id
from falaj.client.packing import packed_alone
from falaj.governance.identity.operations import CREATE_TOKEN, CreateToken
from falaj.jobs.operations.jobs import LIST_JOBS, UPLOAD_SOURCE, Job, ListJobs, UploadSource
from falaj.jobs.store.tables import jobs as job_table
from falaj.lifecycle.operations import pipelines as declared
from falaj.lifecycle.operations.pipelines import PipelineRun
from falaj.lifecycle.operations.words import Function, Step, Until
from falaj.lifecycle.store import runs as run_store
from falaj.operations.dispatcher import Call
from falaj.operations.store import replays
from falaj.optimisation.operations.optimisations import LIST_OPTIMISATIONS, ListOptimisations
from falaj.tracking.operations.experiments import CREATE_EXPERIMENT, SEARCH_EXPERIMENTS, CreateExperiment, SearchExperiments
from tests.lifecycle.gates.hall import ASKED, CSV, MEASURED, MODEL, WHOLE, Hall, put_rows
from tests.lifecycle.playing import PROJECT, Stage, call, op, ref, state_of
from tests.lifecycle.test_triggers import deployed

HOUR = 3600
PATIENCE = 60.0
MANY = 30


def trains(**fields: Any) -> Step:
    """As `falaj.steps.train` writes it down."""
    spec = {"name": "train", "command": ["sleep", "600"], "resources": {"cpus": 0.1, "memory_mib": 64}, "timeout": 600}
    until = Until(
        operation="job.show",
        arguments={"job": ref("called.job.id")},
        done=op("==", ref("answer.state"), "done"),
        failed=op("in", ref("answer.state"), ["failed", "cancelled"]),
        every=0.1,
    )
    return call("train", "job.submit", arguments={"spec": spec}, until=until, **fields)


def begun(stage: Stage, *steps: Step, **fields: Any) -> str:
    """A run of these, once its first step has a job."""
    stage.apply(*steps, **fields)
    run = stage.start()
    stage.until(run, lambda shown: shown.steps[0].job)
    return run


def jobs_of(stage: Stage) -> list[Job]:
    """Oldest first."""
    return list(reversed(stage.call(LIST_JOBS, ListJobs(project=PROJECT)).items))


def cancel(stage: Stage, run: str) -> None:
    stage.call(declared.CANCEL_RUN, declared.Cancel(project=PROJECT, run=run))


def called_off(stage: Stage, times: int = 1) -> None:
    """Its job was asked to end, so often."""
    deadline = time.monotonic() + PATIENCE
    while len(stage.leaves("job.cancel")) < times:
        assert time.monotonic() < deadline, "nothing was called off"
        stage.turn()


def ended(stage: Stage, run: str) -> PipelineRun:
    """With the controller of jobs at work."""
    deadline = time.monotonic() + PATIENCE
    while (shown := stage.show(run)).state == "running":
        assert time.monotonic() < deadline, shown
        stage.platform.jobs.step()
        stage.clock.move(1)
        stage.turn()
    return shown


def started(stage: Stage, job: str) -> None:
    """As if it had, just now."""
    change = update(job_table).where(job_table.c.id == job).values(started=stage.clock.now())
    stage.platform.database.write(lambda work: work.execute(change))


def doubles(stage: Stage, **fields: Any) -> dict[str, Any]:
    asked = Call(credentials=stage.owner, request_id=new_id(stage.clock.now()), chunks=iter([packed_alone({"a.py": b"x"})]))
    source = stage.platform.dispatcher.call(UPLOAD_SOURCE, UploadSource(project=PROJECT), asked).digest
    function = Function(file="a.py", name="double", code="")
    return {"step": Step(name="double", kind="function", function=function, **fields), "source": source}


def fails(stage: Stage, job: str, code: int) -> None:
    """As if its program had, with nothing told."""
    fields = {"state": "failed", "ended": stage.clock.now(), "cause": "failed", "code": code, "words": f"It ended with {code}."}
    change = update(job_table).where(job_table.c.id == job).values(**fields)
    stage.platform.database.write(lambda work: work.execute(change))


def many(stage: Stage) -> str:
    """A run that makes an experiment for each of many, all of which are under way and of which none was called."""
    items = list(range(MANY))
    named = {"name": op("text", "of ", ref("item"))}
    stage.apply(call("made", "experiment.create", arguments=named, each=items, at_once=MANY))
    run = stage.start()
    stage.turn()
    assert [state_of(stage.show(run), "made", item) for item in items] == ["running"] * MANY
    return run


def made(stage: Stage) -> list[str]:
    found = stage.call(SEARCH_EXPERIMENTS, SearchExperiments(project=PROJECT, limit=1000)).items
    return sorted(one.name for one in found if one.name != "Default")


def done_of(run: PipelineRun) -> list[str]:
    return sorted(f"of {one.item}" for one in run.steps if one.item >= 0 and one.state == "done")


def test_what_a_stopped_run_was_about_to_call_is_not_called(stage: Stage):
    run = many(stage)
    cancel(stage, run)
    shown = stage.until(run)
    assert {one.state for one in shown.steps} == {"cancelled"}
    assert made(stage) == []
    stage.call(declared.RESUME_RUN, declared.OneRun(project=PROJECT, run=run))
    assert stage.until(run).state == "done"
    assert made(stage) == sorted(f"of {item}" for item in range(MANY))


def test_what_was_called_before_the_platform_died_counts_in_a_run_that_is_stopped(stage: Stage):
    run = many(stage)
    stage.turn()
    stage.platform.lifecycle.close()  # what came of it is known to nobody any more
    stage.platform.lifecycle.attend(stage.platform.dispatcher)
    cancel(stage, run)
    shown = stage.until(run)
    assert shown.state == "cancelled"
    assert 0 < len(made(stage)) < MANY
    assert made(stage) == done_of(shown)


def test_what_was_called_before_a_long_outage_is_not_called_again(stage: Stage):
    run = many(stage)
    stage.turn()
    stage.platform.lifecycle.close()  # what came of it is known to nobody any more
    stage.platform.lifecycle.attend(stage.platform.dispatcher)
    stage.clock.move(3 * DAY / SECOND)
    forget(stage, "during the outage")
    shown = stage.until(run)
    assert (shown.state, made(stage)[1:]) == ("done", sorted(f"of {item}" for item in range(MANY)))
    assert kept_of(stage, run) == MANY
    stage.clock.move(3 * DAY / SECOND)
    forget(stage, "long after its end")
    assert kept_of(stage, run) == 0


def forget(stage: Stage, name: str) -> None:
    """Any call that carries a key forgets what is old."""
    stage.call(CREATE_EXPERIMENT, CreateExperiment(project=PROJECT, name=name), key=name)


def kept_of(stage: Stage, run: str) -> int:
    """Answers that are kept for it."""
    mine = select(replays).where(replays.c.key.contains(run))
    return len(stage.platform.database.read(lambda work: work.execute(mine).all()))


def test_what_was_withdrawn_before_the_platform_died_stays_so(stage: Stage):
    run = many(stage)
    cancel(stage, run)
    stage.turn()
    stage.platform.lifecycle.close()
    stage.platform.lifecycle.attend(stage.platform.dispatcher)
    assert {one.state for one in stage.until(run).steps} == {"cancelled"}
    assert made(stage) == []


def test_once_a_step_has_failed_nothing_else_is_called(stage: Stage):
    run = stage.play(
        call("missing", "model.show", arguments={"model": "nobody"}),
        call(
            "made", "experiment.create", arguments={"name": op("text", "of ", ref("item"))}, each=list(range(200)), at_once=200
        ),
    )
    assert (run.state, state_of(run, "missing")) == ("failed", "failed")
    assert len(made(stage)) < 100
    assert made(stage) == done_of(run)


def test_a_stopped_run_ends_once_the_job_that_a_step_submitted_is_over(stage: Stage):
    run = begun(stage, trains())
    cancel(stage, run)
    called_off(stage)
    assert stage.show(run).state == "running"  # what is still there would stand beside the next try
    shown = ended(stage, run)
    assert (shown.state, state_of(shown, "train")) == ("cancelled", "cancelled")
    assert [one.state for one in jobs_of(stage)] == ["cancelled"]
    stage.call(declared.RESUME_RUN, declared.OneRun(project=PROJECT, run=run))
    again = stage.until(run, lambda shown: shown.steps[0].job)
    assert [one.state for one in jobs_of(stage)] == ["cancelled", "waiting"]
    assert again.steps[0].job == jobs_of(stage)[1].id
    assert len(stage.leaves("job.cancel")) == 1


def test_a_function_of_a_stopped_run_ends_with_its_job(stage: Stage):
    given = doubles(stage)
    run = begun(stage, given["step"], source=given["source"])
    cancel(stage, run)
    assert ended(stage, run).state == "cancelled"
    assert [one.state for one in jobs_of(stage)] == ["cancelled"]
    assert len(stage.leaves("job.cancel")) == 1


def test_an_optimisation_that_was_planned_when_the_run_was_stopped_is_not_submitted(stage: Stage):
    deployed(stage, "late")  # of the model `served`
    put_rows(Hall(stage), "known", CSV)
    given = {"model": "served", "version": 1, "on": "known@1"}
    stage.apply(Step(name="smaller", kind="optimise", arguments=given))
    run = stage.start()
    for _ in range(MANY):
        stage.turn()
        found = stage.platform.database.read(lambda work: run_store.step(work, run, "smaller", -1))
        if found is not None and found.called:
            break
    else:
        raise AssertionError(stage.show(run))
    cancel(stage, run)
    shown = stage.until(run)
    assert (shown.state, state_of(shown, "smaller"), jobs_of(stage)) == ("cancelled", "cancelled", [])
    (planned,) = stage.call(LIST_OPTIMISATIONS, ListOptimisations(project=PROJECT)).items
    assert planned.state == "abandoned"
    stage.call(declared.RESUME_RUN, declared.OneRun(project=PROJECT, run=run))
    again = stage.until(run, lambda shown: shown.steps[0].job)
    assert [one.id for one in jobs_of(stage)] == [again.steps[0].job]


@pytest.mark.parametrize("kind", ["operation", "function"])
def test_the_time_of_a_step_begins_when_its_job_does(stage: Stage, kind: str):
    given = doubles(stage, seconds=60) if kind == "function" else {"step": trains(seconds=60), "source": ""}
    run = begun(stage, given["step"], source=given["source"])
    stage.clock.move(30 * HOUR)
    for _ in range(10):
        stage.turn()
    (job,) = jobs_of(stage)
    assert (stage.show(run).state, job.state) == ("running", "waiting")
    assert stage.leaves("job.cancel") == []
    if kind == "function":
        assert job.spec.timeout == 60  # to which it is kept by whatever runs it
        return
    started(stage, job.id)
    stage.clock.move(59)
    for _ in range(10):
        stage.turn()
    assert stage.leaves("job.cancel") == []
    stage.clock.move(2)
    called_off(stage)
    shown = ended(stage, run)
    assert (shown.state, shown.words) == ("failed", "train: It was not over after 60 seconds.")
    assert [one.state for one in jobs_of(stage)] == ["cancelled"]


def test_the_job_of_a_try_is_over_before_the_next_try_has_one(small: Stage):
    run = begun(small, trains(seconds=60, retries=1))
    known = {one.id for one in jobs_of(small)}
    first = small.show(run).steps[0].job
    started(small, first)
    small.clock.move(61)
    deadline = time.monotonic() + PATIENCE
    while (now := small.show(run).steps[0]).attempt == 1:
        assert time.monotonic() < deadline, now
        assert {one.id for one in jobs_of(small)} == known
        small.platform.jobs.step()
        small.clock.move(10)
        small.turn()
    assert next(one.state for one in jobs_of(small) if one.id == first) == "cancelled"
    cancel(small, run)
    ended(small, run)


def test_a_job_that_ended_well_before_it_was_stopped_counts(small: Stage):
    run = begun(small, trains())
    done = {"state": "done", "ended": small.clock.now()}
    change = update(job_table).where(job_table.c.id == small.show(run).steps[0].job).values(**done)
    small.platform.database.write(lambda work: work.execute(change))
    cancel(small, run)
    shown = small.until(run)
    assert (shown.state, state_of(shown, "train")) == ("cancelled", "done")


def test_what_cannot_be_asked_about_does_not_leave_its_job_behind(small: Stage):
    odd = trains()
    assert odd.until is not None
    until = Until(operation="job.show", arguments=odd.until.arguments, done=ref("answer.nothing.there"))
    small.apply(call("train", "job.submit", arguments=odd.arguments, until=until))
    run = small.start()
    shown = ended(small, run)
    assert (shown.state, state_of(shown, "train")) == ("failed", "failed")
    assert jobs_of(small)[-1].state == "cancelled"


def test_a_function_that_could_not_reach_the_platform_is_tried_again_and_one_that_failed_is_not(small: Stage):
    parts = doubles(small, retries=1)
    run = begun(small, parts["step"], source=parts["source"])
    fails(small, small.show(run).steps[0].job, 75)
    small.until(run, lambda shown: shown.steps[0].words.startswith("Try 1 failed (temporary)"))
    small.clock.move(3600)
    small.until(run, lambda shown: (shown.steps[0].attempt, bool(shown.steps[0].job)) == (2, True))
    fails(small, small.show(run).steps[0].job, 1)
    assert state_of(small.until(run), "double") == "failed"
    run = begun(small, parts["step"], source=parts["source"])
    fails(small, small.show(run).steps[0].job, 1)
    shown = small.until(run)
    assert (shown.steps[0].attempt, shown.steps[0].state) == (1, "failed")


def waits_for_gates(stage: Stage) -> Hall:
    """A version, its gates, and a pipeline with one step that is over once they are."""
    hall = Hall(stage, versions=1)
    for dataset in ("known", "later"):
        put_rows(hall, dataset, CSV)
    hall.apply(ASKED, MEASURED, WHOLE)
    version = {"model": MODEL, "version": 1}
    until = Until(
        operation="gate.results",
        arguments={**version, "batch": ref("called.batch")},
        done=ref("answer.passed"),
        failed=op("and", ref("answer.over"), op("not", ref("answer.passed"))),
    )
    stage.apply(call("gates", "gate.run", arguments=version, until=until))
    return hall


def test_gates_that_a_stopped_run_began_are_called_off(small: Stage):
    hall = waits_for_gates(small)
    run = small.start()
    small.until(run, lambda _: hall.results(1))
    cancel(small, run)
    assert ended(small, run).state == "cancelled"
    states = {one.gate: hall.job(one.job).state for one in hall.results(1).values() if one.job}
    assert states == {"asked": "cancelled", "apart": "cancelled"}
    hall.settle()
    assert {one.gate: one.passed for one in hall.evidence(1)} == {"asked": False, "apart": False, "whole": True}


def test_a_step_that_waits_for_gates_says_which_failed_and_where_its_job_wrote_why(stage: Stage):
    hall = waits_for_gates(stage)
    run = stage.start()
    stage.until(run, lambda _: hall.results(1))
    jobs = {name: one.job for name, one in hall.results(1).items() if one.job}
    hall.call_off(*jobs.values())
    hall.settle()
    shown = ended(stage, run)
    found = hall.results(1)
    assert (shown.state, state_of(shown, "gates")) == ("failed", "failed")
    for name, job in jobs.items():
        told = f"The gate {name} failed: {found[name].words} `falaj job logs {job[-8:]}` shows what its job wrote."
        assert told in shown.steps[0].words
    assert "whole" not in shown.steps[0].words  # which passed


def test_a_run_that_a_stopped_run_waits_for_is_stopped(small: Stage):
    small.apply(Step(name="ask", kind="approval", question="?"), name="inner")
    until = Until(
        operation="pipeline.show-run",
        arguments={"run": ref("called.id")},
        done=op("==", ref("answer.state"), "done"),
        failed=op("in", ref("answer.state"), ["failed", "cancelled"]),
    )
    small.apply(call("inner", "pipeline.run", arguments={"pipeline": "inner"}, until=until), name="outer")
    outer = small.start("outer")
    listed = declared.ListRuns(project=PROJECT, pipeline="inner")
    small.until(outer, lambda _: small.call(declared.LIST_RUNS, listed).items)
    cancel(small, outer)
    assert ended(small, outer).state == "cancelled"
    assert [one.state for one in small.call(declared.LIST_RUNS, listed).items] == ["cancelled"]


def test_nobody_starts_what_they_could_not_call_off(small: Stage):
    small.apply(trains(), name="training")
    narrow = small.call(CREATE_TOKEN, CreateToken(label="narrow", scopes=("pipeline.run", "pipeline.read", "job.read")))
    with pytest.raises(Forbidden, match=r"job\.submit"):
        small.start("training", token=narrow.token)
