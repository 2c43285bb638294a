"""falaj.steps: each becomes steps that the platform would take, and hands on what others can go on with."""

from pathlib import Path
from typing import Any

import pytest

from falaj.app.platform import OPERATIONS
from falaj.governance.identity.operations import DISABLE_USER, OneUser
from falaj.lifecycle.checking import catalogue_of, check
from falaj.lifecycle.expressions import resolve
from falaj.lifecycle.operations.pipelines import APPLY_PIPELINE, Apply
from falaj.lifecycle.operations.words import Definition
from falaj.operations.dispatcher import Call
from falaj.registry.operations.models import CREATE_MODEL, CreateModel
from falaj.registry.operations.promotions import GIVE_APPROVAL, RESOLVE, GiveApproval, Resolve
from falaj.registry.operations.versions import CREATE_VERSION, CreateVersion
from falaj.tracking.operations.artifacts import PUT_ARTIFACT, PutArtifact
from falaj.tracking.operations.experiments import CREATE_EXPERIMENT, CreateExperiment
from falaj.tracking.operations.runs import CREATE_RUN, CreateRun
from tests.app.furniture import SERVABLE
from tests.lifecycle.playing import PROJECT, Stage, result_of, state_of
from tests.lifecycle.python.written import definition_of, steps_of


def checked(folder: Path, body: str) -> Definition:
    """A pipeline with this body, that the platform finds nothing wrong with."""
    lines = "".join(f"        {line}\n" for line in body.strip().splitlines())
    head = "flights: falaj.DatasetVersion, late: falaj.ModelVersion, tried: falaj.Run, depth: int = 3"
    found = definition_of(folder, f"\n    @falaj.pipeline\n    def nightly({head}):\n{lines}")
    check(found, catalogue_of(OPERATIONS))
    return found


@pytest.mark.parametrize(
    "body",
    [
        "clean(falaj.steps.check(flights))",
        "clean(falaj.steps.derive('busy', 'SELECT * FROM flights', inputs=[flights, 'planes@2']))",
        "clean(falaj.steps.training_set(flights, time='at', features=['delays@1'], into='rows'))",
        "run = falaj.steps.train('a', depth, experiment='late')\nfalaj.steps.register(run, 'late', tags={'d': depth})",
        "score(falaj.steps.register(tried, 'late'))",
        "falaj.steps.optimise(late, on=flights, held_out='kept@2', label='late', max_drop=0.01)",
        "score(falaj.steps.run_gates(late, 'signature', 'quality'))",
        "score(falaj.steps.promote(late).after(falaj.steps.clear(late, reason='better')))",
        "score(falaj.steps.promote(late, alias='staging', reason=falaj.text('Depth ', depth)))",
        "falaj.steps.monitor(falaj.steps.deploy(late, to='late', latency_ms=50), reference=flights, window=60)",
        "falaj.steps.deploy('late@champion', to='late', shadow=5, features=['delays@1'], ladder=True)",
        "falaj.steps.canary(late, to='late', steps=(5, 100), every='10m')",
        "t = falaj.steps.abtest(falaj.steps.deploy(late, to='a', ab=1))\nwith falaj.when(t.state == 'won'):\n    tell('')",
        "falaj.steps.abtest('late', 3, metric={'of': 'truth'}, guardrails=[{'of': 'errors', 'worst': 0.1}])",
        "falaj.steps.wait(seconds=depth)\nfalaj.steps.wait(event='labels')\nfalaj.steps.approval('Go on?')",
        "falaj.steps.value(falaj.first(late.version, 3))",
        "falaj.each(falaj.steps.optimise, model=late, on=flights, target=['cpu', 'gpu'])",
    ],
)
def test_the_platform_takes_it(tmp_path: Path, body: str):
    checked(tmp_path, body)


def test_a_check_ends_the_run_where_a_version_is_in_quarantine(tmp_path: Path):
    step = steps_of(checked(tmp_path, "falaj.steps.check(flights)"))["check"]
    assert step.operation == "dataset.version"
    assert step.until is not None
    assert (step.until.operation, step.until.failed) == ("dataset.version", {"$": "answer.quarantined"})
    assert step.until.result == {"dataset": {"$": "parameters.flights.dataset"}, "version": {"$": "parameters.flights.version"}}


def test_a_script_goes_along_with_the_folder_and_its_numbers_become_text(tmp_path: Path):
    definition = checked(tmp_path, "falaj.steps.train('python', 'train.py', '--depth', depth, experiment='late')")
    spec: dict[str, Any] = steps_of(definition)["train"].arguments["spec"]
    assert spec["command"] == ["python", "train.py", "--depth", {"$": "text", "of": [{"$": "parameters.depth"}]}]
    assert spec["source"] == definition.source != ""


def test_a_pipeline_without_files_of_its_own_sends_none(tmp_path: Path):
    assert checked(tmp_path, "falaj.steps.value(depth)").source == ""


def test_a_promotion_waits_for_approvals_where_policy_asks_for_them(tmp_path: Path):
    steps = steps_of(checked(tmp_path, "falaj.steps.promote(late)"))
    waiting = {"$": "==", "of": [{"$": "steps.promote.state"}, "waiting"]}
    assert list(steps) == ["promote", "approved", "promote-approved"]
    assert steps["approved"].when == steps["promote-approved"].when == waiting
    assert steps["promote-approved"].after == ("approved",)


