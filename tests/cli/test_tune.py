"""Studies over the real queue: pruned, killed at the worst moments, led by two at once, and gone on with."""

import json
import re
import signal
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import falaj.client.tuning
from falaj.client.tuning.jobs import fingerprint
from falaj.client.tuning.records import read_kept
from falaj.jobs.operations.words import STUDY
from falaj.operations.messages import adapter
from falaj.tracking.operations.experiments import Experiment
from falaj.tracking.operations.words import Tag
from tests.cli.conftest import Running
from tests.jobs.mortal import failpoints_in

SMALL = ("--cpus", "0.05", "--memory", "64MiB", "--retries", "0", "--grace", "1")
SCRIPT = """
import json, os, sys, time, urllib.request
import falaj.training.telling  # which travels along

def ask(method, path, body=None):
    headers = {"Authorization": "Bearer " + os.environ["MLFLOW_TRACKING_TOKEN"], "Content-Type": "application/json"}
    url = os.environ["MLFLOW_TRACKING_URI"] + "/api/2.0/" + path
    return urllib.request.urlopen(urllib.request.Request(url, data=body, headers=headers, method=method)).read()

def log(step, **metrics):
    told = [{"key": key, "value": value, "timestamp": int(time.time() * 1000), "step": step} for key, value in metrics.items()]
    ask("POST", "mlflow/runs/log-batch", json.dumps({"run_id": run, "metrics": told}).encode())

run, given = os.environ["MLFLOW_RUN_ID"], dict(zip(sys.argv[1::2], sys.argv[2::2]))
level = int(given["--level"])
assert json.loads(os.environ["FALAJ_PARAMS"])["level"] == level
bad = level >= 50
for step in range(300 if bad else 3):
    log(step, loss=level + 1 / (step + 1), size=-level)
    time.sleep(0.2 if bad else 0.02)
if level == 0:
    found = json.loads(ask("GET", "mlflow/runs/get?run_id=" + run))["run"]["info"]
    place = found["artifact_uri"].partition(":/")[2].lstrip("/")
    ask("PUT", f"mlflow-artifacts/artifacts/{place}/net/MLmodel", b"flavors: {}")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("script")
    (place / "train.py").write_text(SCRIPT)
    return place


@pytest.fixture(scope="module")
def shell(platform: Running) -> Running:
    platform.environment["FALAJ_PROJECT"] = "default"
    return platform


def begun(folder: Path, name: str, *more: str, space: str = "level=0,1,2,3,90,91,92,93") -> tuple[str, ...]:
    named = ("--name", name, "--set", space, "--metric", "loss:min", "--source", str(folder), *SMALL, *more)
    return ("tune", "run", *named, "--", "train.py")


def shown(shell: Running, name: str) -> dict[str, Any]:
    return dict(shell.json("tune", "show", name))


def jobs_of(shell: Running, study: dict[str, Any]) -> Counter[str]:
    """How many jobs each trial's run has."""
    runs = {trial["run"] for trial in study["trials"]}
    listed = shell.json("job", "list", "--limit", "1000")["items"]
    return Counter(job["run"] for job in listed if job["run"] in runs)


def test_the_points_where_a_conductor_may_die_are_those_that_are_tried():
    assert failpoints_in(falaj.client.tuning) == {"tune.claimed", "tune.submitted", "tune.pruned"}


def test_a_study_killed_wherever_it_hurts_loses_no_trial_and_doubles_none(shell: Running, folder: Path):
    """Of eight points the first four are good and the others are given up, led in the end by two conductors at once."""
    run = begun(folder, "mortal", "--sampler", "grid", "--pruner", "median", "--parallel", "4")
    for point in ("tune.claimed@2", "tune.submitted@2", "tune.pruned"):
        died = shell.raw(*run, FALAJ_FAILPOINT=point)
        assert died.returncode == -signal.SIGKILL, died.stderr.decode()
    both = [shell.start("tune", "resume", "mortal", "--json") for _ in range(2)]
    told = [process.communicate(timeout=120) for process in both]
    assert [process.returncode for process in both] == [0, 0], told
    study = shown(shell, "mortal")
    assert [trial["number"] for trial in study["trials"]] == list(range(8))
    assert [trial["params"]["level"] for trial in study["trials"]] == [0, 1, 2, 3, 90, 91, 92, 93]
    assert [trial["state"] for trial in study["trials"]] == ["complete"] * 4 + ["pruned"] * 4
    assert study["trials"][2]["values"] == [2 + 1 / 3]
    assert [trial["number"] for trial in study["trials"] if trial["best"]] == [0]
    assert set(jobs_of(shell, study).values()) == {1}
    assert len(jobs_of(shell, study)) == 8
    given_up = shell.json("job", "show", study["trials"][7]["job"])
    _until(lambda: shell.json("job", "show", given_up["id"])["state"] == "cancelled")
    assert "All 8 points of the grid were begun." in told[0][1]


