"""Who attacks pipelines: by what says nothing sensible, or too much; by what others did, agreed to or set."""

import threading
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from falaj.app.platform import OPERATIONS
from falaj.base.clock import Moment
from falaj.base.errors import Conflict, Forbidden, Invalid, NotFound, PermanentError
from falaj.base.ids import new_id
from falaj.base.values import Nothing
from falaj.client.packing import packed_alone
from falaj.database.work import UnitOfWork
from falaj.governance.identity import operations as identity
from falaj.governance.projects.operations import CREATE_PROJECT, CreateProject
from falaj.jobs.operations.jobs import UPLOAD_SOURCE, UploadSource
from falaj.lifecycle import executor, service, starting, triggers
from falaj.lifecycle.alerted import AlertedRuns
from falaj.lifecycle.checking import order_of
from falaj.lifecycle.deciding import ENOUGH_WORK, Outcome, Plan, Snapshot, Standing
from falaj.lifecycle.doing import Doing, Order
from falaj.lifecycle.operations import pipelines as declared
from falaj.lifecycle.operations.triggers import DELETE_TRIGGER, SET_TRIGGER, OneTrigger, SetTrigger, Trigger
from falaj.lifecycle.operations.words import LARGEST, Definition, Function, Parameter, Step, Until
from falaj.lifecycle.records import row_of
from falaj.lifecycle.store import runs as run_store
from falaj.monitoring import wishers
from falaj.operations.dispatcher import Call
from falaj.registry.operations.models import CREATE_MODEL, CreateModel
from falaj.registry.operations.promotions import GIVE_APPROVAL, GiveApproval
from falaj.registry.operations.versions import CREATE_VERSION, CreateVersion
from falaj.tracking.operations.artifacts import PUT_ARTIFACT, PutArtifact
from falaj.tracking.operations.experiments import CREATE_EXPERIMENT, CreateExperiment
from falaj.tracking.operations.runs import CREATE_RUN, CreateRun
from tests.app.furniture import SERVABLE
from tests.lifecycle.playing import PROJECT, Stage, call, keep, op, ref, result_of, state_of
from tests.lifecycle.test_triggers import look, new_version, shown

LONG = "x" * 100_000


def nested(depth: int) -> object:
    made: object = 1
    for _ in range(depth):
        made = [made]
    return made


# What says nothing sensible

ODD = {
    "minus-minus": [keep("rows", [1, 2]), keep("odd", ref("steps.rows.--1"))],
    "superscript": [keep("rows", [1, 2]), keep("odd", ref("steps.rows.²"))],
    "far": [keep("rows", [1, 2]), keep("odd", ref(f"steps.rows.{'9' * 900}"))],
    "soon": [Step(name="odd", kind="wait", arguments={"seconds": "soon"})],
    "never": [Step(name="odd", kind="wait", arguments={"seconds": None})],
    "several": [Step(name="odd", kind="wait", arguments={"seconds": [1]})],
    "before": [Step(name="odd", kind="wait", arguments={"seconds": -1})],
    "for-ever": [Step(name="odd", kind="wait", arguments={"seconds": 1e300})],
    "and-longer": [Step(name="odd", kind="wait", arguments={"seconds": 10**400})],
    "version-of-nothing": [keep("odd", {"model": "x", "version": 10**400})],
    "number": [keep("number", 10**4000), keep("odd", op("<", ref("steps.number"), "many"))],
}


def test_runs_that_make_no_sense_end_and_hold_up_nobody(stage: Stage):
    for name, steps in ODD.items():
        stage.apply(*steps, name=name)
    odd = {name: stage.start(name) for name in ODD}
    stage.apply(keep("end", 1))
    run = stage.until(stage.start())
    assert run.state == "done"
    states = {name: stage.until(one).state for name, one in odd.items()}
    assert states == {name: "done" if name == "version-of-nothing" else "failed" for name in ODD}


def test_a_run_that_cannot_be_read_stands_still_is_looked_at_now_and_then_and_goes_on_once_it_can(
    small: Stage, caplog: pytest.LogCaptureFixture
):
    small.apply(Step(name="ask", kind="approval", question="?"), name="unread")
    run = small.start("unread")
    small.until(run, lambda shown: state_of(shown, "ask") == "asking")
    row = small.platform.database.read(lambda work: run_store.by_id(work, run))
    small.platform.database.write(lambda work: run_store.change(work, run, options="{"))
    for seen in (1, 2):
        for _ in range(5):
            small.turn()
        assert sum(f"{run} cannot be read" in one.getMessage() for one in caplog.records) == seen
        small.clock.move(61)
    small.platform.database.write(lambda work: run_store.change(work, run, options=row.options))
    small.call(declared.DECIDE_STEP, declared.Decide(project=PROJECT, run=run, step="ask", agree=True))
    assert small.until(run).state == "done"


