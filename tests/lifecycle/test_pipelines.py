"""Runs of pipelines on a real platform, as whoever starts them sees them."""

from typing import Any

import pytest

from falaj.base.errors import Conflict, Forbidden, Invalid, NotFound
from falaj.governance.identity.operations import CREATE_TOKEN, DISABLE_USER, CreateToken, OneUser
from falaj.governance.identity.store import token_by_id
from falaj.lifecycle import records
from falaj.lifecycle.operations import pipelines as declared
from falaj.lifecycle.operations.words import Function, Parameter, Step, Until
from falaj.lifecycle.store import runs as run_store
from falaj.registry.operations.models import CREATE_MODEL, CreateModel
from falaj.serving.operations.endpoints import DEPLOY
from falaj.tracking.operations.experiments import RENAME_EXPERIMENT, SEARCH_EXPERIMENTS, RenameExperiment, SearchExperiments
from tests.lifecycle.playing import PROJECT, Stage, call, keep, op, ref, result_of, state_of


def experiments(stage: Stage) -> list[str]:
    found = stage.call(SEARCH_EXPERIMENTS, SearchExperiments(project=PROJECT))
    return sorted(one.name for one in found.items if one.name != "Default")


def test_steps_hand_on_to_those_that_speak_of_them(stage: Stage):
    run = stage.play(
        keep("rows", ref("parameters.many")),
        call("made", "experiment.create", arguments={"name": "late"}),
        call("seen", "experiment.show", arguments={"experiment": ref("steps.made.id")}),
        parameters=(Parameter(name="many", kind="whole", default=3),),
        result={"many": ref("steps.rows"), "name": ref("steps.seen.name")},
    )
    assert (run.state, run.result) == ("done", {"many": 3, "name": "late"})
    assert experiments(stage) == ["late"]
    (end,) = stage.leaves("pipeline.end")
    assert end.facts["state"] == "done"
    assert end.facts["run"] == run.id
    (made,) = stage.leaves("experiment.create")
    assert made.principal == run.started_by.id


def test_a_step_is_done_for_each_of_a_list_that_another_hands_on(small: Stage):
    run = small.play(
        keep("depths", [2, 4, 6]),
        keep("squares", ref("item"), each=ref("steps.depths"), at_once=2),
        keep("large", ref("item"), each=ref("steps.squares"), when=op(">", ref("item"), 3)),
        keep("many", op("count", ref("steps.large"))),
    )
    assert result_of(run, "squares") == [2, 4, 6]
    assert [state_of(run, "large", item) for item in range(3)] == ["skipped", "done", "done"]
    assert result_of(run, "many") == 2


def test_a_part_of_each_of_a_list_is_a_list(small: Stage):
    run = small.play(
        keep("models", [{"model": "late", "of": [1, 2]}, {"model": "early", "of": [3]}]),
        keep("names", ref("steps.models.*.model")),
        keep("seconds", ref("steps.models.*.of.-1")),
        keep("known", op("in", "early", ref("steps.models.*.model"))),
        keep("all", ref("steps.models.*.of.*")),
    )
    assert [result_of(run, name) for name in ("names", "seconds", "known", "all")] == [
        ["late", "early"],
        [2, 3],
        True,
        [[1, 2], [3]],
    ]
    odd = small.play(keep("models", [{"model": "late"}, 7]), keep("names", ref("steps.models.*.model")))
    assert odd.words == "names: There is no steps.models.*.model: what stands before 'model' has none."


def test_what_speaks_of_something_skipped_is_skipped_unless_it_has_something_instead(small: Stage):
    run = small.play(
        keep("first", 1),
        keep("better", 2, when=op(">", ref("steps.first"), 1)),
        keep("behind", ref("steps.better")),
        keep("either", op("first", ref("steps.better"), ref("steps.first"))),
        keep("later", 3, after=("behind",)),
    )
    assert run.state == "done"
    assert [state_of(run, name) for name in ("better", "behind", "either", "later")] == ["skipped", "skipped", "done", "done"]
    assert result_of(run, "either") == 1


