"""`falaj ci` and `falaj gate` as people and CI systems call them: statuses, messages, and the files they write."""

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import version
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from falaj.app.platform import OPERATIONS
from falaj.base.clock import Moment
from falaj.base.errors import Invalid
from falaj.base.ids import new_id
from falaj.cli import ci_files
from falaj.cli.gate_files import read_gate_file
from falaj.cli.gate_looks import junit
from falaj.cli.gate_runs import gates_of
from falaj.cli.main import run
from falaj.client.pipelines.files import written
from falaj.lifecycle.checking import catalogue_of, check
from falaj.lifecycle.operations.gates import Gate, GateRun, GateRuns, Requirement
from falaj.registry.operations.promotions import Person
from tests.cli.conftest import Running

GATES_DOC = Path(__file__).parents[2] / "docs" / "gates.md"
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
    assert lines[-1] == 'falaj ci "$VERSION" --junit gates.xml'
    assert (job["env"] if system == "github" else job["variables"])["FALAJ_PROJECT"] == "shop"


def test_what_somebody_types_into_a_ci_system_is_no_part_of_a_command() -> None:
    steps = steps_of("churn")
    assert "github.event.inputs.version" in steps["gates"]["env"]["VERSION"]
    assert not [one["run"] for one in steps.values() if "${{" in one.get("run", "")]


def test_the_token_is_for_steps_that_ask_the_platform_and_not_for_what_is_installed() -> None:
    document = yaml.safe_load(ci_files.written("github", "churn", "shop"))
    assert "FALAJ_TOKEN" not in document["jobs"]["gates"]["env"]
    steps = document["jobs"]["gates"]["steps"]
    asks = [one for one in steps if one.get("run", "").startswith("falaj ")]
    assert [one for one in steps if "FALAJ_TOKEN" in one.get("env", {})] == asks
    (install,) = (one for one in steps if "pip install" in one.get("run", ""))
    assert set(install["env"]) == {"FALAJ_PACKAGE"}
    gitlab = yaml.safe_load(ci_files.written("gitlab", "churn", "shop"))["gates"]
    (before,) = gitlab["before_script"]
    assert before.endswith("env -u FALAJ_TOKEN pip install $FALAJ_PACKAGE\n")


def installing(file: str) -> str:
    """What installs Falaj in a file of a CI system, or in the one of a new project."""
    if file == "gitlab":
        return str(yaml.safe_load(ci_files.written("gitlab", "churn", "shop"))["gates"]["before_script"][0])
    text = (
        Path(".github", "workflows", "falaj.yml").read_text() if file == "init" else ci_files.written("github", "churn", "shop")
    )
    (job,) = yaml.safe_load(text)["jobs"].values()
    return str(next(one["run"] for one in job["steps"] if "pip install" in one.get("run", "")))


@pytest.mark.parametrize("file", ["github", "gitlab", "init"])
def test_no_name_is_installed_that_a_stranger_could_take(file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["init", "."]) == 0
    assert "falaj" not in Path("requirements.lock").read_text()
    (tmp_path / "pip").write_text('#!/bin/sh\nprintf "%s\\n" "$@" > installed\n')
    (tmp_path / "pip").chmod(0o755)

    def install(**environment: str) -> "subprocess.CompletedProcess[str]":
        given = {"PATH": f"{tmp_path}:{os.environ['PATH']}", **environment}
        return subprocess.run(["bash", "-e", "-c", installing(file)], env=given, capture_output=True, text=True, check=False)

    for unset in ({}, {"FALAJ_PACKAGE": ""}):
        done = install(**unset)
        assert done.returncode != 0
        assert "FALAJ_PACKAGE: is not set" in done.stderr
        assert not Path("installed").exists()
    assert install(FALAJ_PACKAGE="falaj==1.2.3 --index-url https://pypi.example.com/simple").returncode == 0
    assert Path("installed").read_text().splitlines()[:4] == [
        "install",
        "falaj==1.2.3",
        "--index-url",
        "https://pypi.example.com/simple",
    ]


