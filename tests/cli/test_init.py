"""A new project works as it is: its own tests pass, and its pipeline goes from rows to a champion that answers."""

import importlib.metadata
import json
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from falaj.cli.commands.init import init
from falaj.cli.gate_files import read_gate_file
from falaj.cli.terminal import Terminal
from falaj.client.http import Client
from falaj.client.pipelines.continuous import settings_in
from falaj.registry.operations.versions import UNTAG_VERSION, UntagVersion
from falaj.registry.operations.words import BROUGHT_OUT
from tests.cli.conftest import Falaj, Running

IN = ("--project", "default")
LONGEST = 240.0
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("sort", ["tabular", "image"])
def test_a_project_passes_its_own_tests(falaj: Falaj, tmp_path: Path, sort: str):
    folder = tmp_path / "garden"
    told = falaj("init", str(folder), f"--{sort}")
    assert told.endswith(f"Run it with: falaj pipeline run {folder}/pipeline.py\n")
    whole = "".join(one.read_text() for one in folder.rglob("*") if one.is_file())
    assert not re.search(r"(?<!\$)\{\{", whole)  # but for GitHub's own
    settings = settings_in(folder / "continuous.toml")
    assert (settings.model, settings.endpoint, settings.canary.steps) == ("garden", "garden", (10.0, 50.0, 100.0))
    assert settings.small is not None
    assert settings.small.max_drop == 0.02  # less is more than its few hundred held-out rows can show
    assert [
        one.name for one in read_gate_file((folder / "gates.toml").read_text(), project="default", folder=folder).gates
    ] == list(settings.gates)
    assert re.search(r"^scikit-learn==\d", (folder / "requirements.lock").read_text(), re.MULTILINE)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout


def test_the_extras_that_it_names_bring_what_it_runs_with(falaj: Falaj, tmp_path: Path):
    """Read from the file, for here everything is installed."""
    falaj("init", str(tmp_path / "garden"))
    assert "falaj[convert,tune]" in (tmp_path / "garden" / "README.md").read_text()
    named = {one.partition("==")[0] for one in (tmp_path / "garden" / "requirements.lock").read_text().split()}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]

    def brought(*names: str) -> set[str]:
        found = [Requirement(one) for name in names for one in extras[name]]
        return {one.name for one in found} | {it for one in found if one.name == "falaj" for it in brought(*one.extras)}

    core = {Requirement(one).name for one in project["dependencies"]}
    assert named - core <= brought("convert", "tune")
    assert named - core <= brought("demo")
    assert named - core <= brought("all")


def test_what_is_not_installed_is_told_and_in_its_lock_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    known = importlib.metadata.version

    def version(package: str) -> str:
        if package in {"pytest", "optuna"}:
            raise importlib.metadata.PackageNotFoundError(package)
        return known(package)

    monkeypatch.setattr(importlib.metadata, "version", version)
    init(Terminal(home=None, as_json=False), tmp_path / "garden")
    assert "is not installed here (optuna, pytest): pip install 'falaj[convert,tune]'" in capsys.readouterr().err
    lock = (tmp_path / "garden" / "requirements.lock").read_text().split()
    assert {"pytest", "optuna", f"pandas=={known('pandas')}"} <= set(lock)


def test_nothing_that_is_there_is_written_over(falaj: Falaj, tmp_path: Path):
    (tmp_path / "garden").mkdir()
    (tmp_path / "garden" / "steps.py").write_text("mine = 1\n")
    said = falaj.fails("init", str(tmp_path / "garden"))
    assert "has steps.py already; name a folder that is new, or empty" in said
    assert [one.name for one in (tmp_path / "garden").iterdir()] == ["steps.py"]
    assert "has to begin with a letter" in falaj.fails("init", str(tmp_path / "12"), status=2)
    assert "and not both" in falaj.fails("init", str(tmp_path / "a"), "--tabular", "--image", status=2)


def test_what_is_wrong_in_its_settings_is_told(falaj: Falaj, tmp_path: Path):
    folder = tmp_path / "garden"
    falaj("init", str(folder))
    settings = folder / "continuous.toml"
    whole = settings.read_text()
    for text, words in (
        (whole.replace("least = 0.85", 'least = "much"'), "continuous.toml: better.least"),
        (
            whole.replace("approval = true", "aproval = true"),
            "has 'aproval', which means nothing here; there are model, endpoint",
        ),
        (whole.replace('cron = "0 6 * * *"', 'cron = "x"'), "again: 'x' is no schedule"),
        (whole.replace('zone = "UTC"', 'zone = "Mars"'), "again: There is no time zone 'Mars'"),
        ("model = ", "cannot be read as TOML"),
    ):
        settings.write_text(text)
        said = falaj.fails("pipeline", "graph", str(folder / "pipeline.py"), status=2)
        assert "pipeline.py, line 10: " in said
        assert words in said