def test_what_is_nested_too_deeply_is_refused_because_no_list_could_show_it(small: Stage):
    small.apply(keep("end", ref("parameters.given")), name="deep", parameters=(Parameter(name="given"),))
    for depth in (150, 300, 900):
        with pytest.raises(PermanentError, match="100 deep"):
            small.start("deep", parameters={"given": nested(depth)})
    assert small.until(small.start("deep", parameters={"given": nested(90)})).state == "done"


# What says too much

MANY = 5000


@pytest.mark.parametrize(
    "bomb",
    [
        [ref("steps.long")] * MANY,
        op("text", *[ref("steps.long")] * MANY),
        [op("text", ref("steps.long"), "x")] * MANY,
        [op("==", ref("steps.many"), ref("steps.same"))] * MANY,
        [ref(".".join(["steps", *["a"] * 490]))] * MANY,
    ],
    ids=["list", "text", "texts", "compared", "ways"],
)
def test_a_short_definition_does_not_become_gigabytes_or_hours(small: Stage, bomb: Any):
    many = list(range(20_000))
    given = Step(name="a", kind="value", arguments={"value": 1})
    run = small.play(given, keep("long", LONG), keep("many", many), keep("same", many), keep("bomb", bomb))
    assert (run.state, state_of(run, "bomb")) == ("failed", "failed")


def test_what_a_run_keeps_has_an_end(small: Stage):
    run = small.play(keep("long", LONG), keep("copies", ref("steps.long"), each=list(range(400)), at_once=400))
    assert run.state == "failed"
    assert "16 MiB" in run.words
    assert sum(one.state == "done" for one in run.steps) < 200


