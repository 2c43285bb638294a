"""`falaj ci` and `falaj gate` as people and CI systems call them: statuses, messages, and the files they write."""

from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

from falaj.base.clock import Moment
from falaj.base.errors import Invalid
from falaj.base.ids import new_id
from falaj.cli import ci_files
from falaj.cli.gate_files import read_gate_file
from falaj.cli.gate_looks import junit
from falaj.cli.gate_runs import gates_of
from falaj.cli.main import run
from falaj.lifecycle.operations.gates import Gate, GateRun, GateRuns, Requirement
from falaj.registry.operations.promotions import Person

NOW = Moment.parse("2026-11-15T09:00:00Z")
FILE = """
[gates.quality]
kind = "quality"
on = "later"
label = "left"
slices = ["country"]
max_drop = 0.02
least = 1
seconds = "30m"

[gates.tests]
kind = "tests"
lock = "tools.lock"

[require]
champion = ["quality"]
[require.churn]
Production = ["tests"]
"""


def read(text: str, folder: Path = Path()) -> tuple[tuple[Gate, ...], tuple[Requirement, ...]]:
    made = read_gate_file(text, project="shop", folder=folder)
    return made.gates, made.require


def test_a_file_of_gates_is_read_as_it_is_meant(tmp_path: Path) -> None:
    (tmp_path / "tools.lock").write_text("pytest==9.0.0\n")
    (quality, tests), require = read(FILE, tmp_path)
    assert (quality.slices, quality.max_drop, quality.least, quality.seconds) == (("country",), 0.02, 1.0, 1800)
    assert tests.lock == "pytest==9.0.0\n"
    assert require == (
        Requirement(alias="champion", gates=("quality",)),
        Requirement(model="churn", alias="Production", gates=("tests",)),
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("gates = 1", r"Write gates as a table: \[gates\]"),
        ("[gates", "This is no TOML"),
        ("", "No gates are in this file"),
        ("[gate.a]\nkind = 'signature'", "has 'gate', which nobody knows"),
        ("[gates.a]\nkind = 'signature'\nlimit = 1", "has 'limit', which nobody knows"),
        ("[gates.a]\non = 'later'", "has no kind"),
        ("[gates.a]\nkind = 'beauty'", "kind must be 'signature', 'certificate'"),
        ("[gates.a]\nkind = 'quality'\nmax_drop = 'a lot'", "max_drop must be a number"),
        ("[gates.a]\nkind = 'quality'\nmax_drop = 2", "max_drop may be at most 1"),
        ("[gates.A]\nkind = 'signature'", "name takes small letters"),
        ("[gates.a]\nkind = 'tests'\nlock = 'gone.lock'", "'gone.lock' of the gate 'a' cannot be read"),
        ("[gates.a]\nkind = 'signature'\n[require.churn]\nchampion = 'a'", "What champion of 'churn' needs is a list"),
    ],
)
def test_what_is_misspelled_in_it_is_told_by_name_and_place(text: str, why: str) -> None:
    with pytest.raises(Invalid, match=why):
        read(text)


def test_gates_are_named_with_commas_or_one_by_one() -> None:
    assert gates_of(["a, b", "c", "a"]) == ("a", "b", "c")
    assert gates_of(None) == ()


def test_junit_tells_what_failed_and_what_did_not_end() -> None:
    def case(gate: str, state: str, words: str) -> GateRun:
        ended = None if state == "running" else Moment(NOW + 1_500_000)
        return GateRun(
            **{name: new_id(NOW) for name in ("id", "batch", "job", "evidence")},
            model="churn",
            version=3,
            gate=gate,
            kind="command",
            state=state,  # type: ignore[arg-type]
            words=words,
            against_alias="",
            against=0,
            created=NOW,
            created_by=Person(id=new_id(NOW), name="omar"),
            ended=ended,
        )

    runs = (case("good", "passed", "It is so."), case("bad", "failed", 'No: "<&>\x00'), case("slow", "running", ""))
    written = junit(GateRuns(model="churn", version=3, batch="", over=False, passed=False, items=runs))
    suite = ElementTree.fromstring(written).find("testsuite")
    assert suite is not None
    assert [suite.get(name) for name in ("name", "tests", "failures", "errors")] == ["churn v3", "3", "1", "1"]
    cases = {one.get("name"): one for one in suite}
    assert cases["good"].get("time") == "1.500"
    failure = cases["bad"].find("failure")
    assert failure is not None
    assert failure.get("message") == 'No: "<&>?'
    assert cases["slow"].find("error") is not None


@pytest.mark.parametrize("system", ["github", "gitlab"])
def test_files_for_ci_systems_can_be_read_and_run_the_gates(system: str) -> None:
    document = yaml.safe_load(ci_files.written(system, "churn", "shop"))
    job = document["jobs"]["gates"] if system == "github" else document["gates"]
    lines = [one["run"] for one in job["steps"] if "run" in one] if system == "github" else job["script"]
    assert any(line.startswith("falaj ci ") and line.endswith("--junit gates.xml") for line in lines)
    assert (job["env"] if system == "github" else job["variables"])["FALAJ_PROJECT"] == "shop"


def test_what_somebody_types_into_a_ci_system_is_no_part_of_a_command() -> None:
    job = yaml.safe_load(ci_files.written("github", "churn", "shop"))["jobs"]["gates"]
    assert "github.event.inputs.version" in job["env"]["VERSION"]
    assert not [one["run"] for one in job["steps"] if "${{" in one.get("run", "")]


def test_init_writes_a_file_and_replaces_none_unasked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given = ["ci", "init", "churn", "--github", "--project", "shop"]
    assert run(given) == 0
    file = tmp_path / ".github" / "workflows" / "falaj.yml"
    assert "falaj ci" in file.read_text()
    assert run(given) == 1
    assert run([*given, "--force"]) == 0


@pytest.mark.parametrize(
    "given",
    [
        ["ci", "init", "--github"],
        ["ci", "init", "churn"],
        ["ci", "churn:3", "--github"],
        ["ci", "init", "a${{ secrets }}", "--github", "--project", "shop"],
        ["ci", "churn:3", "more", "--project", "shop"],
        ["ci", "churn:three", "--project", "shop"],
    ],
)
def test_what_was_asked_wrongly_ends_with_two(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(given) == 2
    assert capsys.readouterr().err.count("\n") == 1
