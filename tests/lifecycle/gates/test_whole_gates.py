"""Gates from end to end: a platform that runs, models that were trained, jobs that measure them, promotions that need them."""

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from falaj.base.errors import Forbidden
from falaj.client.http import Client
from falaj.registry.operations.promotions import PROMOTE, Promote
from tests.app.mortal import MortalPlatform
from tests.lifecycle.gates import shop

GATES = """
[gates.signature]
kind = "signature"

[gates.quality]
kind = "quality"
on = "later"
label = "left"
slices = ["country"]
max_drop = 0.02
max_slice_drop = 0.1

[gates.fair]
kind = "fairness"
on = "later"
label = "left"
groups = ["country"]
positive = "1"
max_gap = 0.15

[gates.fast]
kind = "latency"
on = "later"
p99_ms = 500

[gates.apart]
kind = "leakage"
on = "later"
training = "known"
label = "left"

[gates.leaky]
kind = "leakage"
on = "known"
training = "known"
label = "left"

[gates.near]
kind = "quality"
on = "prices"
label = "price"
against = "best"
slices = ["country"]
max_drop = 0.02
max_slice_drop = 0.1
most = 0.5

[gates.tests]
kind = "tests"
seconds = 120

[gates.static]
kind = "static"

[require]
champion = ["signature", "quality"]
"""


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MortalPlatform]:
    started = MortalPlatform(tmp_path_factory.mktemp("gates") / "home", FALAJ_SERVING_ENABLED="false").start()
    try:
        yield started
    finally:
        started.close()


@pytest.fixture(scope="module")
def client(platform: MortalPlatform, tmp_path_factory: pytest.TempPathFactory) -> Client:
    file = tmp_path_factory.mktemp("files") / "gates.toml"
    file.write_text(GATES)
    client = platform.client(timeout=120)
    shop.stocked(client)
    done = platform.falaj("gate", "apply", str(file))
    assert done.returncode == 0, done.stderr
    return client


def test_one_as_good_passes_and_is_promoted_and_one_that_is_worse_is_neither(client: Client) -> None:
    with pytest.raises(Forbidden, match="quality was not run as it is defined now; signature was not run"):
        shop.promote(client, 2)
    worse = shop.run(client, 3, "quality", "signature")
    assert (worse["signature"].state, worse["quality"].state) == ("passed", "failed"), worse
    assert "it is worse by" in worse["quality"].words
    with pytest.raises(Forbidden, match="lacks the gates that are needed: quality was not passed"):
        shop.promote(client, 3)
    good = shop.run(client, 2, "quality", "signature")
    assert {one.state for one in good.values()} == {"passed"}, good
    assert good["quality"].against == 1
    assert shop.promote(client, 2).state == "done"
    (told,) = shop.evidence(client, 2, "quality")
    document = json.loads(told.document)
    assert (told.passed, told.counts, told.job) == (True, True, good["quality"].job)
    assert document["overall"]["rows"] == shop.ROWS - shop.KNOWN
    assert {one["name"] for one in document["slices"]} == {"country=ae", "country=om", "country=sa"}
    # What was held against version 1 says nothing once the champion is another.
    (stale,) = shop.evidence(client, 3, "quality")
    assert not stale.counts


def test_what_is_measured_of_a_version_is_fair_fast_and_apart_from_its_training(client: Client) -> None:
    found = shop.run(client, 1, "fair", "fast", "apart", "leaky")
    assert {name: one.state for name, one in found.items()} == {
        "fair": "passed",
        "fast": "passed",
        "apart": "passed",
        "leaky": "failed",
    }, found
    assert "stand in train" in found["leaky"].words or "rows" in found["leaky"].words


def test_models_of_numbers_are_judged_by_their_errors_and_no_value_of_a_classified_column_is_told(
    platform: MortalPlatform, client: Client
) -> None:
    shop.priced(client)
    first = shop.run(client, 1, "near", model="price")["near"]
    assert (first.state, "better than always saying the same" in first.words) == ("passed", True), first.words
    client.call(PROMOTE, Promote(project=shop.PROJECT, model="price", alias="best", version=1))
    same, worse = (shop.run(client, number, "near", model="price")["near"] for number in (1, 2))
    assert (same.state, worse.state) == ("passed", "failed"), (same.words, worse.words)
    assert "worse by" in worse.words
    assert "% of the error" in worse.words
    document = json.loads(shop.evidence(client, 1, "near", model="price")[0].document)
    assert {one["name"] for one in document["slices"]} == {"country #1", "country #2", "country #3"}


def test_nothing_is_held_for_gates_that_are_over(platform: MortalPlatform, client: Client) -> None:
    with sqlite3.connect(f"file:{platform.home.database}?mode=ro", uri=True) as database:
        held = database.execute("SELECT count(*) FROM storage_references WHERE kind = 'gate-run'").fetchone()
    assert held == (0,)


def test_ci_runs_gates_on_the_folder_and_tells_by_its_status_and_in_xml(
    platform: MortalPlatform, client: Client, tmp_path: Path
) -> None:
    (tmp_path / "test_scorer.py").write_text("def test_it_adds_up():\n    assert 1 + 1 == 2\n")
    (tmp_path / "train.py").write_text("print('trained')\n")
    given = ("ci", f"{shop.MODEL}:1", "--gates", "signature,tests,static", "--folder", str(tmp_path))
    done = platform.falaj(*given, "--junit", str(tmp_path / "out.xml"))
    assert done.returncode == 0, done.stdout + done.stderr
    (tmp_path / "train.py").write_text("import subprocess, sys\nsubprocess.call(sys.argv[1], shell=True)  # nosec\n")
    # What the source itself says to the tool, or is called like it, decides nothing.
    (tmp_path / ".bandit").write_text("[bandit]\nexclude: /\nskips: B602,B605,B607\n")
    (tmp_path / "bandit.py").write_text("raise SystemExit(0)\n")
    (tmp_path / "test_scorer.py").write_text("def test_it_adds_up():\n    assert 1 + 1 == 3\n")
    done = platform.falaj(*given, "--junit", str(tmp_path / "out.xml"))
    assert done.returncode == 1, done.stdout + done.stderr
    suite = ElementTree.parse(tmp_path / "out.xml").getroot().find("testsuite")
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("3", "2", "0")
    assert {one.get("name") for one in suite if one.find("failure") is not None} == {"tests", "static"}
