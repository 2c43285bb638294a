"""What is wrong with a pipeline is told before anything is sent, with its line and what to do instead."""

import re
from pathlib import Path

import pytest

from falaj.base.errors import Invalid
from falaj.client.pipelines.files import only_one, written
from tests.lifecycle.python.written import STEPS, folder_with, line_of


def wrong(folder: Path, body: str, *, at: str = "# here", head: str = "flights: falaj.DatasetVersion") -> str:
    """What is told of a pipeline with this body, and that it is told of the line that has `at`."""
    lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
    file = folder_with(folder, f"\n@falaj.pipeline\ndef nightly({head}):\n{lines}")
    with pytest.raises(Invalid) as raised:
        only_one(written(file), file)
    words = str(raised.value)
    assert words.startswith(f"flow.py, line {line_of(file, at)}: "), words
    return words


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("train(flights, depth='deep')  # here", "train(depth=...) takes a whole number, and is given a text ('deep')."),
        ("train(score(flights), depth=1)  # here", "score(model=...) takes a version of a model, and is given a version"),
        ("clean('flights')  # here", "give a parameter of the pipeline ('flights' as the default of a DatasetVersion)"),
        (
            "train(flights)  # here",
            "missing a required argument: 'depth'; it takes rows (a version of a dataset), depth (a whole number).",
        ),
        ("train(flights, depth=1, deep=3)  # here", "got an unexpected keyword argument 'deep'"),
        ("x = clean(flights).digest  # here", "a version of a dataset has .dataset and .version, and no 'digest'"),
        ("rows = clean(flights)\nif rows.version > 3:  # here\n    pass", "with falaj.when(...)"),
        ("tell(f'It is {clean(flights).version}')  # here", "falaj.text(...) joins both"),
        ("x = clean(flights).version + 1  # here", "compute with it in a step"),
        ("for one in facts(flights).items:  # here\n    tell(one)", "falaj.each(step, ...) does a step for each"),
        ("len(facts(flights).items)  # here", "falaj.count(...)"),
        ("3 in facts(flights).items  # here", "falaj.among(one, ...)"),
        ("m = train(flights, depth=1)\nm.version = 3  # here", "which nobody can change"),
        (
            "with falaj.when(score(train(flights, 1)) > 0.5 & (flights.version > 1)):  # here\n    tell('x')",
            "put brackets around each comparison",
        ),
        (
            "with falaj.when(train(flights, 1)):  # here\n    tell('x')",
            "takes True or False, and is given a version of a model",
        ),
        ("clean(flights) > 3  # here", "a version of a dataset is neither more nor less than something"),
        ("tell('a').named('Not a name')  # here", "'Not a name' is no name of a step"),
        ("tell('a')\ntell('b').named('tell')  # here", "Two steps are called 'tell'"),
        ("clean(flights).after(flights)  # here", "can come after what other steps hand on"),
        ("falaj.text('a', flights.version).after(tell('b'))  # here", "is no step, and comes after nothing"),
        ("falaj.steps.approval(clean(flights))  # here", "falaj.steps.approval takes a text"),
        ("falaj.each(train, rows=flights, depth=3)  # here", "falaj.each is given no list"),
        ("falaj.each(train, rows=flights, depth=[])  # here", "falaj.each goes through 1 to 1,000 items"),
        ("falaj.steps.value({1, 2})  # here", "cannot be handed to a step"),
        ("falaj.steps.value({'$': 'steps.x'})  # here", "cannot be handed to a step"),
        ("falaj.steps.wait()  # here", "either for so many seconds= or for an event="),
        ("falaj.steps.deploy(train(flights, 1), to='a', canary=5, ab=5)  # here", "give one of canary=, shadow=, ab="),
        ("falaj.steps.canary(train(flights, 1), to='a', steps=(50, 10, 100))  # here", "grows step by step to 100 per cent"),
        ("falaj.steps.approval(' ')  # here", "asks a question"),
        ("with falaj.when(False):\n    tell('never')  # here", "Nothing can reach the step 'tell'"),
    ],
)
def test_a_mistake_is_told_with_its_line(tmp_path: Path, body: str, words: str):
    assert words in wrong(tmp_path, body)


def test_steps_that_wait_for_each_other_are_told(tmp_path: Path):
    body = "one = tell('a')\ntwo = tell('b').after(one)  # there\none.after(two)"
    assert "These steps wait for each other: tell, tell-2" in wrong(tmp_path, body, at="one = tell")


def test_what_needs_both_sides_of_a_condition_is_never_reached(tmp_path: Path):
    body = """much = score(train(flights, 1)) > 0.5
with falaj.when(much):
    one = facts(flights)
with falaj.when(~much):
    two = facts(flights)
falaj.steps.value([one, two])  # here"""
    assert "Nothing can reach the step 'value'" in wrong(tmp_path, body)


