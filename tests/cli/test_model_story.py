"""A version's story from the command line: a summary to read, JSON for programs, one file to send on."""

from pathlib import Path

import pytest

from tests.cli.conftest import Running
from tests.cli.test_models import IN, MLMODEL
from tests.cli.test_pipelines import begun, until


@pytest.fixture(scope="module")
def model(platform: Running, tmp_path_factory: pytest.TempPathFactory) -> str:
    made = platform("run", "create", "0", "--name", "trained", *IN).strip()
    folder = tmp_path_factory.mktemp("model") / "model"
    folder.mkdir()
    (folder / "MLmodel").write_text(MLMODEL)
    (folder / "model.pkl").write_bytes(b"not loaded by anybody")
    platform("artifact", "put", made, str(folder), *IN)
    platform("run", "log", made, "--param", "depth=4", "--metric", "auc=0.9", *IN)
    platform("model", "create", "told", *IN)
    platform("model", "register", "told", made, "model", *IN)
    platform("model", "promote", "told", "1", "--reason", "the first", *IN)
    return "told"


def test_it_is_read_in_the_terminal(platform: Running, model: str) -> None:
    told = platform("model", "story", model, "champion", *IN)
    assert told.startswith("Version 1 of told has never answered, trained by owner. It is the champion.\n")
    for said in ("What it is", "How it was made", "auc=0.9", "depth=4", "Who let it into production", "Every event"):
        assert said in told
    assert "champion was pointed to version 1: the first" in told
    assert "v0" not in told


def test_programs_get_all_of_it(platform: Running, model: str) -> None:
    told = platform.json("model", "story", model, "1", *IN)
    assert told["version"]["version"] == 1
    assert [one["stage"] for one in told["events"]] == ["training", "registry", "registry"]


def test_a_file_is_written_and_names_what_is_not_there(platform: Running, model: str, tmp_path: Path) -> None:
    file = tmp_path / "story.html"
    assert "Written to" in platform("model", "story", model, "1", "--out", str(file), *IN)
    text = file.read_text()
    assert text.startswith("<!doctype html>")
    assert "has never answered" in text
    assert "<script" not in text
    assert "has no version 9" in platform.fails("model", "story", model, "9", *IN)
    assert "neither a number nor an alias" in platform.fails("model", "story", model, "nobody", *IN)


def test_pipelines_and_who_answered_them_are_told(platform: Running, model: str, tmp_path: Path) -> None:
    file = tmp_path / "rollout.py"
    file.write_text(
        "import falaj\n\n\n@falaj.pipeline\ndef rollout():\n"
        f"    version = falaj.steps.value({{'model': {model!r}, 'version': 1}})\n"
        "    falaj.steps.approval('Shall it answer?').after(version)\n"
    )
    run = begun(platform, str(file))
    until(platform, run, "approval", "asking")
    platform("pipeline", "approve", run, "approval", *IN)
    told = platform("model", "story", model, "1", *IN)
    assert "What pipelines did with it" in told
    assert "Shall it answer? agreed by owner" in told
    assert "agreed in rollout: Shall it answer?" in told