def test_init_writes_a_file_and_replaces_none_unasked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given = ["ci", "init", "churn", "--github", "--project", "shop"]
    assert run(given) == 0
    file = tmp_path / ".github" / "workflows" / "falaj-gates.yml"
    assert "falaj ci" in file.read_text()
    assert run(given) == 1
    assert run([*given, "--force"]) == 0


def test_a_new_project_s_workflow_names_the_command_that_writes_the_one_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["init", "garden"]) == 0
    monkeypatch.chdir(tmp_path / "garden")
    tests = Path(".github", "workflows", "falaj.yml").read_text()
    (named,) = re.findall(r"`falaj (ci init [^`]+)`", tests)
    assert run([*named.split(), "--project", "shop"]) == 0
    assert "trains nothing" not in capsys.readouterr().out
    assert Path(".github", "workflows", "falaj.yml").read_text() == tests
    assert 'default: "garden"' in Path(".github", "workflows", "falaj-gates.yml").read_text()


def test_new_rows_are_told_as_the_docs_say_in_the_words_that_the_workflow_waits_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = next(one for one in re.findall(r"```python\n(.*?)```", GATES_DOC.read_text(), re.DOTALL) if "tell_ci" in one)
    heard = list[tuple[str | None, dict[str, Any]]]()

    class Host(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            heard.append((self.headers["Authorization"], body))
            self.send_response(204)
            self.end_headers()

    (tmp_path / "tell_ci.py").write_text(code)
    (found,) = written(tmp_path / "tell_ci.py")
    check(found.definition, catalogue_of(OPERATIONS))
    function = found.definition.steps[0].function
    assert function is not None
    assert (function.secrets, function.hosts) == (("GITHUB_TOKEN",), ("api.github.com:443",))
    monkeypatch.setenv("GITHUB_TOKEN", "of-an-account")
    with HTTPServer(("127.0.0.1", 0), Host) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        names: dict[str, Any] = {"__name__": "tell_ci"}
        address = f"http://127.0.0.1:{server.server_port}/"
        exec(code.replace("https://api.github.com/repos/OWNER/REPOSITORY/", address), names)
        names["tell"]()
    ((by, told),) = heard
    (waited,) = yaml.safe_load(ci_files.written("github", "churn", "shop"))[True]["repository_dispatch"]["types"]
    assert (by, told) == ("Bearer of-an-account", {"event_type": waited})


@pytest.fixture
def garden(platform: Running, tmp_path: Path) -> "Callable[..., subprocess.CompletedProcess[str]]":
    """Commands in a project as `falaj init` writes it, with what a CI system is given: an address, and a token of a service."""
    folder, programs = tmp_path / "garden", tmp_path / "programs"
    project = f"beds-{new_id(NOW)[-8:]}"
    platform("init", str(folder))
    gates = (folder / "gates.toml").read_text()
    (folder / "gates.toml").write_text('[gates.signature]\nkind = "signature"\n' + gates)
    platform("project", "create", project, "--zone", "home")
    platform("gate", "apply", str(folder / "gates.toml"), "--project", project)
    platform("service", "create", project, "ci", "--role", "scientist")
    token = platform.json("service", "token", "create", project, "ci")["token"]
    programs.mkdir()
    for name, command in {"python": f'"{sys.executable}"', "falaj": f'"{sys.executable}" -m falaj.cli.main'}.items():
        (programs / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        (programs / name).chmod(0o755)
    kept = {name: text for name, text in platform.environment.items() if not name.startswith("FALAJ_")}
    given = {"FALAJ_URL": platform.url, "FALAJ_TOKEN": token, "FALAJ_PROJECT": project, "VERSION": "garden"}
    whole = kept | given | {"PATH": f"{programs}:{os.environ['PATH']}", "GITHUB_OUTPUT": str(tmp_path / "output")}

    def shell(lines: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        command = ["bash", "-e", "-c", lines]
        return subprocess.run(command, cwd=folder, env=whole | environment, capture_output=True, text=True, check=False)

    return shell


def test_code_that_changed_is_trained_and_the_gates_are_of_what_came_out(garden: Any, tmp_path: Path) -> None:
    steps = steps_of("garden")
    trained = garden(steps["train"]["run"])
    assert trained.returncode == 0, trained.stderr
    assert (tmp_path / "output").read_text() == "version=garden:1\n"
    looked = garden(steps["gates"]["run"], VERSION="garden:1")
    assert looked.returncode == 0, looked.stderr
    for gate in ("signature", "garden-quality", "garden-tests"):
        assert f"{gate}: passed" in looked.stderr
    nobody = garden(steps["gates"]["run"])
    assert "has no alias 'champion': name a version, or promote one first" in nobody.stderr


def test_what_was_trained_is_judged_by_the_packages_that_it_was_trained_with(
    garden: Any, platform: Running, tmp_path: Path
) -> None:
    assert garden(steps_of("garden")["train"]["run"]).returncode == 0
    project = garden("echo $FALAJ_PROJECT").stdout.strip()
    limits = '[gates.free]\nkind = "licences"\nlicences = ["none of them"]\n[gates.safe]\nkind = "vulnerabilities"\n'
    (tmp_path / "packages.toml").write_text(limits)
    spans = [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}]}]
    affected = [{"package": {"ecosystem": "PyPI", "name": "scikit-learn"}, "ranges": spans}]
    (tmp_path / "advisories.json").write_text(json.dumps([{"id": "CVE-2026-1", "affected": affected}]))
    platform("gate", "apply", str(tmp_path / "packages.toml"), "--project", project)
    platform("gate", "advisories", str(tmp_path / "advisories.json"), "--project", project)
    said = garden("falaj ci garden:1").stderr
    assert "names no package" not in said
    assert f"scikit-learn {version('scikit-learn')} (CVE-2026-1)" in said
    assert "free: failed. It is not shown of every package that it has a licence that is allowed: " in said


