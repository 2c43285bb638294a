"""`falaj train --apply-profile` on a real platform: a training tells what it lacks, and the next one asks for it."""

import json
import re
from pathlib import Path

import pytest

from falaj.client.http import Client
from falaj.client.trainings import train
from tests.cli.conftest import Running
from tests.servers.processes import NO_TLS

IN = ("--project", "default")
OPTIONS = ("--memory", "128MiB", "--retries", "0", *IN)
# What a session's profile says of itself, without its torch.
TELLS = """
import json, os
from falaj.training.profiling.asking import Ask, asks_told
from falaj.training.profiling.names import FIGURES, VERDICT
from falaj.training.telling import run_from_environment

slow = "input-bound: 2 of 3 steps wait"
asks = [Ask(option="cpus", number=1, why=slow, had=1, workers=4), Ask(option="gpus", number=1, why="a GPU would be faster")]
run = run_from_environment()
run.figures({f"{FIGURES}rows_per_second": 100.0})
run.words({VERDICT: slow, **asks_told(asks)})
run.close()
print("wanted", json.loads(os.environ.get("FALAJ_APPLY_PROFILE", "{}")).get("wanted"))
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("telling") / "telling.py"
    place.write_text(TELLS)
    return place


@pytest.fixture(scope="module")
def first(platform: Running, script: Path) -> str:
    """The run of a training that had a tenth of a CPU."""
    arguments = ("train", str(script), "--cpus", "0.1", "--experiment", "told", *OPTIONS)
    assert platform(*arguments).splitlines()[-1] == "wanted None"
    (run,) = platform.json("run", "list", "told", *IN)["items"]
    return str(run["info"]["id"])


def test_what_the_last_profile_asks_for_is_asked_for_and_said(platform: Running, script: Path, first: str):
    written, said = platform.both("train", str(script), "--apply-profile", "--experiment", "told", *OPTIONS)
    sentences = said.splitlines()
    assert sentences[:2] == [
        f"By the profile of run {first}, which had 0.1 CPUs.",
        "Begins with its 0.1 CPUs instead of 1 CPU.",
    ]
    assert sentences[2].startswith("1 GPU instead of 0 cannot be had: ")
    assert sentences[3] == "Asks for 1 CPU instead of 0.1: input-bound: 2 of 3 steps wait."
    assert sentences[4] == "Starts with 4 loader workers, as its profile asks for."
    assert written.splitlines()[-1] == "wanted {'loader_workers': 4}"
    (job, *_) = platform.json("job", "list", *IN)["items"]
    assert (job["spec"]["resources"]["cpus"], job["spec"]["resources"]["gpus"]) == (1.0, 0.0)


def test_what_is_given_stands(platform: Running, script: Path, first: str):
    given = ("--cpus", "0.2", "--gpus", "0", "--experiment", "told", "--dry-run")
    _, said = platform.both("train", str(script), "--apply-profile", *given, *OPTIONS)
    assert "It asks for 1 GPU, but --gpus was given: a GPU would be faster." in said
    assert "Asks for" not in said


def test_where_nothing_is_found_that_is_said(platform: Running, script: Path, first: str):
    other = script.with_name("other.py")
    other.write_text("print(1)")
    for path, where, options in (
        (other, " in experiment 'told'", ("--experiment", "told")),
        (script, " in experiment 'new'", ("--experiment", "new")),
        (script, ", as no experiment is named", ()),
    ):
        _, said = platform.both("train", str(path), "--apply-profile", "--dry-run", *options, *OPTIONS)
        assert said.startswith(f"No earlier profile of {path.name} was found{where}. Restarts of this job follow its own.\n")


def test_a_run_that_was_too_short_to_be_judged_is_named(platform: Running, script: Path):
    short = script.with_name("short.py")
    short.write_text(
        "from falaj.training.telling import run_from_environment\n"
        "run = run_from_environment()\n"
        "run.words({'falaj.training.next': 'Too few steps to judge: 3 were taken.'})\n"
        "run.close()\n"
    )
    platform("train", str(short), "--experiment", "short", *OPTIONS)
    (run,) = platform.json("run", "list", "short", *IN)["items"]
    _, said = platform.both("train", str(short), "--apply-profile", "--dry-run", "--experiment", "short", *OPTIONS)
    assert f"No earlier profile of short.py was found in experiment 'short': run {run['info']['id']} took too few steps" in said


def test_a_run_that_only_says_to_be_of_a_job_is_not_believed(platform: Running, script: Path, first: str):
    (run,) = (one for one in platform.json("run", "list", "told", *IN)["items"] if one["info"]["id"] == first)
    job = next(tag["value"] for tag in run["tags"] if tag["key"] == "falaj.job")
    tags = {"falaj.job": job, "falaj.training.verdict": "mine", "falaj.training.ask.cpus": "1024"}
    said_to_be = (word for key, text in tags.items() for word in ("--tag", f"{key}={text}"))
    made = platform.json("run", "create", "told", *said_to_be, *IN)["info"]["id"]
    platform("run", "finish", made, *IN)
    _, said = platform.both("train", str(script), "--apply-profile", "--dry-run", "--experiment", "told", *OPTIONS)
    assert said.startswith("By the profile of run ")
    assert made not in said


def told_by_a_function():
    import os

    from falaj.training.profiling.asking import Ask, asks_told
    from falaj.training.profiling.names import VERDICT
    from falaj.training.telling import run_from_environment

    run = run_from_environment()
    run.words({VERDICT: "slow", **asks_told([Ask(option="cpus", number=1024, why="slow")])})
    run.close()
    print("applies", "FALAJ_APPLY_PROFILE" in os.environ)


def test_a_function_follows_its_profile_as_well(platform: Running):
    token = json.loads((platform.home / "credentials.json").read_text())["token"]
    options = {"memory_mib": 128, "project": "default", "experiment": "functions", "retries": 0}
    with Client(platform.url, token, verify=NO_TLS) as client:
        before = train(told_by_a_function, cpus=0.1, client=client, **options)
        assert platform("job", "logs", before.job.id, "--follow", *IN).splitlines()[-1] == "applies False"
        made = train(told_by_a_function, apply_profile=True, client=client, **options)
    had = made.job.spec.resources.cpus
    assert 1 <= had < 1024
    words = rf"Asks for {had:g} CPUs? instead of 0\.1, all that can be had; 1024 would do: slow\."
    assert any(re.fullmatch(words, remark) for remark in made.plan.remarks), made.plan.remarks
    assert platform("job", "logs", made.job.id, "--follow", *IN).splitlines()[-1] == "applies True"