def test_a_study_learns_from_an_earlier_one_ends_at_its_target_and_the_best_becomes_a_version(shell: Running, folder: Path):
    run = begun(folder, "second", "--from", "mortal", "--parallel", "2", "--target", "3.5", space="level=1,2,3,99")
    _, said = shell.both(*run)
    assert "Learned from 3 trials of mortal that lie in this space." in said
    assert "has reached the target 3.5." in said
    assert {trial["state"] for trial in shown(shell, "second")["trials"]} <= {"complete", "cancelled"}
    assert "Trial 0 is version 1 of nets." in shell("tune", "best", "mortal", "--register", "nets")
    made = shell.json("model", "show", "nets", "1")
    assert (made["folder"], made["run"]) == ("net", shown(shell, "mortal")["trials"][0]["run"])
    assert "logged no model" in shell.fails("tune", "best", "second", "--register", "nets", status=2)


@pytest.mark.heavy
def test_a_job_can_lead_a_study(shell: Running, folder: Path):
    run = begun(folder, "remote", "--sampler", "grid", "--parallel", "2", "--no-follow", space="level=0,1,2")
    assert "remote conductor" in shell(*run)
    _until(lambda: [trial["state"] for trial in shown(shell, "remote")["trials"]] == ["complete"] * 3, 120)
    assert shown(shell, "remote")["trials"][0]["best"]


def test_interrupting_leaves_the_trials_running_and_stop_ends_them(shell: Running, folder: Path):
    """What runs without anybody looking on can be told to stop; both metrics' front stands."""
    more = ("--metric", "size:min", "--parallel", "3", "--sampler", "grid")
    process = shell.start(*begun(folder, "left", *more, space="level=1,2,99"))
    assert process.stderr is not None
    lines = iter(process.stderr.readline, "")
    ended = (line for line in lines if line.startswith(("Trial 0:", "Trial 1:")))
    assert len([next(ended), next(ended)]) == 2
    process.send_signal(signal.SIGINT)
    rest = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert "The trials that run go on. Go on with: falaj tune resume left" in rest
    assert shell.json("job", "show", shown(shell, "left")["trials"][2]["job"])["state"] in ("waiting", "starting", "running")
    tags = {tag["key"]: tag["value"] for tag in shell.json("experiment", "show", "left")["tags"]}
    shell("experiment", "tag", "left", "falaj.tune.0={}")  # whoever breaks a study keeps nobody from stopping it
    assert "left is stopped with 3 trials" in shell("tune", "stop", "left", "--yes")
    shell("experiment", "tag", "left", f"falaj.tune.0={tags['falaj.tune.0']}")
    study = shown(shell, "left")
    assert [trial["state"] for trial in study["trials"]] == ["complete", "complete", "cancelled"]
    assert [trial["best"] for trial in study["trials"]] == [True, True, False]
    assert "1 *" in shell("tune", "best", "left")
    assert "left" in shell("tune", "list")


def test_what_another_wrote_into_a_study_is_run_in_nobodys_name_unasked(shell: Running):
    """Whoever may tag experiments, every training's token among them, could else borrow the permissions of who goes on."""
    tags = {tag["key"]: tag["value"] for tag in shell.json("experiment", "show", "mortal")["tags"]}
    document = json.loads(tags["falaj.tune.0"])
    document["job"] |= {"command": ["python", "-c", "evil"], "hosts": ["evil.example:443"]}
    shell("experiment", "tag", "mortal", f"falaj.tune.0={json.dumps(document)}")
    said = shell.fails("tune", "resume", "mortal", "--trials", "50", status=2)
    assert "run `python -c evil`" in said
    assert "the hosts evil.example:443" in said
    _has_a_job_repeated_that_names_the_study(shell, "mortal", document)
    shell("experiment", "tag", "mortal", f"falaj.tune.0={json.dumps(document)}")
    assert "run `python -c evil`" in shell.fails("tune", "resume", "mortal", "--trials", "50", status=2)
    shell("experiment", "tag", "mortal", "falaj.tune.0={}")
    assert "were changed" in shell.fails("tune", "show", "mortal", status=2)
    assert "left" in shell("tune", "list")
    shell("experiment", "tag", "mortal", f"falaj.tune.0={tags['falaj.tune.0']}")
    assert "mortal" in shell("tune", "list")


def _has_a_job_repeated_that_names_the_study(shell: Running, name: str, changed: dict[str, Any]) -> None:
    """A harmless job that fails has the fingerprint of what was changed; whoever repeats it is to have agreed to that."""
    found = adapter(Experiment).validate_json(json.dumps(shell.json("experiment", "show", name)))
    evil = read_kept(replace(found, tags=(Tag(key="falaj.tune.0", value=json.dumps(changed)),)))
    marked = ("--env", f"{STUDY}={fingerprint(evil)}", "--no-source", "--no-follow", *SMALL)
    failed = json.loads(shell("job", "submit", "--json", *marked, "--", "false"))["job"]
    _until(lambda: shell.json("job", "show", failed["id"])["state"] == "failed")
    again = shell.json("job", "retry", failed["id"])["job"]
    assert again["spec"]["variables"] == []
    run = shown(shell, name)["trials"][-1]["run"]
    shell("run", "log", run, "--tag", f"falaj.job={again['id']}")


