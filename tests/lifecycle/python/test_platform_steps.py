"""falaj.steps: each becomes steps that the platform would take, and hands on what others can go on with."""

from pathlib import Path
from typing import Any

import pytest

from falaj.app.platform import OPERATIONS
from falaj.lifecycle.checking import catalogue_of, check
from falaj.lifecycle.operations.words import Definition
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


def test_a_canary_is_done_once_it_has_everything_and_failed_once_it_went_back(tmp_path: Path):
    until = steps_of(checked(tmp_path, "falaj.steps.canary(late, to='late')"))["canary"].until
    assert until is not None
    over = {"$": "==", "of": [{"$": "answer.next_step"}, None]}
    mine = {"$": "==", "of": [{"$": "answer.arms.0.revision"}, {"$": "called.revision"}]}
    whole = {"$": "and", "of": [{"$": "==", "of": [{"$": "count", "of": [{"$": "answer.arms"}]}, 1]}, mine]}
    assert until.done["of"][0] == {"$": "and", "of": [over, whole]}
    assert until.failed == {"$": "and", "of": [over, {"$": "not", "of": [whole]}]}


def test_a_model_is_made_only_where_there_is_none(tmp_path: Path):
    steps = steps_of(checked(tmp_path, 'falaj.steps.register(tried, "it\'s late")'))
    assert steps["find-it-s-late"].arguments["filter"] == "name = 'it''s late'"
    assert steps["create-it-s-late"].when == {
        "$": "==",
        "of": [{"$": "count", "of": [{"$": "steps.find-it-s-late.items"}]}, 0],
    }
    assert steps["register-it-s-late"].after == ("create-it-s-late",)