@pytest.mark.parametrize("is_enough", [True, False])
def test_a_promotion_is_done_once_the_alias_moved_and_fails_where_it_stands_still(team: Stage, tmp_path: Path, is_enough: bool):
    flow = """
    @falaj.pipeline
    def nightly():
        falaj.steps.promote(falaj.ModelVersion(model="late", version=1))
    """
    registered(team)
    definition = definition_of(tmp_path, flow)
    team.call(APPLY_PIPELINE, Apply(project=PROJECT, pipeline="nightly", definition=definition))
    run, vida = team.start(), team.person("vida", "validator")
    waiting = team.until(run, lambda shown: state_of(shown, "approved") == "running")
    approval = result_of(waiting, "promote")["approval"]
    team.call(GIVE_APPROVAL, GiveApproval(project=PROJECT, approval=approval), vida)
    team.clock.move(5)
    team.until(run, lambda shown: state_of(shown, "approved") == "done")
    if not is_enough:
        team.call(DISABLE_USER, OneUser(user="vida"))  # whose approval counts no more
    ended = team.until(run)
    if is_enough:
        assert (ended.state, result_of(ended, "promote-approved")["state"]) == ("done", "done")
        assert team.call(RESOLVE, Resolve(project=PROJECT, model="late", alias="champion")).version == 1
    else:
        assert (ended.state, ended.words) == ("failed", "promote-approved: model.promote was answered by 'waiting'.")


def registered(stage: Stage) -> None:
    """A version that can be promoted."""
    stage.call(CREATE_MODEL, CreateModel(project=PROJECT, model="late"))
    experiment = stage.call(CREATE_EXPERIMENT, CreateExperiment(project=PROJECT, name="late")).id
    holder = stage.call(CREATE_RUN, CreateRun(project=PROJECT, experiment=experiment)).info.id
    put = Call(credentials=stage.owner, request_id="r", chunks=iter([SERVABLE.read_bytes()]))
    stage.platform.dispatcher.call(PUT_ARTIFACT, PutArtifact(project=PROJECT, holder=holder, name="model.onnx"), put)
    stage.call(CREATE_VERSION, CreateVersion(project=PROJECT, model="late", holder=holder))


def test_approvals_are_asked_for_ahead_of_a_promotion_and_waited_for(tmp_path: Path):
    steps = steps_of(checked(tmp_path, "falaj.steps.canary(late, to='late').after(falaj.steps.clear(late))"))
    assert (set(steps), steps["clear"].operation) == ({"clear", "approved", "canary"}, "approval.ask")
    assert steps["approved"].when == {"$": "==", "of": [{"$": "steps.clear.state"}, "waiting"]}
    assert set(steps["canary"].after) == {"clear", "approved"}


@pytest.mark.parametrize(
    ("arms", "next_step", "ready", "done", "failed"),
    [
        ([(1, 9_000), (2, 1_000)], "2026-11-15T09:00:00Z", 1, False, False),  # on its way
        ([(2, 10_000)], None, 1, True, False),
        ([(2, 10_000)], None, 0, False, False),  # its planes are not that far yet
        ([(1, 10_000)], None, 1, False, True),  # it went back
        ([(1, 9_000), (2, 1_000)], None, 1, False, False),  # an alert, or somebody, stopped it where it was
        ([(1, 8_000), (2, 1_000), (3, 1_000)], None, 1, False, False),  # and another one came since
        ([(1, 1_000), (2, 1_000), *((more, 1_000) for more in range(3, 11))], None, 1, False, False),
        ([(1, 9_000), (3, 1_000)], None, 1, False, True),
        ([(3, 10_000)], None, 1, False, True),
        ([], None, 0, False, True),
    ],
)
def test_a_canary_is_done_with_everything_failed_once_it_has_no_part_and_waited_for_otherwise(
    tmp_path: Path, arms: list[tuple[int, int]], next_step: str | None, ready: int, done: bool, failed: bool
):
    until = steps_of(checked(tmp_path, "falaj.steps.canary(late, to='late')"))["canary"].until
    assert until is not None
    shown = [{"revision": revision, "share": share, "role": "live"} for revision, share in arms]
    answer = {"arms": shown, "next_step": next_step, "ready": ready, "planes": 1}
    scope = {"called": {"revision": 2}, "answer": answer}
    assert (resolve(until.done, scope), resolve(until.failed, scope)) == (done, failed)


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ("", 3 * 300 + 2 * 86_400),
        ("every='1d'", 5 * 86_400),
        ("steps=(5, 20, 40, 100), every='12h'", 4 * 86_400),
        ("timeout='1h'", 3600),
    ],
)
def test_a_canary_has_the_time_that_its_steps_take_and_more(tmp_path: Path, given: str, seconds: int):
    steps = steps_of(checked(tmp_path, f"falaj.steps.canary(late, to='late', {given})"))
    assert steps["canary"].seconds == seconds


def test_a_model_is_made_only_where_there_is_none(tmp_path: Path):
    steps = steps_of(checked(tmp_path, 'falaj.steps.register(tried, "it\'s late")'))
    assert steps["find-it-s-late"].arguments["filter"] == "name = 'it''s late'"
    assert steps["create-it-s-late"].when == {
        "$": "==",
        "of": [{"$": "count", "of": [{"$": "steps.find-it-s-late.items"}]}, 0],
    }
    assert steps["register-it-s-late"].after == ("create-it-s-late",)
