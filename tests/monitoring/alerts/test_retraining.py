"""An alert starts a pipeline that trains anew, after approval where that is wished for, by the rights of who wished for it."""

from typing import Any

import pytest

from falaj.base.clock import HOUR
from falaj.base.errors import Forbidden, Invalid, NotFound
from falaj.base.values import Nothing
from falaj.governance.identity import member_operations as members
from falaj.governance.identity.operations import CREATE_TOKEN, WHOAMI, CreateToken
from falaj.governance.roles import Role
from falaj.lifecycle.operations import pipelines
from falaj.lifecycle.operations.pipelines import PipelineRun
from falaj.lifecycle.operations.words import Definition, Parameter, Step
from falaj.monitoring.operations.monitors import APPLY_MONITOR, ApplyMonitor, Wishes
from falaj.monitoring.operations.words import Act
from tests.lifecycle.playing import call, keep, ref
from tests.monitoring.alerts.platform import Watched, drift
from tests.monitoring.alerts.test_acting import act, acted
from tests.monitoring.alerts.test_alerts import decide
from tests.serving.control.platform import PROJECT, Platform

TOLD = tuple(Parameter(name=name, kind="text") for name in ("alert", "endpoint"))
TRAIN = keep("for", [ref("parameters.alert"), ref("parameters.endpoint")])
RETRAIN = Act(do="retrain", pipeline="nightly")


def apply(platform: Platform, *steps: Step, token: str = "", **fields: Any) -> None:
    definition = Definition(steps=steps, **fields)
    platform.call(pipelines.APPLY_PIPELINE, pipelines.Apply(project=PROJECT, pipeline="nightly", definition=definition), token)


def runs(platform: Platform) -> list[PipelineRun]:
    return list(platform.call(pipelines.LIST_RUNS, pipelines.ListRuns(project=PROJECT, pipeline="nightly")).items)


def set_by(platform: Platform, token: str, wish: Act = RETRAIN) -> Watched:
    return Watched(platform, Wishes(actions=(wish,)), by=platform.call(WHOAMI, Nothing(), token).id)


def test_a_run_starts_in_the_name_of_who_set_the_monitor_and_the_alert_shows_it(platform: Platform) -> None:
    emma = platform.person("emma", Role.ENGINEER)
    apply(platform, TRAIN, parameters=TOLD)
    watched = set_by(platform, emma)
    action = acted(watched)
    [run] = runs(platform)
    assert (action.state, action.words) == ("done", f"Started the run {run.id} of the pipeline 'nightly'.")
    assert (run.started_by.name, run.parameters) == ("emma", {"alert": watched.alert().id, "endpoint": "scores"})
    assert run.why == f"Alert {watched.alert().id}: 1 of 3 columns drift"
    [leaf] = platform.leaves("pipeline.run")
    assert (leaf.facts["run"], leaf.facts["alert"], leaf.facts["set_by"]) == (run.id, watched.alert().id, watched.by)


def test_it_rests_for_its_cool_down_and_says_so(small: Platform) -> None:
    apply(small, keep("train", 1))
    watched = Watched(small, Wishes(actions=(RETRAIN,)), revisions=2)
    watched.sees(drift(revision=1), drift(revision=2))
    act(small)
    assert len(runs(small)) == 1
    assert any("Retraining is left out: it was decided upon" in one for alert in watched.alerts() for one in alert.sentences)
    small.clock.forward(2 * HOUR)
    watched.sees(drift(key="schema/1", kind="drift"))
    act(small)
    assert len(runs(small)) == 2


def test_it_waits_until_somebody_agreed(small: Platform) -> None:
    apply(small, keep("train", 1))
    watched = Watched(small, Wishes(actions=(Act(do="retrain", pipeline="nightly", approval=True),)))
    action = acted(watched)
    assert (action.state, runs(small)) == ("waiting", [])
    decide(watched, action.id)
    act(small)
    assert (watched.alert().actions[0].state, len(runs(small))) == ("done", 1)


def test_who_may_start_nothing_any_more_has_nothing_started(small: Platform) -> None:
    emma = small.person("emma", Role.ENGINEER)
    apply(small, keep("train", 1))
    watched = set_by(small, emma)
    small.call(members.REMOVE_MEMBER, members.RemoveMember(project=PROJECT, member="emma", role=Role.ENGINEER))
    action = acted(watched)
    assert action.state == "failed"
    assert action.words.startswith("emma, who set the monitor, may not do that any more")
    assert runs(small) == []


def test_what_somebody_else_made_of_it_since_is_not_done_where_they_may_not(small: Platform) -> None:
    badr = small.person("badr", Role.SCIENTIST)
    apply(small, keep("train", 1))
    watched = Watched(small, Wishes(actions=(RETRAIN,)))
    apply(small, call("back", "endpoint.rollback", arguments={"endpoint": "scores"}), token=badr)
    action = acted(watched)
    assert action.state == "failed"
    assert action.words.startswith("badr changed the pipeline since the monitor was set, and may not do what it does")
    assert runs(small) == []


def test_a_token_does_no_more_by_a_monitor_than_by_itself(small: Platform) -> None:
    """Neither by setting one, nor by changing what one starts."""
    small.deployed()
    apply(small, call("back", "endpoint.rollback", arguments={"endpoint": "scores"}))
    narrow = small.call(CREATE_TOKEN, CreateToken(scopes=("monitor.write", "monitor.read", "pipeline.write"))).token

    def wish(token: str = "", **fields: Any) -> None:
        wished = Wishes(actions=(Act(do="retrain", **fields),))
        small.call(APPLY_MONITOR, ApplyMonitor(project=PROJECT, endpoint="scores", wishes=wished), token)

    with pytest.raises(Forbidden):
        wish(narrow, pipeline="nightly")
    apply(small, keep("train", 1), token=narrow)
    wish(pipeline="nightly")
    with pytest.raises(Forbidden):
        apply(small, call("back", "endpoint.rollback", arguments={"endpoint": "scores"}), token=narrow)
    with pytest.raises(NotFound, match="no pipeline 'weekly'"):
        wish(pipeline="weekly")
    with pytest.raises(Invalid, match="needs `pipeline`, the name of one that is to be started, or else `job`"):
        wish(pipeline="nightly", job="0" * 32)
