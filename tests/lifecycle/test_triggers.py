"""What starts pipelines by itself."""

from dataclasses import replace

import pytest
from sqlalchemy import text

from falaj.base.clock import DAY, SECOND, Moment
from falaj.base.errors import Forbidden, Invalid
from falaj.base.ids import new_id
from falaj.governance.identity.operations import DISABLE_USER, OneUser
from falaj.lifecycle.operations import pipelines as pipelines
from falaj.lifecycle.operations import triggers as declared
from falaj.lifecycle.operations.pipelines import PipelineRun
from falaj.lifecycle.operations.triggers import Trigger, TriggerShown
from falaj.lifecycle.operations.words import Definition, Parameter, Step
from falaj.lifecycle.wishes import next_time
from falaj.monitoring.operations.monitors import APPLY_MONITOR, ApplyMonitor
from falaj.monitoring.store import alerts as alert_store
from falaj.operations.dispatcher import Call
from falaj.registry.operations.models import CREATE_MODEL, CreateModel, OneModel
from falaj.registry.operations.promotions import LATEST
from falaj.registry.operations.versions import CREATE_VERSION, CreateVersion
from falaj.serving.operations.endpoints import DEPLOY_REVISION, SHOW_ENDPOINT, Deploy, OneEndpoint
from falaj.tracking.operations.artifacts import PUT_ARTIFACT, PutArtifact
from falaj.tracking.operations.experiments import CREATE_EXPERIMENT, CreateExperiment
from falaj.tracking.operations.runs import CREATE_RUN, CreateRun
from tests.app.furniture import SERVABLE
from tests.lifecycle.playing import PROJECT, Stage, call, keep, ref, result_of

VERSION = Parameter(name="version", kind="any")


def set_trigger(stage: Stage, wish: Trigger, token: str = "", pipeline: str = "nightly") -> TriggerShown:
    request = declared.SetTrigger(project=PROJECT, pipeline=pipeline, trigger="by-itself", wish=wish)
    return stage.call(declared.SET_TRIGGER, request, token)


def shown(stage: Stage, pipeline: str = "nightly") -> TriggerShown:
    (one,) = stage.call(declared.LIST_TRIGGERS, declared.ListTriggers(project=PROJECT, pipeline=pipeline)).items
    return one


def runs(stage: Stage) -> list[PipelineRun]:
    """Newest first."""
    found = stage.call(pipelines.LIST_RUNS, pipelines.ListRuns(project=PROJECT, pipeline="nightly"))
    return list(found.items)


def look(stage: Stage) -> None:
    stage.platform.lifecycle.trigger(stage.clock.now())
    for _ in range(5):
        stage.turn()


def new_version(stage: Stage, model: str) -> int:
    """What it is of matters to nobody here."""
    return stage.call(CREATE_VERSION, CreateVersion(project=PROJECT, model=model, source="elsewhere")).version


def project_id(stage: Stage, work) -> str:
    gate = stage.platform.gate
    return gate.project(work, gate.generation(work), PROJECT).id


def test_a_new_version_of_a_model_starts_a_run_that_knows_which(stage: Stage):
    stage.call(CREATE_MODEL, CreateModel(project=PROJECT, model="late"))
    new_version(stage, "late")
    stage.apply(keep("which", ref("parameters.version")), parameters=(VERSION,))
    set_trigger(stage, Trigger(kind="model", about="late", parameters={"version": ref("trigger.version")}))
    look(stage)
    assert runs(stage) == []  # what was there before is not new
    new_version(stage, "late")
    look(stage)
    (run,) = runs(stage)
    assert (run.trigger, run.why, run.state) == ("by-itself", "by-itself: model late has version 2 now", "done")
    assert result_of(stage.show(run.id), "which") == 2
    look(stage)
    assert len(runs(stage)) == 1
    (leaf,) = stage.leaves("pipeline.run")
    assert (leaf.principal, leaf.facts["set_by"], leaf.facts["run"]) == ("", run.started_by.id, run.id)