def test_a_pipeline_without_a_step_is_none(tmp_path: Path):
    assert "nightly calls no step" in wrong(tmp_path, "return 3", at="@falaj.pipeline")


def test_a_default_is_of_the_kind_that_is_said(tmp_path: Path):
    words = wrong(tmp_path, "tell('a')", at="@falaj.pipeline", head="depth: int = 'six'")
    assert "depth: it is said to be a whole number, and is 'six' by default" in words


def test_what_no_step_can_be_given_is_told_of_its_annotation(tmp_path: Path):
    steps = STEPS + "import pathlib\n\n\n@falaj.step\ndef odd(path: pathlib.Path) -> int: ...\n"
    file = folder_with(tmp_path, "\n@falaj.pipeline\ndef nightly():\n    odd('a')\n", steps=steps)
    with pytest.raises(Invalid, match=r"odd, path: Path is nothing that steps can be given or hand on"):
        written(file)


def test_a_step_that_no_job_could_find_is_told(tmp_path: Path):
    body = "@falaj.step\ndef hidden() -> int: ...\nhidden()  # here"
    assert "hidden does not stand by its name in its file" in wrong(tmp_path, body)


def test_a_step_of_another_folder_does_not_go_along(tmp_path: Path):
    (tmp_path / "own").mkdir()
    pipeline = f"""
    import sys
    sys.path.insert(0, {str(tmp_path)!r})
    from elsewhere import far

    @falaj.pipeline
    def nightly():
        far()
    """
    (tmp_path / "elsewhere.py").write_text("import falaj\n\n\n@falaj.step\ndef far() -> int: ...\n")
    file = folder_with(tmp_path / "own", pipeline)
    with pytest.raises(Invalid, match="name a folder that has both with --source"):
        written(file)
    (found,) = written(file, tmp_path)
    assert [one.function.file for one in found.definition.steps if one.function] == ["elsewhere.py"]


def test_a_module_that_is_not_here_is_to_be_imported_within_the_step(tmp_path: Path):
    file = folder_with(tmp_path, "", steps="import falaj\nimport nowhere_to_be_had\n")
    with pytest.raises(Invalid, match=r"flow.py, line 2: there is no module 'nowhere_to_be_had' here.*inside the function"):
        written(file)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import falaj\ndef (:\n", r"flow.py, line 2: invalid syntax"),
        ("import falaj\nfalaj.nothing\n", r"flow.py, line 2: AttributeError: module 'falaj' has no attribute 'nothing'"),
        ("import falaj\n", r"has no pipeline: a function with @falaj.pipeline"),
        (
            "import falaj\n\n\n@falaj.step(memory='much')\ndef one() -> int: ...\n",
            r"'much' is no amount of memory; write it like 512MiB",
        ),
        (
            "import falaj\n\n\n@falaj.step\ndef one(*many: int) -> int: ...\n",
            r"takes \*many: int; its arguments have to be named",
        ),
    ],
)
def test_a_file_that_cannot_be_loaded_says_where(tmp_path: Path, text: str, words: str):
    with pytest.raises(Invalid, match=words):
        written(folder_with(tmp_path, "", steps=text))


def test_a_lock_that_cannot_run_a_step_is_told(tmp_path: Path):
    (tmp_path / "r.txt").write_text("numpy==2.0.0\n")
    steps = "import falaj\n\n\n@falaj.step(lock='r.txt')\ndef one() -> int: ...\n"
    file = folder_with(tmp_path, "\n@falaj.pipeline\ndef nightly():\n    one()\n", steps=steps)
    with pytest.raises(Invalid, match=r"flow.py, line \d+: The lock r.txt of the step one does not name falaj"):
        written(file)


def test_of_several_pipelines_one_has_to_be_named(tmp_path: Path):
    file = folder_with(
        tmp_path, "\n@falaj.pipeline\ndef one():\n    tell('a')\n\n\n@falaj.pipeline(name='other')\ndef two():\n    tell('b')\n"
    )
    with pytest.raises(Invalid, match=re.escape(f"several pipelines (one, other): name one, like {file}:one.")):
        only_one(written(file), file)
    assert [one.name for one in written(file, only="other")] == ["other"]
    with pytest.raises(Invalid, match="has no pipeline 'three'; it has one, other"):
        written(file, only="three")


def test_platform_steps_belong_into_a_pipeline():
    import falaj

    with pytest.raises(Invalid, match=r"falaj.steps.value has a place in the function of a pipeline alone"):
        falaj.steps.value(3)