QUICK = {'every = "30s"': 'every = "1s"'}
BRINGING = ("mark", "clear", "approval", "canary", "promote")
AS_TRAINED = QUICK | {"[small]": "# [small]", "max_drop": "# max_drop", "seconds = 120": "# seconds = 120"}


class Project:
    """One that was just made, on a platform with a plane that answers; its settings changed here and there."""

    def __init__(self, platform: Running, folder: Path, sort: str, changes: Mapping[str, str]) -> None:
        self.platform, self.folder = platform, folder
        platform("init", str(folder), f"--{sort}")
        self.change("continuous.toml", changes)

    def change(self, name: str, changes: Mapping[str, str]) -> None:
        text = (self.folder / name).read_text()
        for one, other in changes.items():
            assert one in text, one
            text = text.replace(one, other)
        (self.folder / name).write_text(text)

    def run(self) -> str:
        told = self.platform.json("pipeline", "run", str(self.folder / "pipeline.py"), "--detach", *IN)
        return str(told["id"])

    def show(self, run: str) -> dict[str, Any]:
        shown: dict[str, Any] = self.platform.json("pipeline", "show", run, *IN)
        return shown

    def until(self, run: str, step: str, *states: str) -> dict[str, Any]:
        """The step, once it is in one of these states."""
        deadline = time.monotonic() + LONGEST
        while True:
            shown = self.show(run)
            one = next(one for one in shown["steps"] if one["name"] == step)
            if one["state"] in states:
                return dict(one)
            assert shown["state"] == "running", [(it["name"], it["state"], it["words"]) for it in shown["steps"]]
            assert time.monotonic() < deadline, shown
            time.sleep(0.3)

    def over(self, run: str) -> dict[str, dict[str, Any]]:
        """Its steps, once it is done."""
        self.platform("pipeline", "show", run, "--follow", *IN)
        shown = self.show(run)
        assert shown["state"] == "done", shown
        return {one["name"]: one for one in shown["steps"]}

    def agreed(self, run: str) -> dict[str, dict[str, Any]]:
        """The same, once somebody said yes."""
        assert self.until(run, "approval", "asking")["words"].startswith("Shall version ")
        self.platform("pipeline", "approve", run, "approval", *IN)
        return self.over(run)

    def champions(self) -> list[int]:
        """One after the other."""
        moves = self.platform.json("model", "history", "garden", *IN)["items"]
        return [one["version"] for one in reversed(moves)]


Opener = Callable[..., Project]


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Opener]:
    """The plane is not the platform's child, and has to be told to end."""
    opened: list[Running] = []

    def open_one(sort: str, changes: Mapping[str, str], **environment: str) -> Project:
        opened.append(Running(tmp_path / "home", tmp_path / "config", FALAJ_SERVING_ENABLED="true", **environment))
        return Project(opened[-1], tmp_path / "garden", sort, changes)

    yield open_one
    for running in opened:
        running("down")
        running.process.communicate(timeout=60)


@pytest.mark.parametrize("sort", ["tabular", "image"])
def test_its_pipeline_goes_from_rows_to_a_champion_that_answers(project: Opener, sort: str):
    garden = project(sort, AS_TRAINED)
    run = garden.run()
    asked = garden.until(run, "approval", "asking")
    assert re.match(r"Shall version 1 of garden answer\? Its accuracy 0\.[89]", asked["words"]), asked
    done = garden.agreed(run)
    assert done["canary"]["result"] == {"endpoint": "garden", "revision": 1}
    assert garden.champions() == [1]
    # Its gates are those of its file: quality on rows that were held out, and its own tests, which are sent along.
    required = garden.platform.json("gate", "list", *IN)["require"]
    assert required == [{"model": "garden", "alias": "champion", "gates": ["garden-quality", "garden-tests"]}]
    shown = garden.platform.json("gate", "results", "garden", *IN)["items"]
    assert {one["gate"]: one["state"] for one in shown} == {"garden-quality": "passed", "garden-tests": "passed"}
    assert garden.platform.json("monitor", "show", "garden", *IN)["wishes"]["reference"] == "garden-rows@1"
    # From the first run on it starts by itself.
    triggers = garden.platform.json("pipeline", "trigger", "list", "garden", *IN)["items"]
    assert {one["name"]: (one["wish"]["kind"], bool(one["next"])) for one in triggers} == {
        "schedule": ("schedule", True),
        "drifted": ("drift", False),
    }


SMALL = """
[gates.small]
kind = "certificate"
max_drop = 0.02
"""