def test_what_a_replay_makes_again_is_marked_and_is_no_new_version(stage: Stage):
    stage.call(CREATE_MODEL, CreateModel(project=PROJECT, model="late"))
    stage.apply(call("made", "version.create", arguments={"model": "late", "source": "elsewhere"}), name="makes")
    stage.until(stage.start("makes"))
    stage.apply(keep("end", 1))
    set_trigger(stage, Trigger(kind="model", about="late"))
    replay = stage.until(stage.start("makes", replay_of="late:1"))
    assert result_of(replay, "made")["tags"] == [{"key": "falaj.replay_of", "value": "late:1"}]
    look(stage)
    assert runs(stage) == []
    newest = stage.call(LATEST, OneModel(project=PROJECT, model="late")).items
    assert [(one.version, one.tags) for one in newest] == [(1, ())]
    candidate = stage.until(stage.start("makes"))
    assert (result_of(candidate, "made")["version"], result_of(candidate, "made")["tags"]) == (3, [])
    look(stage)
    assert [run.why for run in runs(stage)] == ["by-itself: model late has version 3 now"]


def test_a_storm_is_one_run_and_one_more_afterwards(stage: Stage):
    stage.call(CREATE_MODEL, CreateModel(project=PROJECT, model="stormy"))
    stage.apply(Step(name="ask", kind="approval", question="?"))
    set_trigger(stage, Trigger(kind="model", about="stormy"))
    for _ in range(20):
        new_version(stage, "stormy")
        look(stage)
    (first,) = runs(stage)
    assert shown(stage).waiting
    stage.call(pipelines.DECIDE_STEP, pipelines.Decide(project=PROJECT, run=first.id, step="ask", agree=True))
    stage.until(first.id)
    look(stage)
    look(stage)
    second, _ = runs(stage)
    assert second.why.endswith("version 20 now")
    assert not shown(stage).waiting


def test_a_schedule_that_was_missed_is_made_up_for_once(stage: Stage):
    stage.apply(keep("end", 1))
    due = set_trigger(stage, Trigger(kind="schedule", cron="0 6 * * *", zone="Asia/Dubai")).next
    assert due is not None
    look(stage)
    assert runs(stage) == []
    stage.clock.move(5 * DAY / SECOND)
    look(stage)
    look(stage)
    assert len(runs(stage)) == 1
    following = shown(stage).next
    assert following is not None
    assert stage.clock.now() < following <= stage.clock.now() + DAY


def test_a_schedule_whose_run_is_not_over_is_written_down_as_waiting_once(small: Stage):
    small.apply(Step(name="ask", kind="approval", question="?"), name="slow")
    set_trigger(small, Trigger(kind="schedule", cron="* * * * *"), pipeline="slow")
    count = "CREATE TRIGGER counted AFTER UPDATE ON lifecycle_triggers BEGIN INSERT INTO written VALUES (1); END"
    for statement in ("CREATE TABLE written (n)", count):
        small.platform.database.write(lambda work, statement=statement: work.execute(text(statement)))
    for _ in range(10):
        small.clock.move(61)
        look(small)
    assert shown(small, "slow").waiting
    written = small.platform.database.read(lambda work: work.execute(text("SELECT sum(n) FROM written")).scalar())
    assert written == 2  # that it started one, and that the next one waits
    small.call(declared.DELETE_TRIGGER, declared.OneTrigger(project=PROJECT, pipeline="slow", trigger="by-itself"))


@pytest.mark.parametrize("wish", [Trigger(kind="schedule", cron="0 * * * *"), Trigger(kind="model", about="again")])
def test_a_trigger_that_is_set_again_starts_none_beside_its_run_and_what_waits_afterwards(stage: Stage, wish: Trigger):
    if wish.about:
        stage.call(CREATE_MODEL, CreateModel(project=PROJECT, model=wish.about))
    stage.apply(Step(name="ask", kind="approval", question="?"))
    set_trigger(stage, wish)
    for _ in range(2):
        happens(stage, wish)
    assert (len(runs(stage)), shown(stage).waiting) == (1, True)
    again = set_trigger(stage, replace(wish, pause=1))
    assert (again.last_run, again.waiting) == (runs(stage)[0].id, True)
    look(stage)
    assert len(runs(stage)) == 1
    for _ in range(2):
        stage.call(pipelines.CANCEL_RUN, pipelines.Cancel(project=PROJECT, run=runs(stage)[0].id))
        stage.until(runs(stage)[0].id)
        stage.clock.move(2)
        look(stage)
    assert len(runs(stage)) == 2


def happens(stage: Stage, wish: Trigger) -> None:
    if wish.about:
        new_version(stage, wish.about)
    else:
        stage.clock.move(3600)
    look(stage)


