"""A new project works as it is: its own tests pass, and its pipeline goes from rows to a champion that answers."""

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from falaj.client.pipelines.continuous import settings_in
from tests.cli.conftest import Falaj, Running

IN = ("--project", "default")


@pytest.mark.parametrize("sort", ["tabular", "image"])
def test_a_project_passes_its_own_tests(falaj: Falaj, tmp_path: Path, sort: str):
    folder = tmp_path / "garden"
    told = falaj("init", str(folder), f"--{sort}")
    assert told.endswith(f"Run it with: falaj pipeline run {folder}/pipeline.py\n")
    assert "{{" not in "".join(one.read_text() for one in folder.rglob("*") if one.is_file())
    settings = settings_in(folder / "continuous.toml")
    assert (settings.model, settings.endpoint, settings.canary.steps) == ("garden", "garden", (10.0, 50.0, 100.0))
    assert re.search(r"^scikit-learn==\d", (folder / "requirements.lock").read_text(), re.MULTILINE)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout
    assert "3 passed" in done.stdout


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
        (whole.replace("least = 0.9", 'least = "much"'), "continuous.toml: better.least"),
        (
            whole.replace("approval = true", "aproval = true"),
            "has 'aproval', which means nothing here; there are model, endpoint",
        ),
        ("model = ", "cannot be read as TOML"),
    ):
        settings.write_text(text)
        said = falaj.fails("pipeline", "graph", str(folder / "pipeline.py"), status=2)
        assert "pipeline.py, line 10: " in said
        assert words in said


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Running]:
    """With a plane that answers, which is not the platform's child and has to be told to end."""
    running = Running(tmp_path / "home", tmp_path / "config", FALAJ_SERVING_ENABLED="true")
    try:
        yield running
    finally:
        running("down")
        running.process.communicate(timeout=60)


def test_its_pipeline_goes_from_rows_to_a_champion_that_answers(serving: Running, tmp_path: Path):
    platform = serving
    folder = tmp_path / "garden"
    platform("init", str(folder), "--tabular")
    run = platform.json("pipeline", "run", str(folder / "pipeline.py"), "--detach", *IN)["id"]
    deadline = time.monotonic() + 180
    while (found := platform.json("pipeline", "show", run, *IN))["state"] == "running":
        asking = [one for one in found["steps"] if one["state"] == "asking"]
        if asking:
            break
        assert time.monotonic() < deadline, found["steps"]
        time.sleep(0.2)
    assert asking[0]["words"].startswith("Shall version 1 of garden answer? Its accuracy 0.9"), found
    platform("pipeline", "approve", run, "approval", *IN)
    platform("pipeline", "show", run, "--follow", *IN)
    done = {one["name"]: one for one in platform.json("pipeline", "show", run, *IN)["steps"]}
    assert done["canary"]["result"] == {"endpoint": "garden", "revision": 1}
    assert platform.json("model", "show", "garden", *IN)["aliases"] == [{"alias": "champion", "version": 1}]
    assert platform.json("monitor", "show", "garden", *IN)["wishes"]["reference"] == "garden-rows@1"