@pytest.mark.heavy
def test_gitlab_s_commands_train_on_a_push_and_look_at_the_champion_for_a_merge_request(
    garden: Any, platform: Running, tmp_path: Path
) -> None:
    script = "\n".join(yaml.safe_load(ci_files.written("gitlab", "garden", "beds"))["gates"]["script"])
    pushed = garden(script, CI_PIPELINE_SOURCE="push")
    assert pushed.returncode == 0, pushed.stderr
    suite = ElementTree.parse(tmp_path / "garden" / "gates.xml").getroot().find("testsuite")
    assert suite is not None
    assert suite.get("name") == "garden v1"
    asked = garden(script, CI_PIPELINE_SOURCE="merge_request_event")
    assert (asked.returncode, "has no alias 'champion'" in asked.stderr) == (1, True)
    # What came out is brought out from there, by whoever may do that.
    of = json.loads((tmp_path / "garden" / "run.json").read_text())["id"]
    on = f"falaj pipeline run pipeline.py --from optimise --of {of}"
    assert "rule no-permit" in garden(on).stderr
    project = garden("echo $FALAJ_PROJECT").stdout.strip()
    going = ("pipeline", "run", str(tmp_path / "garden" / "pipeline.py"), *on.split()[4:], "--detach", "--project", project)
    run = platform.json(*going)["id"]
    question, deadline = "", time.monotonic() + 400
    while not question:
        assert time.monotonic() < deadline
        steps = json.loads(garden(f"falaj pipeline show {run} --json").stdout)["steps"]
        question = next((one["words"] for one in steps if one["state"] == "asking"), "")
    assert question.startswith("Shall version 1 of garden answer?")


def steps_of(model: str) -> dict[str, Any]:
    """Of GitHub's file, those with a name."""
    steps = yaml.safe_load(ci_files.written("github", model, "shop"))["jobs"]["gates"]["steps"]
    return {one["id"]: one for one in steps if "id" in one}


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