def test_between_two_runs_there_is_the_pause_that_was_wished_for(small: Stage):
    small.call(CREATE_MODEL, CreateModel(project=PROJECT, model="calm"))
    small.apply(keep("end", 1))
    set_trigger(small, Trigger(kind="model", about="calm", pause=3600))
    for _ in range(3):
        new_version(small, "calm")
        look(small)
    assert len(runs(small)) == 1
    small.clock.move(3601)
    look(small)
    assert len(runs(small)) == 2


def test_nothing_is_started_in_the_name_of_somebody_who_is_shut_out(small: Stage):
    small.call(CREATE_MODEL, CreateModel(project=PROJECT, model="left"))
    leaving = small.person("leaving", "scientist")
    small.apply(keep("end", 1), name="left")
    set_trigger(small, Trigger(kind="model", about="left"), leaving, "left")
    small.call(DISABLE_USER, OneUser(user="leaving"))
    new_version(small, "left")
    look(small)
    one = shown(small, "left")
    assert (one.last_run, one.words) == ("", "Whoever set this trigger is shut out, and nothing is done in their name.")


def test_a_viewer_sets_none(small: Stage):
    viewer = small.person("looking", "viewer")
    small.apply(keep("end", 1), name="seen")
    with pytest.raises(Forbidden):
        set_trigger(small, Trigger(kind="model", about="late"), viewer, "seen")


@pytest.mark.parametrize(
    ("wish", "says"),
    [
        (Trigger(kind="schedule"), "has a `cron`"),
        (Trigger(kind="schedule", cron="every day"), "is no schedule"),
        (Trigger(kind="schedule", cron="0 6 * * *", zone="Dubai"), "no time zone"),
        (Trigger(kind="schedule", cron="0 6 * * *", about="late"), "has no `about`"),
        (Trigger(kind="model"), "needs `about`"),
        (Trigger(kind="model", about="late", parameters={"x": ref("steps.a")}), "refer to `trigger` alone"),
    ],
)
def test_what_can_never_start_anything_is_refused(small: Stage, wish: Trigger, says: str):
    small.apply(keep("end", 1), name="wrong")
    with pytest.raises(Invalid, match=says):
        set_trigger(small, wish, pipeline="wrong")


def test_schedules_follow_the_clocks_of_their_zone():
    spring = Moment.parse("2026-03-28T12:00:00Z")  # in the night that follows, clocks in Berlin go forward
    daily = Trigger(kind="schedule", cron="0 6 * * *", zone="Europe/Berlin")
    first = next_time(daily, spring)
    assert str(Moment(first)) == "2026-03-29T04:00:00.000000Z"
    assert str(Moment(next_time(Trigger(kind="schedule", cron="0 6 * * *", zone="Asia/Dubai"), spring))) == (
        "2026-03-29T02:00:00.000000Z"
    )


def alert_of(stage: Stage, monitor: str, endpoint: str, kind: str, title: str) -> str:
    """One that was raised; how that comes to pass is shown with monitors."""
    told = '{"severity": "warning", "sentences": [], "facts": {}, "columns": [], "since": null}'
    row = {
        "id": (id := new_id(stage.clock.now())), "project": stage.platform.database.read(lambda work: project_id(stage, work)),
        "monitor": monitor, "endpoint": endpoint, "endpoint_name": "late", "key": f"{kind}/1", "kind": kind, "title": title,
        "severity": "warning", "told": told, "raised": 1, "seen": 1, "sightings": 1, "acknowledged_by": "", "posted": "[]",
        "opened": stage.clock.now(),
    }  # fmt: skip
    stage.platform.database.write(lambda work: alert_store.add(work, row))
    return id


def test_an_alert_of_drift_starts_a_run_that_knows_it_and_one_about_service_does_not(stage: Stage):
    endpoint = deployed(stage, "late")
    monitor = stage.call(APPLY_MONITOR, ApplyMonitor(project=PROJECT, endpoint="late")).id
    stage.apply(keep("why", ref("parameters.version")), parameters=(VERSION,))
    set_trigger(stage, Trigger(kind="drift", about="late", parameters={"version": ref("trigger.title")}))
    alert_of(stage, monitor, endpoint, "service", "late is slow")
    look(stage)
    assert runs(stage) == []
    alert_of(stage, monitor, endpoint, "drift", "dep_hour drifts")
    look(stage)
    (run,) = runs(stage)
    assert run.why == "by-itself: alert of endpoint late: dep_hour drifts"
    assert result_of(stage.show(run.id), "why") == "dep_hour drifts"