@pytest.mark.heavy
@pytest.mark.timeout(900)
@pytest.mark.parametrize("sort", ["tabular", "image"])
def test_it_answers_as_the_smaller_form_that_its_gates_see_certified(project: Opener, sort: str):
    """As it is made, but for the gate and the pace of its canary."""
    garden = project(sort, QUICK | {"gates = [": 'gates = ["small", '})
    garden.change("gates.toml", {"[require.garden]": SMALL + "[require.garden]"})
    done = garden.agreed(garden.run())
    (answering,) = garden.platform.json("endpoint", "show", "garden", *IN)["revisions"]
    assert (answering["version"], answering["variant"]) == (1, done["optimise"]["result"]["variant"])
    assert answering["variant"]
    assert answering["certificate"]


def test_a_better_version_grows_beside_the_champion_and_the_same_rows_are_no_new_one(project: Opener):
    garden = project("tabular", AS_TRAINED)
    garden.agreed(garden.run())
    garden.change("steps.py", {"random_state=1": "random_state=2"})
    done = garden.agreed(garden.run())
    judged = done["evaluate"]["result"]
    assert judged["gain"]["accuracy"] == pytest.approx(judged["figures"]["accuracy"] - judged["champion"]["accuracy"])
    changes = garden.platform.json("endpoint", "history", "garden", *IN)["items"]
    shares = [{arm["revision"]: arm["share"] for arm in one["arms"]} for one in reversed(changes)]
    assert shares == [{1: 10_000}, {1: 9_000, 2: 1_000}, {1: 5_000, 2: 5_000}, {2: 10_000}]
    assert garden.champions() == [1, 2]
    # On the next morning there are no other rows: nothing is trained, and nobody is asked.
    done = garden.over(garden.run())
    assert [done[name]["result"] for name in ("garden-rows", "train")] == [
        {"dataset": "garden-rows", "version": 1},
        {"model": "garden", "version": 2},
    ]
    assert (done["train"]["job"], done["evaluate"]["result"]["is_new"]) == ("", False)
    assert {done[name]["state"] for name in BRINGING} == {"skipped"}


def test_what_went_back_is_not_brought_out_again_until_somebody_says_so(project: Opener):
    garden = project("tabular", AS_TRAINED)
    garden.agreed(garden.run())
    garden.change("steps.py", {"random_state=1": "random_state=2"})
    garden.change("continuous.toml", {'every = "1s"': 'every = "1h"'})
    run = garden.run()
    garden.until(run, "approval", "asking")
    garden.platform("pipeline", "approve", run, "approval", *IN)
    deadline = time.monotonic() + LONGEST
    while len(garden.platform.json("endpoint", "show", "garden", *IN)["arms"]) == 1:
        assert time.monotonic() < deadline, garden.show(run)
        time.sleep(0.3)
    garden.platform("endpoint", "rollback", "garden", "--yes", *IN)
    garden.platform.both("pipeline", "show", run, "--follow", *IN, status=1)
    assert garden.show(run)["state"] == "failed"
    done = garden.over(garden.run())
    assert (done["train"]["result"]["version"], done["evaluate"]["result"]["is_new"]) == (2, False)
    assert {done[name]["state"] for name in BRINGING} == {"skipped"}
    known = json.loads((garden.platform.home / "credentials.json").read_text())
    with Client(known["url"], known["token"]) as client:
        client.call(UNTAG_VERSION, UntagVersion(project="default", model="garden", version=2, key=BROUGHT_OUT))
    assert garden.until(garden.run(), "approval", "asking")["words"].startswith("Shall version 2 ")


def test_what_it_does_not_wish_for_any_more_starts_it_no_more(platform: Running, tmp_path: Path):
    garden = Project(platform, tmp_path / "grove", "tabular", {'# datasets = ["sales"]': 'datasets = ["beds"]'})
    apply = ("pipeline", "apply", str(garden.folder / "pipeline.py"), *IN)
    platform(*apply)
    platform("pipeline", "trigger", "set", "grove", "mine", "--on", "alias", "--about", "grove@champion", *IN)
    assert left(platform) == {"schedule", "drifted", "new-beds", "mine"}
    garden.change("continuous.toml", {"drift = true": "drift = false", 'datasets = ["beds"]': ""})
    _, told = platform.both(*apply)
    assert "drifted starts grove no more: an alert of grove." in told
    assert "new-beds starts grove no more: " in told
    assert left(platform) == {"schedule", "mine"}
    whole = (garden.folder / "continuous.toml").read_text()
    (garden.folder / "continuous.toml").write_text(whole[: whole.index("[again]")])
    assert "schedule starts grove no more: " in platform.both(*apply)[1]
    assert left(platform) == {"mine"}
    assert "starts grove" not in platform.both(*apply)[1]