def test_an_operation_is_asked_on_until_it_is_over(small: Stage):
    made = call(
        "made",
        "experiment.create",
        arguments={"name": "asked-on"},
        until=Until(
            operation="experiment.show",
            arguments={"experiment": ref("called.id")},
            done=op("==", ref("answer.name"), "renamed"),
            every=0.0,
        ),
    )
    small.apply(made)
    run = small.start()
    shown = small.until(run, lambda run: run.steps[0].state == "running" and experiments(small).count("asked-on"))
    assert shown.state == "running"
    (id_,) = (
        one.id for one in small.call(SEARCH_EXPERIMENTS, SearchExperiments(project=PROJECT)).items if one.name == "asked-on"
    )
    small.call(RENAME_EXPERIMENT, RenameExperiment(project=PROJECT, experiment=id_, name="renamed"))
    assert result_of(small.until(run), "made")["name"] == "renamed"


def test_a_failure_ends_the_run_and_resuming_does_only_what_was_not_done(stage: Stage):
    stage.apply(
        call("made", "experiment.create", arguments={"name": "once"}),
        call("missing", "model.show", arguments={"model": "late"}, after=("made",)),
        keep("end", ref("steps.missing.name")),
    )
    run = stage.until(stage.start())
    assert (run.state, state_of(run, "missing"), state_of(run, "end")) == ("failed", "failed", "cancelled")
    assert "late" in run.words
    stage.call(CREATE_MODEL, CreateModel(project=PROJECT, model="late"))
    stage.call(declared.RESUME_RUN, declared.OneRun(project=PROJECT, run=run.id))
    again = stage.until(run.id)
    assert (again.state, result_of(again, "end")) == ("done", "late")
    assert len(stage.leaves("experiment.create")) == 1


def test_a_run_that_begins_with_a_step_takes_the_rest_from_another_one(small: Stage):
    small.apply(
        call("made", "experiment.create", arguments={"name": op("first", ref("parameters.name"))}),
        keep("told", {"name": ref("steps.made.name"), "by": ref("run")}),
        parameters=(Parameter(name="name", kind="text", required=True),),
    )
    first = small.until(small.start(parameters={"name": "from-step"}))
    second = small.until(small.start(of=first.id, from_step="told"))
    assert second.state == "done"
    assert result_of(second, "told") == {"name": "from-step", "by": second.id}
    assert next(one.cached for one in second.steps if one.name == "made") == first.id
    with pytest.raises(Invalid, match="no step 'telling'"):
        small.start(of=first.id, from_step="telling")


def test_a_run_keeps_the_version_it_began_with(small: Stage):
    small.apply(Step(name="ask", kind="approval", question="Go on?"), keep("old", 1, after=("ask",)))
    run = small.start()
    small.until(run, lambda run: state_of(run, "ask") == "asking")
    small.apply(Step(name="ask", kind="approval", question="Go on?"), keep("new", 2, after=("ask",)))
    small.call(declared.DECIDE_STEP, declared.Decide(project=PROJECT, run=run, step="ask", agree=True))
    assert [one.name for one in small.until(run).steps] == ["ask", "old"]
    small.call(declared.CANCEL_RUN, declared.Cancel(project=PROJECT, run=(other := small.start())))
    assert [one.name for one in small.until(other).steps] == ["ask", "new"]


def test_a_question_may_speak_of_what_stands_before_it(small: Stage):
    asks = op("text", "Shall version ", ref("steps.made"), " answer?")
    small.apply(keep("made", 3), Step(name="ask", kind="approval", arguments={"question": asks}))
    run = small.start()
    small.until(run, lambda run: state_of(run, "ask") == "asking")
    assert next(one.words for one in small.show(run).steps if one.name == "ask") == "Shall version 3 answer?"
    small.call(declared.CANCEL_RUN, declared.Cancel(project=PROJECT, run=run))
    small.until(run)