def test_limits_that_others_raised_are_asked_about(shell: Running):
    """By the word of a tag alone no more than a few trials are begun."""
    named = {tag["key"]: tag["value"] for tag in shell.json("experiment", "show", "second")["tags"]}
    shell("experiment", "tag", "second", 'falaj.tune.limits={"trials": 900000, "parallel": 900}')
    said = shell.fails("tune", "resume", "second", status=2)
    assert "goes on until 900,000 trials were begun, 900 at once" in said
    shell("experiment", "tag", "second", 'falaj.tune.limits={"trials": 1e300, "parallel": 5e9}')
    assert "says no limits any more" in shell.fails("tune", "resume", "second", status=2)
    shell("experiment", "tag", "second", f"falaj.tune.limits={named['falaj.tune.limits']}")


def test_what_cannot_be_searched_is_refused_before_anything_is_kept(shell: Running, folder: Path):
    before = shell.json("tune", "list")
    assert "name the metric" in shell.fails("tune", "run", "--set", "a=1..2", "--", "train.py", status=2)
    assert "has a GPU" in shell.fails(*begun(folder, "new", "--gpus", "4"), status=2)
    assert "no parameter is called that" in shell.fails(*begun(folder, "new")[:-1], "train.py", "{lr}", status=2)
    assert "another one: level was 0,1,2,3,90,91,92,93, and is now 1..4; the pruner was median, and is now none. Take" in (
        shell.fails(*begun(folder, "mortal", "--sampler", "grid", space="level=1..4"))
    )
    assert "Nothing is to be searched: level=3 leaves" in shell.fails(*begun(folder, "new", space="level=3"), status=2)
    assert "the two do not have the same parameters" in shell.fails(
        *begun(folder, "new", "--from", "mortal", space="lr=1..4"), status=2
    )
    shell("experiment", "create", "plain")
    assert "is no study" in shell.fails("tune", "resume", "plain", status=2)
    assert shell.json("tune", "list") == before


def test_a_study_that_has_nothing_left_sends_nothing_and_says_what_does_not_count(shell: Running, folder: Path):
    whole = begun(folder, "short", "--sampler", "grid", "--parallel", "2", "--set", "rate=1", space="level=1,2")
    _, said = shell.both(*whole)
    assert "rate has one value, 1: every trial is given it, and it is not searched." in said
    assert "Sent 1 file of " in said
    assert re.search(r"short +done +2 of 2 ", shell("tune", "list"))
    jobs = shell.json("job", "list")
    _, said = shell.both(*whole[:-2], "--memory", "65MiB", *whole[-2:])
    aside = "What is said otherwise now does not count: memory."
    assert said.splitlines()[1:] == [
        f"The study short is there and goes on as it was begun; nothing is sent. {aside}",
        "All 2 points of the grid were begun.",
    ]
    assert shell.json("job", "list") == jobs


def test_failed_trials_are_tried_once_and_say_their_last_line(shell: Running):
    few = ("--set", "level=1..9", "--no-source", "--parallel", "3", *SMALL[:4])
    script = ("sh", "-c", "echo level {level} is too much; exit 3")
    _, said = shell.both("tune", "run", "--name", "steep", "--metric", "loss:min", *few, "--", *script, status=1)
    assert re.search(r"^Trial 0 is failed. Try 1 ended with code 3. Its last line: level \d is too much$", said, re.MULTILINE)
    assert re.search(r"steep +given up +[3-6] of 20 ", shell("tune", "list"))
    assert "No trial of 'steep' is complete" in shell.both("tune", "resume", "steep", "--trials", "1", status=1)[1]
    assert re.search(r"steep +given up +([3-6]) of \1 ", shell("tune", "list"))
    assert shell("tune", "show", "steep").startswith("steep: given up, ")
    kept = f"keeps its name; `falaj experiment restore {shell.json('experiment', 'show', 'steep')['id']}` brings them back."
    assert kept in shell("experiment", "delete", "steep")
    assert "was deleted, and its experiment keeps the name" in shell.fails("tune", "resume", "steep")


def test_trials_that_all_fail_end_a_study_after_three(shell: Running):
    few = ("--set", "level=1..9", "--no-source", "--parallel", "3", *SMALL)
    _, said = shell.both("tune", "run", "--name", "silent", "--metric", "loss:min", *few, "--", "true", status=1)
    assert "It ended without reporting loss; it reported nothing." in said
    assert re.search(r"falaj: The study .silent. was stopped. \d trials failed, and none went well", said)
    states = Counter(trial["state"] for trial in shown(shell, "silent")["trials"])
    assert states["failed"] >= 3
    assert set(states) <= {"failed", "cancelled"}


def _until(holds: Any, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)
