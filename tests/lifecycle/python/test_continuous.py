"""falaj.continuous: in which order a version is brought out, and by what it is held up."""

from pathlib import Path

import pytest

from falaj.app.platform import OPERATIONS
from falaj.client.pipelines.files import only_one, written
from falaj.lifecycle.checking import catalogue_of, check, needs_of
from falaj.lifecycle.expressions import resolve
from falaj.lifecycle.operations.words import Definition
from tests.lifecycle.python.written import steps_of

FLOW = """
import falaj


@falaj.step
def rows() -> falaj.DatasetVersion: ...


@falaj.step
def train(rows: falaj.DatasetVersion) -> falaj.ModelVersion: ...


@falaj.step
def evaluate(model: falaj.ModelVersion, rows: falaj.DatasetVersion) -> dict: ...


@falaj.pipeline
def late():
    return falaj.continuous("late.toml", rows=rows, train=train, evaluate=evaluate)
"""
LEAST = """
model = "late"
endpoint = "late"
label = "late"
"""
BETTER = """
[better]
metric = "accuracy"
"""
ALL = LEAST + 'features = "SELECT * FROM \\"late-rows\\""\ngates = ["certificate"]\n' + BETTER + "[small]\n"


def defined(folder: Path, settings: str) -> Definition:
    (folder / "late.toml").write_text(settings)
    file = folder / "late.py"
    file.write_text(FLOW)
    found = only_one(written(file), file).definition
    check(found, catalogue_of(OPERATIONS))
    return found


def before(definition: Definition, name: str) -> set[str]:
    """All that has to be over before a step begins."""
    steps, found, new = steps_of(definition), set[str](), {name}
    while new:
        new = {need for one in new for need in needs_of(steps[one])} - found
        found |= new
    return found


def test_a_version_is_brought_out_in_this_order(tmp_path: Path):
    definition = defined(tmp_path, ALL)
    line = ["late-rows", "check", "derive-late-features", "train", "evaluate", "optimise", "gates", "clear", "approved"]
    line += ["approval", "canary", "monitor", "promote", "approved-2", "promote-approved"]
    for place, name in enumerate(line):
        assert before(definition, name) == set(line[:place]), name
    assert set(steps_of(definition)) == set(line)


def test_what_was_made_small_goes_through_the_gates_and_answers(tmp_path: Path):
    steps = steps_of(defined(tmp_path, ALL))
    assert steps["gates"].arguments["version"] == {"$": "steps.optimise.version"}
    assert steps["canary"].arguments["variant"] == {"$": "steps.optimise.variant"}
    assert steps["promote"].arguments["version"] == {"$": "steps.gates.version"}


def test_what_is_not_wanted_is_left_out(tmp_path: Path):
    steps = steps_of(defined(tmp_path, LEAST + "approval = false\n" + BETTER))
    assert not steps.keys() & {"derive-late-features", "optimise", "gates", "approval"}
    assert (steps["canary"].arguments["variant"], steps["promote"].arguments["version"]) == ("", {"$": "steps.train.version"})


def test_nobody_is_asked_twice(tmp_path: Path):
    """Where policy has other people approve the move, that is the question."""
    asked = steps_of(defined(tmp_path, LEAST + BETTER))["approval"]
    judged = {"figures": {"accuracy": 1.0}, "gain": {"accuracy": 1.0}, "is_new": True}
    done = {"train": {"model": "late", "version": 2}, "evaluate": judged, "clear": {"state": "waiting"}}
    assert not resolve(asked.when, {"steps": {**done, "approved": {"state": "ready"}}})
    assert resolve(asked.when, {"steps": {**done, "clear": {"state": "allowed"}}})  # nobody had to: approved was skipped


@pytest.mark.parametrize(
    ("accuracy", "gain", "is_new", "goes_on"),
    [(0.9, 0.0, True, True), (0.9, 0.0, False, False), (0.79, 0.1, True, False), (0.9, -0.01, True, False)],
)
def test_only_what_is_new_and_good_enough_goes_on(tmp_path: Path, accuracy: float, gain: float, is_new: bool, goes_on: bool):
    first = steps_of(defined(tmp_path, LEAST + BETTER + "least = 0.8\n"))["clear"]
    judged = {"figures": {"accuracy": accuracy}, "gain": {"accuracy": gain}, "is_new": is_new}
    assert resolve(first.when, {"steps": {"evaluate": judged}}) is goes_on