def test_who_refuses_ends_the_run_with_their_reason(small: Stage):
    small.apply(Step(name="ask", kind="approval", question="Go on?"))
    run = small.start()
    small.until(run, lambda run: state_of(run, "ask") == "asking")
    small.call(declared.DECIDE_STEP, declared.Decide(project=PROJECT, run=run, step="ask", agree=False, reason="Too soon."))
    ended = small.until(run)
    assert (ended.state, ended.words) == ("failed", "ask: owner refused. Too soon.")
    with pytest.raises(Conflict, match="failed"):
        small.call(declared.DECIDE_STEP, declared.Decide(project=PROJECT, run=run, step="ask", agree=True))


def test_under_four_eyes_another_person_agrees(team: Stage):
    maryam, khalid = team.person("maryam", "engineer"), team.person("khalid", "engineer")
    viewer = team.person("aisha", "viewer")
    team.apply(Step(name="ask", kind="approval", question="Go on?"))
    run = team.start(token=maryam)
    team.until(run, lambda run: state_of(run, "ask") == "asking")
    agree = declared.Decide(project=PROJECT, run=run, step="ask", agree=True)
    with pytest.raises(Forbidden, match="somebody else"):
        team.call(declared.DECIDE_STEP, agree, maryam)
    with pytest.raises(Forbidden):
        team.call(declared.DECIDE_STEP, agree, viewer)
    team.call(declared.DECIDE_STEP, agree, khalid)
    assert team.until(run).state == "done"


def test_it_waits_for_an_event_and_hands_on_what_came_with_it(small: Stage):
    small.apply(Step(name="paid", kind="wait", event="paid"), keep("sum", ref("steps.paid.sum")))
    run = small.start()
    small.until(run, lambda run: state_of(run, "paid") == "running")
    small.call(declared.SEND_EVENT, declared.SendEvent(project=PROJECT, run=run, event="paid", content={"sum": 12}))
    assert result_of(small.until(run), "sum") == 12


def test_time_passes_for_waits_and_for_what_takes_too_long(small: Stage):
    small.apply(Step(name="pause", kind="wait", arguments={"seconds": 3600}), keep("end", 1, after=("pause",)))
    patient = small.start()
    small.until(patient, lambda run: state_of(run, "pause") == "running")
    small.apply(Step(name="ask", kind="approval", question="?", seconds=60), name="hasty")
    hasty = small.start("hasty")
    small.until(hasty, lambda run: state_of(run, "ask") == "asking")
    small.clock.move(3601)
    assert small.until(patient).state == "done"
    assert small.until(hasty).words == "ask: It was not over after 60 seconds."


def test_a_cancelled_run_begins_nothing_more(small: Stage):
    small.apply(Step(name="ask", kind="approval", question="?"), keep("end", 1, after=("ask",)))
    run = small.start()
    small.until(run, lambda run: state_of(run, "ask") == "asking")
    small.call(declared.CANCEL_RUN, declared.Cancel(project=PROJECT, run=run))
    ended = small.until(run)
    assert (ended.state, state_of(ended, "ask"), state_of(ended, "end")) == ("cancelled", "cancelled", "cancelled")


def test_what_failed_is_tried_again_as_often_as_was_said(small: Stage):
    small.apply(call("missing", "model.show", arguments={"model": "nobody"}, retries=2, on=("permanent",)))
    run = small.start()
    for failures in (1, 2):
        shown = small.until(run, lambda run, failures=failures: f"Try {failures} failed" in run.steps[0].words)
        assert shown.state == "running"
        small.clock.move(3600)
    ended = small.until(run)
    assert (ended.state, ended.steps[0].attempt) == ("failed", 3)


