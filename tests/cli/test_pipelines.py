"""Pipelines from the command line, against the real platform: written in Python, run as jobs, followed, mended, replayed."""

import hashlib
import hmac
import json
import re
import time
from pathlib import Path

import httpx
import pytest

from tests.cli.conftest import Running

IN = ("--project", "default")
FLOW = """
import falaj
from limits import WORST


@falaj.step(cpus=0.5, memory="512MiB", cached=True)
def clean(flights: falaj.DatasetVersion, worst: int = WORST) -> falaj.DatasetVersion:
    import pyarrow.compute as pc

    rows = flights.table()
    return rows.filter(pc.less(rows["delay"], worst))


@falaj.step(cpus=0.5, memory="512MiB", experiment="late")
def train(rows: falaj.DatasetVersion, noise: bool) -> falaj.ModelVersion:
    import os
    import secrets

    from falaj.client.environments import client_of_environment
    from falaj.tracking.operations.artifacts import PUT_ARTIFACT, PutArtifact

    delays = rows.table()["delay"].to_pylist()
    content = f"{sum(delays) / len(delays)} {secrets.token_hex(8) if noise else ''}".encode()
    asked = PutArtifact(project="default", holder=os.environ["FALAJ_RUN"], name="model/mean.txt")
    with client_of_environment() as client:
        client.call(PUT_ARTIFACT, asked, chunks=[content])
    return falaj.register("late")


@falaj.pipeline
def nightly(flights: falaj.DatasetVersion = "flights", noise: bool = False):
    "Every night's flights."
    return train(clean(flights), noise)


@falaj.pipeline
def several(flights: falaj.DatasetVersion = "flights"):
    return falaj.each(train, rows=clean(flights), noise=[True, False])


@falaj.pipeline
def scripted():
    run = falaj.steps.train("python", "write.py", experiment="late", cpus=0.5, memory="512MiB")
    return falaj.steps.register(run, "scripted")


@falaj.pipeline
def brought(tried: falaj.Run):
    return falaj.steps.register(tried, "scripted")


@falaj.step(cpus=0.5, memory="512MiB")
def halve(number: int) -> int:
    if number % 2:
        raise ValueError(f"{number} is odd")
    return number // 2


@falaj.pipeline
def halves(numbers: list):
    return falaj.each(halve, number=numbers)
"""
WRITE = """
import os

from falaj.client.environments import client_of_environment
from falaj.tracking.operations.artifacts import PUT_ARTIFACT, PutArtifact

asked = PutArtifact(project="default", holder=os.environ["FALAJ_RUN"], name="model/weights.txt")
with client_of_environment() as client:
    client.call(PUT_ARTIFACT, asked, chunks=[b"always the same"])
"""
# Without a function of its own, so that nothing has to start for it.
ASKING = """
import falaj


@falaj.pipeline
def asking(least: int = 3, words: str = ""):
    size = falaj.steps.value(least)
    asked = falaj.steps.approval("Shall it go on?").after(size)
    with falaj.when(size > 5):
        falaj.steps.wait(event="labels").after(asked).named("labels")
    return {"least": size, "words": falaj.text("It is ", words)}
"""