def test_what_all_runs_of_a_project_keep_together_has_an_end(stage: Stage, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(executor, "MOST_OF_PROJECT", 500_000)
    monkeypatch.setattr(starting, "MOST_OF_PROJECT", 500_000)
    paid, given = Step(name="paid", kind="wait", event="paid"), (Parameter(name="long", kind="text", default=""),)
    stage.apply(paid, keep("copy", ref("parameters.long"), after=("paid",)), name="waits", parameters=given)
    first, second = (stage.start("waits", parameters={"long": LONG}) for _ in range(2))
    send = declared.SendEvent(project=PROJECT, run=first, event="other", content={"long": LONG})
    stage.call(declared.SEND_EVENT, send)
    stage.call(declared.SEND_EVENT, send)
    with pytest.raises(Conflict, match="which is the most"):
        stage.call(declared.SEND_EVENT, send)
    with pytest.raises(Conflict, match="Cancel some"):
        stage.start("waits", parameters={"long": LONG})
    others(stage, "beside", keep("end", 1))
    stage.start(project="beside")
    stage.call(declared.SEND_EVENT, replace(send, run=second, event="paid", content={}))
    grown = stage.until(second)
    assert (grown.state, "runs of the project" in grown.words) == ("failed", True)
    stage.call(declared.SEND_EVENT, replace(send, content={}))
    stage.call(declared.CANCEL_RUN, declared.Cancel(project=PROJECT, run=first))
    stage.until(first)
    stage.call(declared.RESUME_RUN, declared.OneRun(project=PROJECT, run=second))
    assert stage.until(second).state == "done"
    row = stage.platform.database.read(lambda work: run_store.by_id(work, second))
    assert 3 * len(LONG) < row.kept < 3 * len(LONG) + 1000


def test_a_run_whose_results_are_large_together_ends_all_the_same(small: Stage):
    run = small.play(*(keep(f"long-{number}", LONG) for number in range(4)))
    assert run.state == "done"
    small.turn()
    assert len([leaf for leaf in small.leaves("pipeline.end") if leaf.facts["run"] == run.id]) == 1


def test_an_answer_that_is_too_large_to_be_kept_fails_the_step_that_asked(small: Stage):
    for number in range(15):
        small.call(CREATE_MODEL, CreateModel(project=PROJECT, model=f"wordy-{number}", description="x" * 20_000))
    until = Until(operation="model.show", arguments={"model": "wordy-1"}, done=False)
    run = small.play(call("many", "model.search", until=until))
    assert (run.state, "256 KiB" in run.words) == ("failed", True)


def test_who_wants_to_ask_all_the_time_asks_ten_times_a_second(small: Stage):
    asks = call(
        "asks",
        "experiment.create",
        arguments={"name": "asked"},
        until=Until(operation="experiment.show", arguments={"experiment": ref("called.id")}, done=False, every=0.0),
    )
    small.apply(asks, name="asking")
    run, dues = small.start("asking"), list[int]()
    for _ in range(200):
        small.turn()
        row = small.platform.database.read(lambda work: run_store.step(work, run, "asks", -1))
        if row is not None and row.due and row.due not in dues:
            dues.append(row.due)
    small.call(declared.CANCEL_RUN, declared.Cancel(project=PROJECT, run=run))
    small.until(run)
    assert dues
    assert all(after - before >= 100_000 for before, after in pairwise(dues))


def test_what_one_run_is_sent_has_an_end(small: Stage, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(service, "MOST_SENT", LARGEST)
    small.apply(Step(name="paid", kind="wait", event="paid"), name="sent")
    run = small.start("sent")
    send = declared.SendEvent(project=PROJECT, run=run, event="other", content={"long": LONG})
    small.call(declared.SEND_EVENT, send)
    small.call(declared.SEND_EVENT, send)
    with pytest.raises(Conflict, match="2 events already"):
        small.call(declared.SEND_EVENT, send)
    small.call(declared.CANCEL_RUN, declared.Cancel(project=PROJECT, run=run))
    small.until(run)


def test_steps_that_all_wait_for_each_other_are_put_in_order_at_once():
    """In seconds where every step was held against every other one, in each round anew."""
    names = [f"s{number}" for number in range(500)]
    steps = tuple(keep(name, 1, after=tuple(names[:number])) for number, name in enumerate(names))
    assert order_of(Definition(steps=steps)) == tuple(names)
    assert order_of(Definition(steps=steps[::-1])) == tuple(names)


def test_a_pipeline_that_runs_itself_ends(small: Stage):
    small.apply(call("again", "pipeline.run", arguments={"pipeline": "endless"}), name="endless")
    first = small.until(small.start("endless"))
    assert first.state == "done"
    for _ in range(100):
        small.turn()
    found = small.call(declared.LIST_RUNS, declared.ListRuns(project=PROJECT, pipeline="endless")).items
    assert [one.state for one in found] == ["failed", *["done"] * 4]
    assert "never ends" in found[0].words


def test_slow_calls_of_some_projects_leave_room_for_those_of_others(small: Stage, monkeypatch: pytest.MonkeyPatch):
    slow, enough = [f"slow-{number}" for number in range(4)], threading.Event()
    done = Doing.do

    def held_up(doing: Doing, order: Order) -> Outcome:
        if order.pipeline == "slow":
            enough.wait(60)
        return done(doing, order)

    monkeypatch.setattr(Doing, "do", held_up)
    asks = call("asks", "experiment.search", each=list(range(20)), at_once=20)
    for project in slow:
        small.call(CREATE_PROJECT, CreateProject(name=project, zones=("home",)))
        small.apply(asks, name="slow", project=project)
        small.start("slow", project=project)
    for _ in range(10):
        small.turn()
    try:
        assert small.play(call("quick", "experiment.search")).state == "done"
    finally:
        enough.set()


COUNTED = op("count", ref("parameters.zeros.*"))


def others(stage: Stage, project: str, *steps: Step, **fields: Any) -> None:
    """A pipeline in a project beside the tests' own."""
    stage.call(CREATE_PROJECT, CreateProject(name=project, zones=("home",)))
    stage.apply(*steps, project=project, **fields)


def test_however_much_one_project_has_to_be_worked_out_it_gets_its_share_of_a_turn_run_after_run(
    small: Stage, monkeypatch: pytest.MonkeyPatch
):
    steps = [keep(f"counted-{number}", COUNTED) for number in range(12)]
    others(small, "busy", *steps, parameters=(Parameter(name="zeros", kind="list"),))
    busy = {small.start(project="busy", parameters={"zeros": [0] * 100_000}) for _ in range(3)}
    small.apply(keep("end", 1))
    quick, turns, decided = small.start(), list[list[tuple[str, int]]](), executor.decide

    def noted(snapshot: Snapshot, now: Moment) -> Plan:
        plan = decided(snapshot, now)
        turns[-1].append((snapshot.id, plan.work))
        return plan

    monkeypatch.setattr(executor, "decide", noted)
    for _ in range(20):
        turns.append([])
        small.turn()
    spent = [[work for id, work in turn if id in busy] for turn in turns]
    assert sum(map(sum, spent)) > 3 * 12 * 100_000
    assert all(sum(turn[:-1]) <= ENOUGH_WORK and max(turn, default=0) < 2 * ENOUGH_WORK for turn in spent)
    firsts = [next(number for number, turn in enumerate(turns) if run in dict(turn)) for run in (quick, *busy)]
    assert firsts[0] == min(firsts)
    assert len(set(firsts[1:])) == len(busy)
    assert max(firsts) < 5
    assert small.show(quick).state == "done"


def test_much_that_was_sent_to_the_runs_of_one_project_is_read_in_several_turns(small: Stage, monkeypatch: pytest.MonkeyPatch):
    others(small, "told", Step(name="paid", kind="wait", event="paid"), parameters=(Parameter(name="long", kind="text"),))
    told = [small.start(project="told", parameters={"long": LONG}) for _ in range(8)]
    for _ in range(8):
        small.turn()
    turns, read = list[list[str]](), executor.Executor._read

    def noted(self: executor.Executor, work: UnitOfWork, run: str) -> executor.Live | None:
        turns[-1].append(run)
        return read(self, work, run)

    monkeypatch.setattr(executor.Executor, "_read", noted)
    for run in told:
        small.call(declared.SEND_EVENT, declared.SendEvent(project="told", run=run, event="paid"))
    for _ in range(8):
        turns.append([])
        small.turn()
    seen = [run for turn in turns for run in turn if run in told]
    assert sorted(seen) == sorted(told)
    assert max(map(len, turns)) == 3
    assert all(small.call(declared.SHOW_RUN, declared.OneRun(project="told", run=run)).state == "done" for run in told)


class Looked(dict[Any, Standing]):
    """How something stands, and how often all of it was looked at."""

    times = 0

    def values(self) -> Any:
        Looked.times += 1
        return super().values()


def test_a_run_that_waits_is_not_looked_at_item_by_item_in_every_turn(small: Stage):
    many = keep("many", ref("item"), each=list(range(100)), at_once=100)
    small.apply(many, Step(name="paid", kind="wait", event="paid"), name="waits")
    run = small.start("waits")
    small.until(run, lambda shown: state_of(shown, "many") == "done")
    small.turn()
    own: Any = small.platform.lifecycle._executor
    own._live[run] = replace(own._live[run], standings=Looked(own._live[run].standings))
    for _ in range(5):
        small.turn()
    assert run in own._live
    assert Looked.times == 0
    small.call(declared.CANCEL_RUN, declared.Cancel(project=PROJECT, run=run))
    small.until(run)


# What others did

FILES = {"steps.py": b"def made():\n    return 1\n"}
EVIL = {"steps.py": b"def made():\n    return 'mine'\n"}


def source(stage: Stage, files: dict[str, bytes]) -> str:
    asked = Call(credentials=stage.owner, request_id=new_id(stage.clock.now()), chunks=iter([packed_alone(files)]))
    return str(stage.platform.dispatcher.call(UPLOAD_SOURCE, UploadSource(project=PROJECT), asked).digest)


def apply_made(stage: Stage, name: str, files: dict[str, bytes], token: str, *more: Step) -> None:
    """A function that says that it is made of the same, however it is."""
    function = Function(file="steps.py", name="made", code="c" * 64)
    made = Step(name="made", kind="function", function=function, cached=True)
    definition = Definition(steps=(made, *more), source=source(stage, files))
    stage.call(declared.APPLY_PIPELINE, declared.Apply(project=PROJECT, pipeline=name, definition=definition), token)


def begin(stage: Stage, name: str, files: dict[str, bytes], token: str) -> str:
    apply_made(stage, name, files, token)
    return stage.start(name, token)


def end_well(stage: Stage, run: str, result: Any) -> None:
    end_step(stage, run, result)
    assert stage.until(run).state == "done"


def end_step(stage: Stage, run: str, result: Any) -> None:
    """As if its job had told that."""
    stage.until(run, lambda shown: shown.steps[0].job)

    def settle(work: Any) -> None:
        row, step = run_store.by_id(work, run), run_store.step(work, run, "made", -1)
        done = Standing(name="made", state="done", attempt=1, result=result, digest=step.digest, ended=stage.clock.now())
        run_store.put_steps(work, [row_of(done, run, row.project)])
        run_store.change(work, run)

    stage.platform.database.write(settle)


def taken(stage: Stage, run: str) -> Any:
    shown = stage.until(run, lambda shown: shown.state != "running" or shown.steps[0].job)
    if shown.state == "running":
        stage.call(declared.CANCEL_RUN, declared.Cancel(project=PROJECT, run=run))
        return None
    return result_of(shown, "made")


def test_nobody_takes_what_another_one_says_to_be_made_of_the_same(stage: Stage):
    scientist, engineer = stage.person("poisoning", "scientist"), stage.person("building", "engineer")
    end_well(stage, begin(stage, "mine", EVIL, scientist), "mine")
    assert taken(stage, begin(stage, "theirs", FILES, engineer)) is None
    assert taken(stage, begin(stage, "again", FILES, scientist)) == "mine"  # their own word
    assert taken(stage, begin(stage, "same", EVIL, engineer)) == "mine"  # these very files


def test_nobody_takes_for_their_own_word_what_another_one_wrote_and_their_trigger_started(small: Stage):
    scientist, engineer = small.person("changes", "scientist"), small.person("triggers", "engineer")
    small.call(CREATE_MODEL, CreateModel(project=PROJECT, model="poisoned"))
    small.apply(keep("end", 1), name="poisoned")
    small.call(SET_TRIGGER, by_itself("poisoned", "poisoned"), engineer)
    apply_made(small, "poisoned", {**EVIL, "by": b"a trigger"}, scientist)
    new_version(small, "poisoned")
    look(small)
    started = shown(small, "poisoned").last_run
    assert small.show(started).started_by.name == "triggers"
    end_well(small, started, "mine")
    assert taken(small, begin(small, "honest", FILES, engineer)) is None


def test_who_goes_on_with_anothers_run_does_not_make_its_results_their_own_word(small: Stage):
    scientist, engineer = small.person("leaves", "scientist"), small.person("resumes", "engineer")
    failing = Step(name="failing", kind="operation", operation="model.show", arguments={"model": "none"}, after=("made",))
    apply_made(small, "left-over", {**EVIL, "by": b"whoever resumes"}, scientist, failing)
    run = small.start("left-over", scientist)
    end_step(small, run, "mine")
    assert small.until(run).state == "failed"
    small.call(declared.RESUME_RUN, declared.OneRun(project=PROJECT, run=run), engineer)
    resumed = small.until(run)
    assert (resumed.started_by.name, result_of(resumed, "made")) == ("resumes", "mine")
    assert taken(small, begin(small, "own", FILES, engineer)) is None


def test_what_was_agreed_to_in_one_run_is_asked_again_in_another(team: Stage):
    maryam, khalid = team.person("maryam", "engineer"), team.person("khalid", "engineer")
    team.apply(
        Step(name="ask", kind="approval", question="Shall it?"),
        keep("deployed", ref("parameters.version"), after=("ask",)),
        parameters=(Parameter(name="version"),),
    )
    first = team.start(token=maryam, parameters={"version": 1})
    team.until(first, lambda run: state_of(run, "ask") == "asking")
    team.call(declared.DECIDE_STEP, declared.Decide(project=PROJECT, run=first, step="ask", agree=True), khalid)
    assert team.until(first).state == "done"
    second = team.start(token=maryam, parameters={"version": 666}, of=first, from_step="deployed")
    shown = team.until(second, lambda run: state_of(run, "ask") == "asking" or run.state != "running")
    assert (shown.state, state_of(shown, "deployed")) == ("running", "waiting")


def test_what_another_one_made_by_other_steps_or_of_other_files_is_not_taken_over(small: Stage):
    scientist, engineer = small.person("forges", "scientist"), small.person("ships", "engineer")
    shipped = keep("shipped", ref("steps.made"))
    end = keep("end", 1, after=("shipped",))

    def began(token: str, made: Step | dict[str, bytes], **fields: Any) -> str:
        if isinstance(made, dict):
            apply_made(small, "taken-over", made, token, shipped, end)
        else:
            definition = Definition(steps=(made, shipped, end))
            small.call(
                declared.APPLY_PIPELINE, declared.Apply(project=PROJECT, pipeline="taken-over", definition=definition), token
            )
        return small.start("taken-over", token, **fields)

    def end_with(run: str) -> str:
        end_well(small, run, "theirs")
        return run

    forged = small.until(began(scientist, keep("made", "forged"), only=("made",))).id
    other_files = end_with(began(scientist, {**EVIL, "by": b"who forges"}, only=("made",)))
    fine = {**FILES, "by": b"who ships"}
    washed = began(scientist, fine, of=forged, from_step="shipped")  # their own, and of the right steps
    assert small.until(washed).state == "done"
    honest = end_with(began(scientist, fine, only=("made",), anew=True))
    for run in (forged, other_files, washed):
        with pytest.raises(Conflict, match="step 'made' was another one, or its files were others"):
            began(engineer, fine, of=run, from_step="shipped")
    assert result_of(small.until(began(engineer, fine, of=honest, from_step="shipped")), "shipped") == "theirs"


def made_up(stage: Stage, model: str) -> str:
    """What versions come from."""
    number = stage.call(CREATE_EXPERIMENT, CreateExperiment(project=PROJECT, name=f"for-{model}")).id
    stage.call(CREATE_MODEL, CreateModel(project=PROJECT, model=model))
    return str(stage.call(CREATE_RUN, CreateRun(project=PROJECT, experiment=number)).info.id)


def test_who_names_a_version_as_soon_as_it_is_there_did_not_make_it(small: Stage):
    holder = made_up(small, "claimed")
    small.apply(Step(name="claims", kind="wait", event="now"), name="claiming")
    claiming = small.start("claiming")
    small.until(claiming, lambda run: state_of(run, "claims") == "running")
    small.call(CREATE_VERSION, CreateVersion(project=PROJECT, model="claimed", holder=holder))
    claim = {"model": "claimed", "version": 1}
    small.call(declared.SEND_EVENT, declared.SendEvent(project=PROJECT, run=claiming, event="now", content=claim))
    assert result_of(small.until(claiming), "claims") == claim
    find = declared.FindMaker(project=PROJECT, model="claimed", version=1)
    with pytest.raises(NotFound, match="No run"):
        small.call(declared.FIND_MAKER, find)
    made = call("made", "version.create", arguments={"model": "claimed", "holder": holder})
    run = small.play(made)
    assert result_of(run, "made")["version"] == 2
    found = small.call(declared.FIND_MAKER, declared.FindMaker(project=PROJECT, model="claimed", version=2))
    assert (found.run, found.step) == (run.id, "made")


# What others set


def test_who_wrote_what_anothers_trigger_starts_does_not_agree_to_it(team: Stage):
    maryam, khalid = team.person("maryam", "engineer"), team.person("khalid", "engineer")
    team.call(CREATE_MODEL, CreateModel(project=PROJECT, model="late"))
    team.apply(keep("end", 1))
    team.call(SET_TRIGGER, by_itself(), khalid)
    mine = Definition(steps=(Step(name="ask", kind="approval", question="Shall it?"),))
    team.call(declared.APPLY_PIPELINE, declared.Apply(project=PROJECT, pipeline="nightly", definition=mine), maryam)
    new_version(team, "late")
    look(team)
    agree = declared.Decide(project=PROJECT, run=shown(team).last_run, step="ask", agree=True)
    for who in (maryam, khalid):
        with pytest.raises(Forbidden, match="somebody else"):
            team.call(declared.DECIDE_STEP, agree, who)
    team.call(declared.DECIDE_STEP, agree, team.person("aisha", "engineer"))


def test_who_started_a_run_that_another_one_goes_on_with_agrees_to_nothing_of_it(team: Stage):
    maryam, khalid = team.person("maryam", "engineer", "validator"), team.person("khalid", "engineer")
    servable(team, "gone-on")
    asks = call("asks", "approval.ask", arguments={"model": "gone-on", "version": 1}, after=("ask",))
    team.apply(Step(name="ask", kind="approval", question="Shall it?"), asks)
    run = team.start(token=maryam)
    team.until(run, lambda shown: state_of(shown, "ask") == "asking")
    team.call(declared.CANCEL_RUN, declared.Cancel(project=PROJECT, run=run), maryam)
    assert team.until(run).state == "cancelled"
    team.call(declared.RESUME_RUN, declared.OneRun(project=PROJECT, run=run), khalid)
    team.until(run, lambda shown: state_of(shown, "ask") == "asking")
    agree = declared.Decide(project=PROJECT, run=run, step="ask", agree=True)
    for who in (maryam, khalid):
        with pytest.raises(Forbidden, match="went on with it"):
            team.call(declared.DECIDE_STEP, agree, who)
    team.call(declared.DECIDE_STEP, agree, team.person("aisha", "engineer"))
    give = GiveApproval(project=PROJECT, approval=result_of(team.until(run), "asks")["approval"])
    with pytest.raises(Forbidden, match="somebody else"):
        team.call(GIVE_APPROVAL, give, maryam)
    assert team.call(GIVE_APPROVAL, give, team.person("vida", "validator")).state == "ready"


def servable(stage: Stage, model: str) -> None:
    """Its first version."""
    holder = made_up(stage, model)
    put = Call(credentials=stage.owner, request_id=new_id(stage.clock.now()), chunks=iter([SERVABLE.read_bytes()]))
    stage.platform.dispatcher.call(PUT_ARTIFACT, PutArtifact(project=PROJECT, holder=holder, name="model.onnx"), put)
    stage.call(CREATE_VERSION, CreateVersion(project=PROJECT, model=model, holder=holder))


def test_who_made_the_token_that_set_a_trigger_does_not_agree_to_what_it_starts(team: Stage):
    maryam = team.person("maryam", "admin")
    team.call(CREATE_MODEL, CreateModel(project=PROJECT, model="late"))
    team.apply(Step(name="ask", kind="approval", question="Shall it?"))
    robot = identity.CreateService(project=PROJECT, name="robot", role="engineer")
    team.call(identity.CREATE_SERVICE, robot, maryam)
    made = team.call(identity.CREATE_SERVICE_TOKEN, identity.CreateServiceToken(project=PROJECT, service="robot"), maryam)
    team.call(SET_TRIGGER, by_itself(), made.token)
    new_version(team, "late")
    look(team)
    agree = declared.Decide(project=PROJECT, run=shown(team).last_run, step="ask", agree=True)
    with pytest.raises(Forbidden, match="somebody else"):
        team.call(declared.DECIDE_STEP, agree, maryam)


def test_who_made_the_token_that_wrote_what_anothers_trigger_starts_does_not_agree_to_it(team: Stage):
    vadim, khalid = team.person("vadim", "admin"), team.person("khalid", "engineer")
    team.call(CREATE_MODEL, CreateModel(project=PROJECT, model="late"))
    team.call(identity.CREATE_SERVICE, identity.CreateService(project=PROJECT, name="ci", role="engineer"), vadim)
    made = team.call(identity.CREATE_SERVICE_TOKEN, identity.CreateServiceToken(project=PROJECT, service="ci"), vadim)
    asks = Definition(steps=(Step(name="ask", kind="approval", question="Shall it?"),))
    team.call(declared.APPLY_PIPELINE, declared.Apply(project=PROJECT, pipeline="nightly", definition=asks), made.token)
    team.call(SET_TRIGGER, by_itself(), khalid)
    new_version(team, "late")
    look(team)
    agree = declared.Decide(project=PROJECT, run=shown(team).last_run, step="ask", agree=True)
    with pytest.raises(Forbidden, match="by a token you made"):
        team.call(declared.DECIDE_STEP, agree, vadim)
    team.call(declared.DECIDE_STEP, agree, team.person("aisha", "engineer"))


def test_who_wrote_what_anothers_monitor_starts_does_not_agree_to_it(team: Stage):
    emma, badr = team.person("emma", "engineer"), team.person("badr", "engineer")
    team.apply(keep("end", 1))
    mine = Definition(steps=(Step(name="ask", kind="approval", question="Shall it?"),))
    team.call(declared.APPLY_PIPELINE, declared.Apply(project=PROJECT, pipeline="nightly", definition=mine), badr)
    run = alerted(team, emma)
    team.until(run, lambda shown: state_of(shown, "ask") == "asking")
    agree = declared.Decide(project=PROJECT, run=run, step="ask", agree=True)
    for who in (emma, badr):
        with pytest.raises(Forbidden, match="somebody else"):
            team.call(declared.DECIDE_STEP, agree, who)
    team.call(declared.DECIDE_STEP, agree, team.person("aisha", "engineer"))


def alerted(stage: Stage, setter: str) -> str:
    """A run that an alert of a monitor started, which that person set."""
    platform, now = stage.platform, stage.clock.now()
    wisher = wishers.Wisher(principal=stage.call(identity.WHOAMI, Nothing(), setter).id)
    request = declared.StartRun(project=PROJECT, pipeline="nightly")

    def start(work: Any) -> str:
        project = platform.gate.project(work, platform.gate.generation(work), PROJECT)
        asked = {"project": project, "zone": "", "operation": declared.START_RUN, "request": request, "now": now}
        context = wishers.on_behalf(work, platform.gate, wisher, "the monitor", **asked)
        return AlertedRuns(platform.gate, OPERATIONS).start(context, "nightly", {}, "It drifts", now)

    return platform.database.write(start)


def test_who_wrote_what_a_trigger_starts_does_not_approve_of_the_promotion_that_it_asks_for(team: Stage):
    khalid, maryam = team.person("khalid", "engineer"), team.person("maryam", "engineer", "validator")
    team.call(CREATE_MODEL, CreateModel(project=PROJECT, model="late"))
    servable(team, "asked-for")
    team.apply(keep("end", 1))
    team.call(SET_TRIGGER, by_itself(), khalid)
    mine = Definition(steps=(call("asks", "approval.ask", arguments={"model": "asked-for", "version": 1}),))
    team.call(declared.APPLY_PIPELINE, declared.Apply(project=PROJECT, pipeline="nightly", definition=mine), maryam)
    new_version(team, "late")
    look(team)
    asked = result_of(team.until(shown(team).last_run), "asks")
    assert asked["state"] == "waiting"
    give = GiveApproval(project=PROJECT, approval=asked["approval"])
    with pytest.raises(Forbidden, match="somebody else"):
        team.call(GIVE_APPROVAL, give, maryam)
    assert team.call(GIVE_APPROVAL, give, team.person("vida", "validator")).state == "ready"


def by_itself(pipeline: str = "nightly", about: str = "late") -> SetTrigger:
    return SetTrigger(project=PROJECT, pipeline=pipeline, trigger="by-itself", wish=Trigger(kind="model", about=about))


def test_nobody_gets_done_what_they_may_not_do_by_whoever_starts_the_newest_version(small: Stage):
    scientist, engineer = small.person("rewrites", "scientist"), small.person("starts", "engineer")
    made = call("made", "experiment.create", arguments={"name": "by-name"})
    gone = call("gone", "endpoint.delete", arguments={"endpoint": "late"}, after=("made",))
    small.apply(keep("end", 1), name="by-name")
    mine = declared.Apply(project=PROJECT, pipeline="by-name", definition=Definition(steps=(made, gone)))
    small.call(declared.APPLY_PIPELINE, mine, scientist)
    with pytest.raises(Forbidden, match=r"rewrites changed the pipeline, and may not do what it does.*by-name --version 2"):
        small.start("by-name", engineer)
    assert small.until(small.start("by-name", engineer, only=("made",))).state == "done"  # which its author may do
    assert small.until(small.start("by-name", engineer, version=2)).state == "failed"  # there is no such endpoint


def test_a_trigger_falls_with_the_token_it_was_set_with(small: Stage):
    small.call(CREATE_MODEL, CreateModel(project=PROJECT, model="stolen"))
    small.apply(keep("end", 1), name="stolen")
    made = small.call(identity.CREATE_TOKEN, identity.CreateToken(label="leaks"))
    small.call(SET_TRIGGER, by_itself("stolen", "stolen"), made.token)
    new_version(small, "stolen")
    look(small)
    first = shown(small, "stolen").last_run
    assert first
    small.call(identity.REVOKE_TOKEN, identity.RevokeToken(token=made.id))
    new_version(small, "stolen")
    look(small)
    assert shown(small, "stolen").last_run == first
    assert "was revoked" in shown(small, "stolen").words


def test_a_narrow_token_does_not_change_what_a_trigger_starts_with_more(small: Stage):
    small.apply(keep("end", 1), name="narrow")
    gone = Definition(steps=(call("gone", "endpoint.delete", arguments={"endpoint": "late"}),))
    wanted = declared.Apply(project=PROJECT, pipeline="narrow", definition=gone)
    made = small.call(identity.CREATE_TOKEN, identity.CreateToken(scopes=("pipeline.write", "pipeline.run", "read")))
    small.call(declared.APPLY_PIPELINE, wanted, made.token)
    with pytest.raises(Forbidden):
        small.start("narrow", made.token)
    small.apply(keep("end", 1), name="narrow")
    small.call(SET_TRIGGER, by_itself("narrow"))
    with pytest.raises(Forbidden):
        small.call(declared.APPLY_PIPELINE, wanted, made.token)
    small.call(DELETE_TRIGGER, OneTrigger(project=PROJECT, pipeline="narrow", trigger="by-itself"))


def test_triggers_are_few_enough_to_be_looked_after_every_second(small: Stage, monkeypatch: pytest.MonkeyPatch):
    small.apply(keep("end", 1), name="eager")
    wish = Trigger(kind="schedule", cron="* * * * * *")
    with pytest.raises(Invalid, match="five fields"):
        small.call(SET_TRIGGER, SetTrigger(project=PROJECT, pipeline="eager", trigger="seconds", wish=wish))
    monkeypatch.setattr(triggers, "MOST_TRIGGERS", 0)
    with pytest.raises(Conflict, match="0 triggers"):
        small.call(SET_TRIGGER, by_itself("eager"))