def test_the_same_definition_is_the_same_version(small: Stage):
    applied = declared.OnePipeline(project=PROJECT, pipeline="same")
    for wanted, steps in ((1, [keep("a", 1)]), (1, [keep("a", 1)]), (2, [keep("a", 2)])):
        small.apply(*steps, name="same")
        assert small.call(declared.SHOW_PIPELINE, applied).version == wanted
    first = declared.OnePipeline(project=PROJECT, pipeline="same", version=1)
    assert small.call(declared.SHOW_PIPELINE, first).definition.steps[0].arguments == {"value": 1}


def test_a_run_of_some_steps_takes_the_rights_of_these_alone_and_has_no_others(small: Stage):
    scientist = small.person("trains", "scientist")
    made = call("made", "experiment.create", arguments={"name": "of-some"})
    gone = call("gone", "endpoint.delete", arguments={"endpoint": "late"}, after=("made",))
    again = call("again", "model.search", after=("gone",))
    small.apply(made, gone, again, name="some")
    for asked in ({}, {"only": ("gone",)}, {"only": ("again",)}):  # which all need what they may not do
        with pytest.raises(Forbidden):
            small.start("some", scientist, **asked)
    first = small.until(small.start("some", scientist, only=("made",)))
    assert (first.state, {one.name for one in first.steps}) == ("done", {"made"})
    with pytest.raises(Forbidden):
        small.start("some", scientist, of=first.id, from_step="gone")
    assert scopes_of(small, first.id) == {"experiment.write"}
    failed = small.until(small.start("some", of=first.id, from_step="gone"))
    assert failed.state == "failed"  # there is no such endpoint
    assert scopes_of(small, failed.id) == {DEPLOY.name, "model.read"}
    with pytest.raises(Forbidden):
        small.call(declared.RESUME_RUN, declared.OneRun(project=PROJECT, run=failed.id), scientist)


def scopes_of(stage: Stage, run: str) -> frozenset[str]:
    """What its token is good for."""

    def read(work: Any) -> frozenset[str]:
        token = token_by_id(work, run_store.by_id(work, run).token)
        assert token is not None
        return token.scopes

    return stage.platform.database.read(read)


def test_nobody_starts_what_they_may_not_do(small: Stage):
    """Before anything runs, and not halfway through."""
    viewer, scientist = small.person("viewing", "viewer"), small.person("trying", "scientist")
    small.apply(call("gone", "endpoint.delete", arguments={"endpoint": "late"}), name="deploying")
    for token in (viewer, scientist):
        with pytest.raises(Forbidden):
            small.start("deploying", token=token)
    small.apply(call("made", "experiment.create", arguments={"name": "narrow"}), name="narrow")
    narrow = small.call(CREATE_TOKEN, CreateToken(label="narrow", scopes=("pipeline.run", "pipeline.read")))
    with pytest.raises(Forbidden, match=r"experiment\.write"):
        small.start("narrow", token=narrow.token)


def test_a_run_ends_with_the_right_of_whoever_started_it(small: Stage):
    leaving = small.person("leaving", "scientist")
    small.apply(
        Step(name="ask", kind="approval", question="?"),
        call("made", "experiment.create", arguments={"name": "by-leaving"}, after=("ask",)),
        name="left",
    )
    run = small.start("left", token=leaving)
    small.until(run, lambda run: state_of(run, "ask") == "asking")
    small.call(DISABLE_USER, OneUser(user="leaving"))
    small.call(declared.DECIDE_STEP, declared.Decide(project=PROJECT, run=run, step="ask", agree=True))
    assert small.until(run).state == "failed"
    assert "by-leaving" not in experiments(small)