@pytest.fixture(scope="module")
def flow(platform: Running, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("flow")
    (folder / "flow.py").write_text(FLOW)
    (folder / "limits.py").write_text("WORST = 300\n")
    (folder / "write.py").write_text(WRITE)
    rows = folder / "flights.csv"
    rows.write_text("hour,delay\n1,20\n2,500\n3,10\n")
    platform("dataset", "import", "flights", str(rows), *IN)
    rows.unlink()
    return folder / "flow.py"


@pytest.fixture(scope="module")
def asking(platform: Running, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A pipeline that is applied, and asks somebody."""
    file = tmp_path_factory.mktemp("asking") / "asking.py"
    file.write_text(ASKING)
    assert platform("pipeline", "apply", str(file), *IN) == "asking is version 1, with 3 steps.\n"
    return "asking"


def begun(platform: Running, *arguments: str) -> str:
    return str(platform.json("pipeline", "run", *arguments, "--detach", *IN)["id"])


def until(platform: Running, run: str, step: str, state: str) -> None:
    """A step is as it should be; it has a minute to come to that."""
    deadline = time.monotonic() + 60
    while True:
        seen = {one["name"]: one["state"] for one in platform.json("pipeline", "show", run, *IN)["steps"]}
        if seen[step] == state:
            return
        assert time.monotonic() < deadline, seen
        time.sleep(0.1)


def started_by(platform: Running, trigger: str) -> str:
    """The run that a trigger started; it has a minute for that."""
    deadline = time.monotonic() + 60
    while True:
        found = platform.json("pipeline", "runs", *IN)["items"]
        if mine := [one["id"] for one in found if one["trigger"] == trigger]:
            return str(mine[0])
        assert time.monotonic() < deadline, found
        time.sleep(0.1)


@pytest.fixture(scope="module")
def made(platform: Running, flow: Path) -> tuple[tuple[str, str], tuple[str, str]]:
    """What two runs said: of late:1, which comes out the same each time, and of late:2, which does not."""
    first = platform.both("pipeline", "run", f"{flow}:nightly", *IN)
    (flow.parent / "other.py").write_text("# nothing of these steps\n")
    return first, platform.both("pipeline", "run", f"{flow}:nightly", "--set", "noise=true", *IN)


def test_a_file_is_sent_run_and_followed(platform: Running, made: tuple[tuple[str, str], ...]):
    printed, told = made[0]
    assert printed == "late:1\n"
    assert re.search(r"^Sent 3 files of ", told, re.MULTILINE)
    assert re.search(r"^clean: under way in job [0-9a-f]{8}$", told, re.MULTILINE)
    assert re.search(r"^clean: done after .* s: clean@1$", told, re.MULTILINE)
    assert re.search(r"^train: done after .* s: late:1$", told, re.MULTILINE)
    assert re.search(r"^nightly [0-9a-f]{8} is done after ", told, re.MULTILINE)
    assert "nightly\n`-- clean\n    `-- train\n" in platform("pipeline", "show", "nightly", *IN)
    assert "Every night's flights." in platform("pipeline", "list", *IN)


def test_what_was_done_before_is_taken(made: tuple[tuple[str, str], ...]):
    assert re.search(r"^clean: done: clean@1 \(taken from [0-9a-f]{8}\)$", made[1][1], re.MULTILINE)


def test_lineage_leads_from_the_data_to_the_version(platform: Running, made: tuple[tuple[str, str], ...]):
    assert made
    told = platform("lineage", "show", "version", "late/1", *IN)
    assert "dataset clean" in told
    assert "dataset flights" in told


def test_a_version_is_made_again_and_held_against_itself(platform: Running, made: tuple[tuple[str, str], ...]):
    assert made
    assert "are the same, byte for byte" in platform("pipeline", "replay", "late:1", *IN)
    again = platform.json("pipeline", "replay", "late:2", *IN, status=1)
    assert (again["same"], again["files"][0][0]) == (False, "mean.txt")
    assert "version 99" in platform.fails("pipeline", "replay", "late:99", *IN)
    listed = platform("model", "versions", "late", *IN).splitlines()
    assert [line.split()[-1] for line in (listed[0], *listed[1:3])] == ["OF", "late:2", "late:1"]


def test_a_replay_takes_what_came_before_from_then(platform: Running, made: tuple[tuple[str, str], ...]):
    """A new version of `clean` would start whatever waits for one."""
    assert made
    known = platform.json("dataset", "history", "clean", *IN)
    platform("pipeline", "replay", "late:1", *IN)
    run = platform.json("pipeline", "runs", "nightly", *IN)["items"][0]["id"]
    steps = platform.json("pipeline", "show", run, *IN)["steps"]
    assert [(one["name"], bool(one["cached"]), one["state"]) for one in steps] == [
        ("clean", True, "done"),
        ("train", False, "done"),
    ]
    assert platform.json("dataset", "history", "clean", *IN) == known


def test_a_version_of_one_of_a_list_is_held_against_its_own_replay(platform: Running, flow: Path):
    run = platform.json("pipeline", "run", f"{flow}:several", *IN)
    noisy, exact = (one["version"] for one in run["result"])
    assert platform.json("pipeline", "replay", f"late:{exact}", *IN)["same"]
    assert not platform.json("pipeline", "replay", f"late:{noisy}", *IN, status=1)["same"]


def test_of_a_registered_run_the_training_is_done_again_where_a_step_did_it(platform: Running, flow: Path):
    run = platform.json("pipeline", "run", f"{flow}:scripted", *IN)
    trained = next(one["result"]["run"] for one in run["steps"] if one["name"] == "train")
    assert "are the same, byte for byte" in platform("pipeline", "replay", "scripted:1", *IN)
    again = platform.json("pipeline", "show", platform.json("pipeline", "runs", "scripted", *IN)["items"][0]["id"], *IN)
    assert next(one["result"]["run"] for one in again["steps"] if one["name"] == "train") != trained
    brought = platform.json("pipeline", "run", f"{flow}:brought", "--set", f"tried={trained}", *IN)["result"]["version"]
    assert "no step of that run made what it registered" in platform.fails("pipeline", "replay", f"scripted:{brought}", *IN)


def test_a_step_that_fails_shows_where_and_the_run_goes_on_from_there(platform: Running, flow: Path):
    printed, told = platform.both("pipeline", "run", f"{flow}:halves", "--set", "numbers=[4, 3]", *IN, status=1)
    assert re.search(r"^halve\[0\]: done after .* s: 2$", told, re.MULTILINE)
    assert re.search(r"^halve\[1\]: failed: halve raised ValueError: 3 is odd$", told, re.MULTILINE)
    assert 'raise ValueError(f"{number} is odd")' in printed
    assert "running.py" not in printed  # what is ours is of no interest
    run = platform.json("pipeline", "runs", "halves", *IN)["items"][0]["id"]
    assert f"With a file that was mended: falaj pipeline run FILE.py --from halve --of {run[-8:]}\n" in told
    assert "ValueError: 3 is odd" in platform("pipeline", "logs", run, "halve[1]", *IN)
    assert "has no step 'halve[7]'; it has halve, halve[0], halve[1]" in platform.fails(
        "pipeline", "logs", run, "halve[7]", *IN
    )
    _, told = platform.both("pipeline", "resume", run[-8:], *IN, status=1)
    assert "halve[0]: under way" not in told


def test_a_parameter_that_it_does_not_have_is_refused_before_anything_is_sent(platform: Running, flow: Path):
    before = platform.json("pipeline", "list", *IN)
    (flow.parent / "another.txt").write_text("so that another version would come of it")
    said = platform.fails("pipeline", "run", f"{flow}:halves", "--set", "m=3", *IN, status=2)
    assert "It has no parameter 'm'; it has numbers." in said
    assert platform.json("pipeline", "list", *IN) == before


def test_a_run_asks_and_waits_and_hears(platform: Running, asking: str):
    run = begun(platform, asking, "--set", "least=7", "--set", "words=good")
    until(platform, run, "approval", "asking")
    assert "Shall it go on?" in platform("pipeline", "runs", "--state", "running", *IN)
    assert {"name": "asking", "last": "asking"}.items() <= platform.json("pipeline", "list", *IN)["items"][0].items()
    assert (
        platform("pipeline", "approve", run, "approval", "--reason", "Looks well.", *IN) == "approval of asking is agreed to.\n"
    )
    assert platform("pipeline", "send", run, "labels", "--content", '{"rows": 4}', *IN) == f"Sent labels to {run}.\n"
    platform("pipeline", "show", run[-8:], "--follow", *IN)
    found = platform.json("pipeline", "show", run, *IN)
    assert found["state"] == "done"
    assert found["result"] == {"least": 7, "words": "It is good"}
    assert {one["name"]: one["result"] for one in found["steps"]}["labels"] == {"rows": 4}
    assert "asking" in platform("pipeline", "runs", "--state", "done", *IN)


def test_a_run_may_begin_with_a_step_and_take_what_comes_before_it(platform: Running, asking: str):
    first = begun(platform, asking, "--set", "least=4")
    until(platform, first, "approval", "asking")
    again = begun(platform, asking, "--from", "approval", "--of", first)
    until(platform, again, "approval", "asking")
    taken = platform.json("pipeline", "show", again, *IN)["steps"][0]
    assert (taken["name"], taken["result"], taken["cached"]) == ("value", 4, first)


def test_who_refuses_ends_it_and_what_is_cancelled_begins_no_more(platform: Running, asking: str):
    run = begun(platform, asking)
    until(platform, run, "approval", "asking")
    platform("pipeline", "refuse", run, "approval", "--reason", "Not before Sunday.", *IN)
    until(platform, run, "approval", "failed")
    other = begun(platform, asking)
    platform("pipeline", "cancel", other, "--yes", *IN)
    until(platform, other, "approval", "cancelled")
    assert platform.json("pipeline", "show", other, *IN)["state"] == "cancelled"


def test_with_json_only_the_end_is_told(platform: Running, asking: str):
    printed, told = platform.both("pipeline", "run", asking, "--only", "value", "--json", *IN)
    assert json.loads(printed)["state"] == "done"
    assert "under way in job" not in told


def test_times_and_events_start_it(platform: Running, asking: str):
    daily = ("pipeline", "schedule", asking, "--cron", "0 6 * * *", "--zone", "Asia/Dubai")
    assert re.match(r"schedule starts asking: 0 6 \* \* \* \(Asia/Dubai\); next at .*T02:00:00Z\.", platform(*daily, *IN))
    event = (
        "pipeline",
        "trigger",
        "set",
        asking,
        "rows",
        "--on",
        "dataset",
        "--about",
        "flights",
        "--set",
        "least=trigger.version",
    )
    assert platform(*event, "--pause", "1h", *IN) == "rows starts asking: a new version of flights.\n"
    found = {one["name"]: one["wish"] for one in platform.json("pipeline", "trigger", "list", asking, *IN)["items"]}
    assert found["rows"]["parameters"] == {"least": {"$": "trigger.version"}}
    assert found["rows"]["pause"] == 3600
    for name in ("rows", "schedule"):
        platform("pipeline", "trigger", "delete", asking, name, *IN)
    assert platform.json("pipeline", "trigger", "list", asking, *IN)["items"] == []


def test_a_service_calls_the_address_it_was_given_and_a_run_is_under_way(platform: Running, asking: str):
    printed = platform(
        "pipeline", "trigger", "set", asking, "hook", "--on", "webhook", "--set", "least=trigger.content.least", *IN
    )
    url, secret = (re.search(rf"{word} +(\S+)", printed)[1] for word in ("Calls of", "signed by"))
    assert url.startswith(platform.url)
    body = b'{"least": 7}'
    signed = {"X-Hub-Signature-256": "sha256=" + hmac.digest(secret.encode(), body, hashlib.sha256).hex()}
    assert httpx.post(url, content=body, headers=signed | {"X-Hub-Signature-256": "sha256=0"}).status_code == 401
    assert httpx.post(url, content=body, headers=signed).json()["starts"]
    run = started_by(platform, "hook")
    assert platform.json("pipeline", "show", run, *IN)["parameters"]["least"] == 7
    assert platform("pipeline", "trigger", "list", asking, *IN).endswith(
        f"hook is called at {url.removeprefix(platform.url)}\n"
    )
    platform("pipeline", "cancel", run, "--yes", *IN)
    platform("pipeline", "trigger", "delete", asking, "hook", *IN)
    assert httpx.post(url, content=body, headers=signed).status_code == 401


def test_steps_are_drawn_as_text_and_as_files_that_need_nothing_else(
    platform: Running, asking: str, flow: Path, tmp_path: Path
):
    drawn = platform("pipeline", "graph", f"{flow}:halves")
    assert drawn == "halves\n`-- halve: for each of a list\n"
    for ending, beginning in (("svg", "<svg xmlns="), ("html", "<!doctype html>"), ("dot", 'digraph "asking" {')):
        file = tmp_path / f"steps.{ending}"
        platform("pipeline", "graph", asking, "--out", str(file), *IN)
        assert file.read_text().lower().startswith(beginning.lower())
        assert "<script" not in file.read_text()
    assert "what its ending says" in platform.fails("pipeline", "graph", asking, "--out", "steps.gif", *IN, status=2)
    links = platform.json("pipeline", "graph", asking, *IN)["links"]
    assert links == [["value", "approval"], ["approval", "labels"]]


@pytest.mark.parametrize(
    ("arguments", "words", "status"),
    [
        (("run", "nowhere.py"), "There is no file nowhere.py.", 2),
        (("run", "nothing"), "There is no pipeline 'nothing' here.", 1),
        (("run", "asking", "--set", "least=many"), "it is said to be a whole, and 'many' is none", 2),
        (("run", "asking", "--set", "most=1"), "It has no parameter 'most'; it has least, words.", 2),
        (("run", "asking", "--from", "sizes"), "It has no step 'sizes'", 2),
        (("run", "asking", "--only", "sizes"), "It has no step 'sizes'", 2),
        (("show", "abcdef"), "There is no run 'abcdef' of a pipeline here.", 1),
        (("apply", "asking"), "is no file of Python", 2),
        (("replay", "late"), "write it like late:3 or late@champion", 2),
        (("send", "abcdef", "x", "--content", "{"), "is no JSON", 2),
        (("schedule", "asking", "--cron", "whenever"), "whenever", 2),
    ],
)
def test_what_is_asked_wrongly_is_told_in_one_line(
    platform: Running, asking: str, arguments: tuple[str, ...], words: str, status: int
):
    assert asking
    assert words in platform.fails("pipeline", *arguments, *IN, status=status)


def test_one_is_run_by_its_name_too_and_once_it_is_deleted_its_runs_stay(platform: Running, tmp_path: Path):
    file = tmp_path / "small.py"
    file.write_text("import falaj\n\n\n@falaj.pipeline\ndef small():\n    falaj.steps.value(1)\n")
    assert "A file says itself" in platform.fails("pipeline", "run", str(file), "--version", "1", *IN, status=2)
    run = platform.json("pipeline", "run", str(file), *IN)["id"]
    for more in ((), ("--version", "1")):
        assert platform.json("pipeline", "run", "small", *more, *IN)["version"] == 1
    assert "no version 7" in platform.fails("pipeline", "run", "small", "--version", "7", *IN)
    platform("pipeline", "delete", "small", "--yes", *IN)
    assert "There is no pipeline 'small' here." in platform.fails("pipeline", "show", "small", *IN)
    assert platform.json("pipeline", "show", run, *IN)["state"] == "done"