def left(platform: Running) -> set[str]:
    return {one["name"] for one in platform.json("pipeline", "trigger", "list", "grove", *IN)["items"]}


def test_new_rows_start_it_by_its_trigger(project: Opener, tmp_path: Path):
    garden = project("tabular", AS_TRAINED)
    platform = garden.platform
    for name in ("first", "second"):
        (tmp_path / f"{name}.csv").write_text(f"bed,moisture\n{name},0.5\n")
    platform("dataset", "import", "beds", str(tmp_path / "first.csv"), *IN)
    garden.change("continuous.toml", {'# datasets = ["sales"]': 'datasets = ["beds"]'})
    _, told = platform.both("pipeline", "apply", str(garden.folder / "pipeline.py"), *IN)
    assert "The project has the gates garden-quality, garden-tests now, of gates.toml." in told
    assert "new-beds starts garden from now on: " in told
    assert "from now on" not in platform.both("pipeline", "apply", str(garden.folder / "pipeline.py"), *IN)[1]
    platform("dataset", "import", "beds", str(tmp_path / "second.csv"), *IN)
    deadline = time.monotonic() + LONGEST
    while not (runs := platform.json("pipeline", "runs", "garden", *IN)["items"]):
        assert time.monotonic() < deadline
        time.sleep(0.3)
    (started,) = runs
    assert started["trigger"] == "new-beds"
    garden.agreed(started["id"])
    assert garden.champions() == [1]


@pytest.mark.parametrize(
    ("profile", "changes"),
    [
        ("team", AS_TRAINED),
        pytest.param(
            "regulated", QUICK | {"max_drop = 0.02": "max_drop = 0.01"}, marks=[pytest.mark.heavy, pytest.mark.timeout(900)]
        ),
    ],
)
def test_where_others_have_to_approve_it_comes_to_its_end_all_the_same(
    project: Opener, profile: str, changes: Mapping[str, str], tmp_path: Path
):
    """The approval of the promotion is the one question: it is asked before the canary, and moves the alias after it."""
    garden = project("tabular", changes, FALAJ_PLATFORM_PROFILE=profile)
    platform = garden.platform
    zone = ("--zone", "home") if profile == "regulated" else ()
    invited = platform.json("user", "create", "maryam", *zone)
    second = {"FALAJ_HOME": str(tmp_path / "second"), "XDG_CONFIG_HOME": str(tmp_path / "second"), "FALAJ_URL": platform.url}
    platform("login", "--code", invited["code"], **second)
    platform("project", "member", "add", "default", "maryam", "validator")
    run = garden.run()
    garden.until(run, "approved", "running")
    (waiting,) = platform.json("model", "approvals", *IN)["items"]
    assert (waiting["alias"], waiting["version"], waiting["reason"][:11]) == ("champion", 1, "accuracy 0.")
    assert garden.until(run, "canary", "waiting")["state"] == "waiting"
    platform.fails("model", "approve", waiting["id"], *IN)  # whoever started it does not
    platform("model", "approve", waiting["id"], *IN, **second)
    done = garden.over(run)
    assert done["approval"]["state"] == "skipped"  # nobody is asked twice
    assert done["canary"]["result"] == {"endpoint": "garden", "revision": 1}
    (moved,) = platform.json("model", "history", "garden", *IN)["items"]
    assert (moved["version"], [one["name"] for one in moved["approvers"]]) == (1, ["maryam"])


def test_who_may_not_define_gates_is_told_what_an_operator_says(tmp_path: Path):
    platform = Running(tmp_path / "home", tmp_path / "config", FALAJ_PLATFORM_PROFILE="team")
    try:
        invited = platform.json("user", "create", "salem")
        second = {name: str(tmp_path / "second") for name in ("FALAJ_HOME", "XDG_CONFIG_HOME")} | {"FALAJ_URL": platform.url}
        platform("login", "--code", invited["code"], **second)
        platform("project", "member", "add", "default", "salem", "scientist")
        platform("init", str(tmp_path / "garden"))
        apply = ("pipeline", "apply", str(tmp_path / "garden" / "pipeline.py"), *IN)
        _, said = platform.both(*apply, status=1, **second)
        assert "default has no gates garden-quality, garden-tests yet, and defining them is for operators" in said
        assert "Have one say `falaj pipeline apply` with this file, once." in said
        platform(*apply)
        assert "garden is version 1, " in platform(*apply, **second)
        (tmp_path / "garden" / "gates.toml").unlink()  # what is there is asked for no more
        platform(*apply, **second)
    finally:
        platform.stop()
