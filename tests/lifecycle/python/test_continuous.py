"""falaj.continuous: in which order a version is brought out, and by what it is held up."""

from pathlib import Path

import duckdb
import pytest

from falaj.app.platform import OPERATIONS
from falaj.base.errors import Invalid
from falaj.client.pipelines.files import only_one, written
from falaj.lifecycle.checking import catalogue_of, check, needs_of
from falaj.lifecycle.expressions import resolve
from falaj.lifecycle.operations.triggers import Trigger
from falaj.lifecycle.operations.words import Definition
from falaj.registry.operations.words import BROUGHT_OUT
from tests.lifecycle.python.written import steps_of

FLOW = """
import falaj


@falaj.step
def rows() -> falaj.DatasetVersion: ...


@falaj.step
def train(rows: falaj.DatasetVersion, trials: int = 1) -> falaj.ModelVersion: ...


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


HELD_OUT = "derive-late-held-out"


def version_of(step: str) -> dict[str, object]:
    return {"$": "text", "of": [{"$": f"steps.{step}.dataset"}, "@", {"$": f"steps.{step}.version"}]}


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
    line = [
        "late-rows",
        "check",
        "derive-late-features",
        HELD_OUT,
        "derive-late-seen",
        "train",
        "evaluate",
        "optimise",
        "gates",
    ]
    line += ["mark", "clear", "approved"]
    line += ["approval", "canary", "monitor", "promote", "approved-2", "promote-approved"]
    for place, name in enumerate(line):
        assert before(definition, name) == set(line[:place]), name
    assert set(steps_of(definition)) == set(line)


def test_training_sees_no_row_that_anything_is_judged_on(tmp_path: Path):
    steps = steps_of(defined(tmp_path, ALL))
    assert steps["train"].arguments == {"rows": {"$": "steps.derive-late-seen"}}
    assert steps["evaluate"].arguments["rows"] == {"$": f"steps.{HELD_OUT}"}
    assert steps["optimise"].arguments["on"] == version_of("derive-late-seen")
    assert steps["optimise"].arguments["held_out"] == version_of(HELD_OUT)
    assert steps[HELD_OUT].arguments["inputs"] == steps["derive-late-seen"].arguments["inputs"]


@pytest.mark.parametrize("apart", ["0.3", "\"day >= DATE '2026-10-01'\""])
def test_every_row_is_on_one_side_alone(tmp_path: Path, apart: str):
    steps = steps_of(defined(tmp_path, LEAST + f"held_out = {apart}\n" + BETTER))
    with duckdb.connect() as known:
        known.execute(
            "CREATE TABLE \"late-rows\" AS SELECT range AS bed, CASE WHEN range % 9 > 0 THEN DATE '2026-09-01' "
            "+ range::INTEGER % 60 END AS day FROM range(2000)"
        )
        sides = []
        for name in ("derive-late-seen", HELD_OUT):
            sql = resolve(steps[name].arguments["sql"], {"steps": {"check": {"dataset": "late-rows", "version": 1}}})
            sides.append({bed for bed, _ in known.execute(sql).fetchall()})
    seen, unseen = sides
    assert seen | unseen == set(range(2000))
    assert not seen & unseen
    assert 500 < len(unseen) < 1000


def test_a_share_that_holds_out_nothing_is_refused(tmp_path: Path):
    with pytest.raises(Invalid, match=r"held_out is a share of the rows, such as 0\.3"):
        defined(tmp_path, LEAST + "held_out = 0\n" + BETTER)


def test_what_was_made_small_goes_through_the_gates_and_answers(tmp_path: Path):
    steps = steps_of(defined(tmp_path, ALL))
    assert steps["gates"].arguments["version"] == {"$": "steps.optimise.version"}
    assert steps["canary"].arguments["variant"] == {"$": "steps.optimise.variant"}
    assert steps["promote"].arguments["version"] == {"$": "steps.gates.version"}


def test_a_version_is_marked_as_soon_as_anybody_may_refuse_it(tmp_path: Path):
    mark = steps_of(defined(tmp_path, ALL))["mark"]
    scope = {"run": "0" * 32, "steps": {"gates": {"model": "late", "version": 2}}}
    assert resolve(mark.arguments, scope) == {"model": "late", "version": 2, "key": BROUGHT_OUT, "value": "0" * 32}


def test_what_is_not_wanted_is_left_out(tmp_path: Path):
    steps = steps_of(defined(tmp_path, LEAST + "approval = false\n" + BETTER))
    assert not steps.keys() & {"derive-late-features", "optimise", "gates", "approval"}
    assert (steps["canary"].arguments["variant"], steps["promote"].arguments["version"]) == ("", {"$": "steps.train.version"})


def test_nobody_is_asked_twice(tmp_path: Path):
    """Where policy has other people approve the move, that is the question."""
    asked = steps_of(defined(tmp_path, LEAST + BETTER))["approval"]
    judged = {"figures": {"accuracy": 1.0}, "told": {"accuracy": "1"}, "surely": {"accuracy": 1.0}, "is_new": True}
    done = {"train": {"model": "late", "version": 2}, "evaluate": judged, "clear": {"state": "waiting"}}
    assert not resolve(asked.when, {"steps": {**done, "approved": {"state": "ready"}}})
    assert resolve(asked.when, {"steps": {**done, "clear": {"state": "allowed"}}})  # nobody had to: approved was skipped


@pytest.mark.parametrize(
    ("accuracy", "surely", "is_new", "goes_on"),
    [(0.9, 0.0, True, True), (0.9, 0.0, False, False), (0.79, 0.1, True, False), (0.9, -0.01, True, False)],
)
def test_only_what_is_new_and_good_enough_goes_on(tmp_path: Path, accuracy: float, surely: float, is_new: bool, goes_on: bool):
    first = steps_of(defined(tmp_path, LEAST + BETTER + "least = 0.8\n"))["clear"]
    judged = {"figures": {"accuracy": accuracy}, "gain": {"accuracy": 1.0}, "surely": {"accuracy": surely}, "is_new": is_new}
    assert resolve(first.when, {"steps": {"evaluate": judged}}) is goes_on


def test_training_is_given_what_the_settings_say(tmp_path: Path):
    steps = steps_of(defined(tmp_path, LEAST + BETTER + "[train]\ntrials = 7\n"))
    assert steps["train"].arguments["trials"] == 7
    with pytest.raises(Invalid, match=r"late\.py, line 19: train: got an unexpected keyword argument 'depth'"):
        defined(tmp_path, LEAST + BETTER + "[train]\ndepth = 7\n")


def test_it_says_what_shall_start_it_by_itself(tmp_path: Path):
    again = '[again]\ncron = "0 6 * * *"\nzone = "Asia/Dubai"\ndatasets = ["beds"]\npause = "2h"\n'
    defined(tmp_path, LEAST + BETTER + again)
    found = only_one(written(tmp_path / "late.py"), tmp_path / "late.py").starts
    assert found == {
        "schedule": Trigger(kind="schedule", cron="0 6 * * *", zone="Asia/Dubai", pause=7200),
        "drifted": Trigger(kind="drift", about="late", pause=7200),
        "new-beds": Trigger(kind="dataset", about="beds", pause=7200),
    }
    defined(tmp_path, LEAST + BETTER)
    assert not only_one(written(tmp_path / "late.py"), tmp_path / "late.py").starts
    with pytest.raises(Invalid, match=r"again\.pause: 'soon' is no length of time"):
        defined(tmp_path, LEAST + BETTER + '[again]\npause = "soon"\n')
