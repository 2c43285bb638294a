"""A pipeline's function becomes a definition: steps, what they are given, when they are done, for what."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

import falaj
from falaj.app.platform import OPERATIONS
from falaj.base.errors import Invalid
from falaj.client.pipelines.files import written
from falaj.lifecycle.checking import catalogue_of, check
from falaj.operations.messages import adapter
from tests.lifecycle.python.written import STEPS, definition_of, folder_with, steps_of

NIGHTLY = """
    @falaj.pipeline
    def nightly_flights(flights: falaj.DatasetVersion = "flights", depth: int = 6, note: str = ""):
        '''Every night.

        And this is more of it.'''
        rows = clean(flights, worst=240)
        model = train(rows, depth=depth)
        good = score(model)
        with falaj.when((good > 0.7) & ~(good == 1)):
            falaj.steps.approval("Shall it answer?")
        return {"model": model, "version": model.version, "good": good}
"""


def test_calls_become_steps_and_what_they_hand_on_references(tmp_path: Path):
    definition = definition_of(tmp_path, NIGHTLY)
    steps = steps_of(definition)
    assert [one.name for one in definition.steps] == ["clean", "train", "score", "approval"]
    assert steps["clean"].arguments == {"flights": {"$": "parameters.flights"}, "worst": 240}
    assert steps["train"].arguments == {"rows": {"$": "steps.clean"}, "depth": {"$": "parameters.depth"}}
    assert definition.result == {
        "model": {"$": "steps.train"},
        "version": {"$": "steps.train.version"},
        "good": {"$": "steps.score"},
    }
    assert [one.result for one in definition.steps] == ["dataset", "model", "number", "any"]


def test_comparisons_joined_by_signs_become_conditions(tmp_path: Path):
    good = {"$": "steps.score"}
    negated = {"$": "not", "of": [{"$": "==", "of": [good, 1]}]}
    when = steps_of(definition_of(tmp_path, NIGHTLY))["approval"].when
    assert when == {"$": "and", "of": [{"$": ">", "of": [good, 0.7]}, negated]}


def test_parameters_have_kinds_and_defaults_and_the_pipeline_a_name_and_words(tmp_path: Path):
    file = folder_with(tmp_path, NIGHTLY)
    (found,) = written(file)
    assert found.name == "nightly-flights"
    assert found.definition.words == "Every night."
    told = [(one.name, one.kind, one.default, one.required) for one in found.definition.parameters]
    assert told == [("flights", "dataset", "flights", False), ("depth", "whole", 6, False), ("note", "text", "", False)]


def test_what_has_no_default_must_be_said(tmp_path: Path):
    pipeline = """
    @falaj.pipeline
    def nightly(words: str):
        tell(words)
    """
    (parameter,) = definition_of(tmp_path, pipeline).parameters
    assert parameter.required


def test_a_definition_travels_and_the_platform_finds_nothing_wrong_with_it(tmp_path: Path):
    definition = definition_of(tmp_path, NIGHTLY)
    travelled = adapter(type(definition)).validate_json(adapter(type(definition)).dump_json(definition))
    assert travelled == definition
    check(travelled, catalogue_of(OPERATIONS))


def test_the_second_of_a_name_is_numbered_and_any_can_be_named(tmp_path: Path):
    pipeline = """
    @falaj.pipeline
    def nightly(flights: falaj.DatasetVersion):
        one = train(flights, depth=1)
        two = train(flights, depth=2)
        three = train(flights, depth=3).named("deep")
        score(three)
        return [one.version, two.version]
    """
    definition = definition_of(tmp_path, pipeline)
    assert [one.name for one in definition.steps] == ["train", "train-2", "deep", "score"]
    assert steps_of(definition)["score"].arguments == {"model": {"$": "steps.deep"}}
    assert definition.result == [{"$": "steps.train.version"}, {"$": "steps.train-2.version"}]


def test_a_step_can_come_after_others_that_it_needs_nothing_of(tmp_path: Path):
    pipeline = """
    @falaj.pipeline
    def nightly(flights: falaj.DatasetVersion):
        told = tell("now")
        clean(flights).after(told)
    """
    assert steps_of(definition_of(tmp_path, pipeline))["clean"].after == ("tell",)


def test_each_does_a_step_for_every_item_of_a_list(tmp_path: Path):
    pipeline = """
    @falaj.pipeline
    def nightly(flights: falaj.DatasetVersion, words: list = ["a"]):
        models = falaj.each(train, rows=flights, depth=[4, 6, 8])
        falaj.each(score, model=models)
        falaj.each(tell, words=words)
        return {"second": models[1].version, "many": falaj.count(models)}
    """
    definition = definition_of(tmp_path, pipeline)
    steps = steps_of(definition)
    assert steps["train"].each == [4, 6, 8]
    assert steps["train"].arguments == {"rows": {"$": "parameters.flights"}, "depth": {"$": "item"}}
    assert steps["score"].each == {"$": "steps.train"}
    assert steps["tell"].each == {"$": "parameters.words"}
    assert definition.result == {"second": {"$": "steps.train.1.version"}, "many": {"$": "count", "of": [{"$": "steps.train"}]}}


def test_several_lists_go_through_together(tmp_path: Path):
    pipeline = """
    @falaj.step
    def fit(depth: int, rate: float) -> float: ...

    @falaj.pipeline
    def nightly():
        falaj.each(fit, depth=[4, 6], rate=[0.1, 0.2])
    """
    (step,) = definition_of(tmp_path, pipeline).steps
    assert step.each == [{"depth": 4, "rate": 0.1}, {"depth": 6, "rate": 0.2}]
    assert step.arguments == {"depth": {"$": "item.depth"}, "rate": {"$": "item.rate"}}


def test_either_way_goes_on_with_the_first_that_was_done(tmp_path: Path):
    pipeline = """
    @falaj.pipeline
    def nightly(flights: falaj.DatasetVersion, much: bool = False):
        with falaj.when(much):
            deep = train(flights, depth=9)
        with falaj.when(~much):
            flat = train(flights, depth=2)
        score(falaj.first(deep, flat))
        return falaj.first(deep, flat).version
    """
    definition = definition_of(tmp_path, pipeline)
    steps = steps_of(definition)
    assert steps["train"].when == {"$": "parameters.much"}
    assert steps["score"].arguments == {"model": {"$": "first", "of": [{"$": "steps.train"}, {"$": "steps.train-2"}]}}
    assert definition.result == {"$": "first", "of": [{"$": "steps.train.version"}, {"$": "steps.train-2.version"}]}


def test_what_is_written_below_an_approval_in_its_block_waits_for_it(tmp_path: Path):
    pipeline = """
    @falaj.pipeline
    def nightly(flights: falaj.DatasetVersion, much: bool):
        tell("before")
        with falaj.when(much):
            falaj.steps.approval(falaj.text("Rows of ", flights.dataset, "?"))
            tell("within")
        tell("beside")
        falaj.steps.wait(seconds=1)
        tell("below")
        falaj.steps.approval("Sure?")
        with falaj.when(~much):
            tell("last")
    """
    definition = definition_of(tmp_path, pipeline)
    after = {one.name: one.after for one in definition.steps}
    assert after == {
        "tell": (),
        "approval": (),
        "tell-2": ("approval",),
        "tell-3": (),
        "wait": (),
        "tell-4": ("wait",),
        "approval-2": ("wait",),
        "tell-5": ("approval-2",),
    }
    asked = steps_of(definition)["approval"].arguments["question"]
    assert asked == {"$": "text", "of": ["Rows of ", {"$": "parameters.flights.dataset"}, "?"]}
    check(definition, catalogue_of(OPERATIONS))


def test_what_is_said_goes_before_where_it_is_written(tmp_path: Path):
    pipeline = """
    @falaj.pipeline
    def nightly(flights: falaj.DatasetVersion):
        asked = falaj.steps.approval("Sure?")
        rows = clean(flights)
        asked.after(rows)
    """
    after = {one.name: one.after for one in definition_of(tmp_path, pipeline).steps}
    assert after == {"approval": ("clean",), "clean": ()}


def test_a_promotion_can_come_after_a_canary(tmp_path: Path):
    pipeline = """
    @falaj.pipeline
    def nightly(model: falaj.ModelVersion):
        whole = falaj.steps.canary(model, to="late")
        falaj.steps.promote(model).after(whole)
    """
    after = {one.name: one.after for one in definition_of(tmp_path, pipeline).steps}
    assert (after["promote"], after["promote-approved"]) == (("canary",), ("approved", "canary"))


def test_texts_lists_and_maps_may_hold_what_is_known_later(tmp_path: Path):
    pipeline = """
    @falaj.pipeline
    def nightly(flights: falaj.DatasetVersion):
        seen = facts(flights)
        tell(falaj.text("Rows: ", seen.rows))
        with falaj.when(falaj.among(seen["kind of"], ["good", "fair"])):
            falaj.steps.value({"rows": seen.rows, "all": [seen.rows, 1]})
    """
    steps = steps_of(definition_of(tmp_path, pipeline))
    assert steps["tell"].arguments["words"] == {"$": "text", "of": ["Rows: ", {"$": "steps.facts.rows"}]}
    rows = {"$": "steps.facts.rows"}
    assert steps["value"].arguments == {"value": {"rows": rows, "all": [rows, 1]}}
    assert steps["value"].when == {"$": "in", "of": [{"$": "steps.facts.kind of"}, ["good", "fair"]]}


def test_conditions_within_conditions_both_have_to_hold(tmp_path: Path):
    pipeline = """
    @falaj.pipeline
    def nightly(much: bool, more: bool):
        with falaj.when(much):
            tell("much")
            with falaj.when(more):
                tell("more")
    """
    steps = steps_of(definition_of(tmp_path, pipeline))
    assert steps["tell"].when == {"$": "parameters.much"}
    assert steps["tell-2"].when == {"$": "and", "of": [{"$": "parameters.much"}, {"$": "parameters.more"}]}


def test_a_pipeline_called_in_another_brings_its_steps(tmp_path: Path):
    pipeline = """
    @falaj.pipeline
    def inner(rows: falaj.DatasetVersion):
        return train(rows, depth=3)

    @falaj.pipeline
    def outer(flights: falaj.DatasetVersion):
        return score(inner(clean(flights)))
    """
    found = {one.name: one.definition for one in written(folder_with(tmp_path, pipeline))}
    assert [one.name for one in found["outer"].steps] == ["clean", "train", "score"]
    assert [one.name for one in found["inner"].steps] == ["train"]


def test_what_a_step_asks_for_goes_along(tmp_path: Path):
    (tmp_path / "requirements.txt").write_text("falaj==0.1.0\nnumpy==2.0.0\n")
    pipeline = """
    @falaj.step(
        cpus=2, memory="3GiB", gpus=1, lock="requirements.txt", retries=3, on=("lost",), timeout="2h", cached=True,
        permissions=("dataset.read",), secrets=("KEY",), hosts=("a.example:443",), experiment="late", queue="night", at_once=2,
    )
    def fit(depth: int) -> falaj.Run:
        "Fits it."

    @falaj.pipeline
    def nightly():
        fit(3)
    """
    (step,) = definition_of(tmp_path, pipeline).steps
    function = step.function
    assert function is not None
    assert (function.resources.cpus, function.resources.memory_mib, function.resources.gpus) == (2.0, 3072, 1.0)
    assert (function.lock, function.permissions, function.secrets) == (
        "falaj==0.1.0\nnumpy==2.0.0\n",
        ("dataset.read",),
        ("KEY",),
    )
    assert (function.hosts, function.experiment, function.queue) == (("a.example:443",), "late", "night")
    assert (step.retries, step.on, step.seconds, step.cached, step.at_once) == (3, ("lost",), 7200, True, 2)
    assert step.words == "Fits it."


def test_the_same_files_have_the_same_code_and_what_they_import_counts(tmp_path: Path):
    pipeline = "from helpers import LIMIT\n" + STEPS
    first = _codes(tmp_path, pipeline, helpers="from far import AWAY\nLIMIT = 1\n", far="AWAY = 1\n", other="x = 1\n")
    assert len(first) == 1
    assert _codes(tmp_path, pipeline, helpers="from far import AWAY\nLIMIT = 1\n", far="AWAY = 1\n", other="x = 2\n") == first
    assert _codes(tmp_path, pipeline, helpers="from far import AWAY\nLIMIT = 1\n", far="AWAY = 2\n") != first


def test_what_a_step_may_read_counts_and_what_is_not_sent_does_not(tmp_path: Path):
    (tmp_path / ".falajignore").write_text("notes\n")
    for folder, file in (("", "limits.csv"), ("deep", "limits.toml"), ("notes", "read.me")):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / file).write_text("240")
    first = _codes(tmp_path, STEPS)
    (tmp_path / "notes" / "read.me").write_text("241")
    assert _codes(tmp_path, STEPS) == first
    for changed in (tmp_path / "limits.csv", tmp_path / "deep" / "limits.toml"):
        before = _codes(tmp_path, STEPS)
        changed.write_text("241")
        assert not _codes(tmp_path, STEPS) & before


def _codes(folder: Path, steps: str, **others: str) -> set[str]:
    definition = definition_of(folder, NIGHTLY, steps=steps, **others)
    return {step.function.code for step in definition.steps if step.function is not None}


def test_steps_of_other_files_of_the_folder_are_named_by_their_file(tmp_path: Path):
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "fitting.py").write_text("import falaj\n\n\n@falaj.step\ndef fit(depth: int) -> int: ...\n")
    pipeline = """
    from parts.fitting import fit

    @falaj.pipeline
    def nightly():
        fit(3)
    """
    (step,) = definition_of(tmp_path, pipeline).steps
    assert step.function is not None
    assert (step.function.file, step.function.name) == ("parts/fitting.py", "fit")


def test_folders_with_files_of_the_same_names_do_not_get_mixed_up(tmp_path: Path):
    for number in (1, 2):
        folder = tmp_path / str(number)
        folder.mkdir()
        pipeline = """
        from helpers import LIMIT

        @falaj.pipeline
        def nightly():
            tell(str(LIMIT))
        """
        (step,) = definition_of(folder, pipeline, helpers=f"LIMIT = {number}\n").steps
        assert step.arguments == {"words": str(number)}
    assert "helpers" not in sys.modules


def test_outside_of_a_pipeline_a_step_is_its_function():
    @falaj.step
    def double(number: int) -> int:
        """Twice as much."""
        return 2 * number

    assert double(4) == 8
    assert double.__doc__ == "Twice as much."
    assert double.__name__ == "double"


def test_a_pipeline_by_itself_says_how_it_is_run(tmp_path: Path):
    module = _imported(folder_with(tmp_path, NIGHTLY))
    with pytest.raises(Invalid, match=r"nightly_flights is a pipeline: run it with `falaj pipeline run flow.py`"):
        module.nightly_flights()


def _imported(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("flow_alone", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