def test_an_alert_of_drift_is_seen_however_many_of_another_kind_came_after_it(stage: Stage):
    endpoint = deployed(stage, "late")
    monitor = stage.call(APPLY_MONITOR, ApplyMonitor(project=PROJECT, endpoint="late")).id
    stage.apply(keep("end", 1))
    set_trigger(stage, Trigger(kind="drift", about="late"))
    alert_of(stage, monitor, endpoint, "drift", "dep_hour drifts")
    for number in range(60):
        alert_of(stage, monitor, endpoint, "service", f"late is slow for the {number}. time")
    look(stage)
    assert [run.why for run in runs(stage)] == ["by-itself: alert of endpoint late: dep_hour drifts"]


def test_quality_that_falls_and_an_alert_that_comes_back_start_a_run_too(stage: Stage):
    endpoint = deployed(stage, "late")
    monitor = stage.call(APPLY_MONITOR, ApplyMonitor(project=PROJECT, endpoint="late")).id
    stage.apply(keep("end", 1))
    set_trigger(stage, Trigger(kind="drift", about="late"))
    drifts = alert_of(stage, monitor, endpoint, "drift", "dep_hour drifts")
    look(stage)
    alert_of(stage, monitor, endpoint, "quality", "accuracy falls")
    look(stage)
    back = {"opened": stage.clock.now(), "resolved": None}
    stage.platform.database.write(lambda work: alert_store.change(work, drifts, resolved=stage.clock.now()))
    look(stage)
    assert len(runs(stage)) == 2
    stage.platform.database.write(lambda work: alert_store.change(work, drifts, **back))
    look(stage)
    look(stage)
    titles = [run.why.rpartition(": ")[2] for run in runs(stage)]
    assert titles == ["dep_hour drifts", "accuracy falls", "dep_hour drifts"]


def deployed(stage: Stage, endpoint: str) -> str:
    """Its id. A model with one small file that can be served."""
    experiment = stage.call(CREATE_EXPERIMENT, CreateExperiment(project=PROJECT, name="served")).id
    run = stage.call(CREATE_RUN, CreateRun(project=PROJECT, experiment=experiment)).info.id
    put = PutArtifact(project=PROJECT, holder=run, name="model.onnx")
    stage.platform.dispatcher.call(
        PUT_ARTIFACT, put, Call(credentials=stage.owner, request_id="r", chunks=iter([SERVABLE.read_bytes()]))
    )
    stage.call(CREATE_MODEL, CreateModel(project=PROJECT, model="served"))
    stage.call(CREATE_VERSION, CreateVersion(project=PROJECT, model="served", holder=run))
    stage.call(DEPLOY_REVISION, Deploy(project=PROJECT, endpoint=endpoint, model="served", version=1))
    return stage.call(SHOW_ENDPOINT, OneEndpoint(project=PROJECT, endpoint=endpoint)).id


def test_nobody_gets_done_through_another_ones_trigger_what_they_may_not_do(small: Stage):
    """Whoever may write pipelines may change one that an engineer's trigger starts."""
    small.call(CREATE_MODEL, CreateModel(project=PROJECT, model="shared"))
    engineer, scientist = small.person("deploying", "engineer"), small.person("changing", "scientist")
    small.apply(keep("end", 1), name="shared")
    set_trigger(small, Trigger(kind="model", about="shared"), engineer, "shared")
    gone = call("gone", "endpoint.delete", arguments={"endpoint": "late"})
    request = pipelines.Apply(project=PROJECT, pipeline="shared", definition=Definition(steps=(gone,)))
    small.call(pipelines.APPLY_PIPELINE, request, scientist)
    new_version(small, "shared")
    look(small)
    one = shown(small, "shared")
    assert one.last_run == ""
    assert one.words.startswith("changing changed the pipeline since this trigger was set, and may not do what it does")
    harmless = pipelines.Apply(project=PROJECT, pipeline="shared", definition=Definition(steps=(keep("end", 2),)))
    small.call(pipelines.APPLY_PIPELINE, harmless, scientist)
    new_version(small, "shared")
    look(small)
    assert shown(small, "shared").last_run