def test_a_step_is_told_of_by_its_own_job_alone(small: Stage):
    small.apply(keep("end", 1), name="told")
    run = small.until(small.start("told")).id
    forged = declared.TellResult(project=PROJECT, run=run, step="end", job="0" * 32, result=2)
    with pytest.raises(NotFound):
        small.call(declared.TELL_RESULT, forged)


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        ([keep("a", ref("steps.b")), keep("b", ref("steps.a"))], "wait for each other"),
        ([keep("a", ref("steps.b"))], "speaks of a step that there is not"),
        ([keep("a", ref("parameters.depth"))], "a parameter that there is not"),
        ([keep("a", ref("item"))], "means nothing here"),
        ([keep("a", 1), keep("a", 2)], "Two steps are called 'a'"),
        ([keep("a", {"$": "+", "of": [1, 2]})], "neither a way"),
        ([keep("a", op("<", 1))], "two values"),
        ([call("a", "experiment.create")], "needs 'name'"),
        ([call("a", "experiment.create", arguments={"name": "x", "colour": 1})], "has no 'colour'"),
        ([call("a", "user.create", arguments={"name": "x"})], "no operation that a step can call"),
        ([call("a", "dataset.query", arguments={})], "no operation that a step can call"),
        ([call("a", "endpoint.key-create", arguments={})], "no operation that a step can call"),
        ([Step(name="a", kind="approval")], "has a `question`"),
        ([call("a", "model.show", arguments={"model": "late"}, question="?")], "has a `question`"),
        ([Step(name="a", kind="wait")], "either for an `event`"),
        ([Step(name="a", kind="function")], "needs `function`"),
    ],
)
def test_what_cannot_run_is_refused_before_it_does(small: Stage, steps: list[Step], says: str):
    with pytest.raises(Invalid, match=says):
        small.apply(*steps, name="wrong")
    with pytest.raises(NotFound):
        small.start("wrong")


def test_parameters_are_held_against_what_they_are(small: Stage):
    small.apply(
        keep("a", ref("parameters.depth")),
        name="deep",
        parameters=(Parameter(name="depth", kind="whole", required=True), Parameter(name="data", kind="dataset")),
    )
    for given, says in (
        ({}, "needs the parameter 'depth'"),
        ({"depth": "six"}, "not of the kind 'whole'"),
        ({"depth": True}, "not of the kind 'whole'"),
        ({"depth": 6, "width": 2}, "no parameter 'width'"),
        ({"depth": 6, "data": "nothing"}, "no dataset 'nothing'"),
    ):
        with pytest.raises(Invalid, match=says):
            small.start("deep", parameters=given)


def test_too_much_to_hand_on_is_the_failure_of_that_step(small: Stage):
    run = small.play(keep("long", ["x" * 50_000] * 3), keep("longer", [ref("steps.long"), ref("steps.long")]))
    assert (state_of(run, "long"), state_of(run, "longer")) == ("done", "failed")
    assert "256 KiB" in run.words


@pytest.mark.parametrize(
    "more",
    [{"secrets": ("MODE",)}, {"hosts": ("a.example:443",)}, {"permissions": ("dataset.read",)}, {"experiment": "late"}],
    ids=lambda more: next(iter(more)),
)
def test_what_was_made_with_other_things_at_hand_is_not_taken(more: dict[str, Any]):
    def digest(**fields: Any) -> str:
        function = Function(file="flow.py", name="work", code="0" * 64, **fields)
        return records.digest_of_step(Step(name="work", kind="function", function=function, cached=True), {"depth": 3})

    assert digest(**more) == digest(**more)
    assert digest(**more) != digest()


def test_another_release_of_the_platform_takes_nothing_that_was_made_with_its_libraries(monkeypatch: pytest.MonkeyPatch):
    def digest(**fields: str) -> str:
        function = Function(file="flow.py", name="work", code="0" * 64, **fields)
        return records.digest_of_step(Step(name="work", kind="function", function=function, cached=True), {"depth": 3})

    own, locked, imaged = digest(), digest(lock="falaj==0.1.0"), digest(image="late@sha256:0")
    assert own == digest()
    monkeypatch.setattr(records, "__version__", "99.0")
    assert (digest() == own, digest(lock="falaj==0.1.0") == locked, digest(image="late@sha256:0") == imaged) == (
        False,
        True,
        True,
    )
    monkeypatch.setattr(records.sys, "version_info", (3, 99))
    assert (digest(lock="falaj==0.1.0") == locked, digest(image="late@sha256:0") == imaged) == (False, True)
