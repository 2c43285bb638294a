"""Monitors by commands, on a platform that runs: set, changed, looked at, reported on and ended."""

import itertools
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from falaj.base.clock import SystemClock
from falaj.base.ids import new_id
from falaj.client.http import Client
from falaj.monitoring.operations.words import Objective
from falaj.serving.operations.planes import (
    CREATE_PLANE,
    DELETE_PLANE,
    READ_STATE,
    SEND_REPORT,
    CreatePlane,
    OnePlane,
    ReadState,
    Report,
)
from tests.cli.conftest import Running
from tests.monitoring.drift.platform import QUICK, Watched, rows_of
from tests.serving.control.platform import ZONE, Platform


@pytest.fixture(scope="module")
def drifted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A platform on which one endpoint had drifted before it was started, and another is not watched."""
    folder: Path = tmp_path_factory.mktemp("drifted")
    before = Platform(folder)
    watched = Watched(before)
    watched.apply(QUICK)
    watched.learn()
    watched.traffic(rows_of(seed, amount=40.0) for seed in range(6))
    watched.write(rows_of(1, 2000), mode="overwrite")
    watched.write(rows_of(2, 2000, amount=40.0), mode="overwrite")
    before.deploy(watched.version.version, "other")
    before.close()
    running = Running(folder / "home", folder / "config", FALAJ_SERVING_ENABLED="false")
    yield running
    running.stop()


def test_all_endpoints_are_seen_at_a_glance_and_who_is_not_watched_is_told(drifted: Running) -> None:
    told, said = drifted.both("monitor", "list")
    [line] = [line for line in told.splitlines() if line.startswith("scores")]
    assert "amount" in line
    assert said == "Not watched: other.\n"
    assert [one["endpoint"] for one in drifted.json("monitor", "list")["items"]] == ["scores"]


def test_one_is_told_in_a_sentence_and_then_the_furthest_first(drifted: Running) -> None:
    told = drifted("monitor", "show", "scores").splitlines()
    assert told[0].startswith("scores: ")
    assert "columns drift against the first rows that it answered" in told[0]
    assert "on, where its evidence is 1 or more." in told[-1]
    assert any(line.startswith("window") and line.endswith(" s") for line in told)
    columns = told[next(place for place, line in enumerate(told) if line.startswith("COLUMN")) + 1 :]
    [amount] = [line for line in columns if line.startswith("amount ")]
    assert amount.endswith("yes")
    drifting = [found[1] for line in columns if line.endswith("yes") and (found := re.search(r" (\d\.\d{3}) ", line))]
    assert len(drifting) == 5
    assert drifting == sorted(drifting, reverse=True)


def test_windows_and_a_column_are_shown(drifted: Running) -> None:
    windows = drifted("monitor", "windows", "scores", "--limit", "3")
    assert windows.startswith("Revision 1\n")
    assert "amount" in windows
    unknown = drifted.fails("monitor", "windows", "scores", "--revision", "9")
    assert "Revision 9 of 'scores' is not watched; revisions that are: 1." in unknown
    spread = drifted("monitor", "column", "scores", "amount", "--last", "3")
    assert "#" in spread
    assert "wasserstein" in spread
    assert "nothing" in drifted.fails("monitor", "column", "scores", "nothing")


def test_a_monitor_is_set_and_changed_and_what_changed_is_told(drifted: Running, tmp_path: Path) -> None:
    said = drifted("monitor", "apply", "other", "--window", "5m", "--objective", "availability=99.9%")
    assert said == "other is watched from now on, in windows of 300 s, against the first 10,000 rows that it answers.\n"
    (tmp_path / "monitor.toml").write_text("floor = 0.2\nwindow = 600\n")
    told = drifted("monitor", "apply", "other", "--file", str(tmp_path / "monitor.toml"), "--window", "2m", "--quiet", "7")
    assert told.splitlines() == ["window: 300 -> 120", "floor: 0.1 -> 0.2", "quiet: 5 -> 7"]
    assert drifted("monitor", "apply", "other") == "other is watched as before.\n"
    wishes = drifted.json("monitor", "show", "other")["wishes"]
    assert wishes["objectives"] == [{"kind": "availability", "share": 0.999, "milliseconds": 0, "days": 30}]
    assert drifted("monitor", "apply", "other", "--objective", "").startswith("objectives: availability=99.9%/30d -> none")
    assert "held to no objective" in drifted("monitor", "objectives", "other")
    assert "Say --yes" in drifted.fails("monitor", "delete", "other", status=2)
    assert drifted("monitor", "delete", "other", "--yes") == "other is not watched any more.\n"
    assert "falaj monitor apply other" in drifted.fails("monitor", "show", "other")


@pytest.mark.parametrize(
    ("options", "status", "said"),
    [
        (("scores", "--floor", "2"), 2, "floor"),
        (("scores", "--objective", "fast"), 2, "is no objective"),
        (("scores", "--objective", "availability=100%"), 2, "between 0 and 1"),
        (("scores", "--action", "explode"), 2, "do must be"),
        (("scores", "--channel", "nowhere"), 1, "There is no channel 'nowhere'"),
        (("scores", "--file", "/nowhere.toml"), 1, "/nowhere.toml"),
        (("nobody",), 1, "There is no endpoint 'nobody'"),
    ],
)
def test_bad_wishes_are_refused_with_a_line_and_change_nothing(
    drifted: Running, options: tuple[str, ...], status: int, said: str
) -> None:
    before = drifted.json("monitor", "show", "scores")["wishes"]
    assert said in drifted.fails("monitor", "apply", *options, status=status)
    assert drifted.json("monitor", "show", "scores")["wishes"] == before


def test_a_check_shows_distances_and_fails_only_where_it_is_asked_to(drifted: Running) -> None:
    told = drifted("monitor", "check", "orders@2", "--reference", "orders@1")
    assert "amount" in told
    assert "WASSERSTEIN" in told
    drifted("monitor", "check", "orders@2", "--reference", "orders@1", "--fail-on-drift", status=1)
    drifted("monitor", "check", "orders@1", "--reference", "orders@1", "--fail-on-drift")
    found = drifted.json("monitor", "check", "orders@2", "--reference", "orders@1", "--sampled", "500")
    assert found["drifting"]
    assert found["together"]["area"] > 0.6
    assert "no-such" in drifted.fails("monitor", "check", "no-such@2", "--reference", "orders@1")


def test_objectives_are_shown_with_their_windows(drifted: Running) -> None:
    drifted("monitor", "apply", "scores", "--objective", "latency=99%@50ms/7d")
    told = drifted("monitor", "objectives", "scores")
    assert told.startswith("latency, 99 % within 50 ms, over 7 days: ")
    assert [line.split()[0] for line in told.splitlines()[2:7]] == ["5m", "30m", "1h", "6h", "3d"]
    [held] = drifted.json("monitor", "objectives", "scores")["items"]
    assert Objective(**held["objective"]) == Objective(kind="latency", share=0.99, milliseconds=50, days=7)


def test_a_report_is_one_file_that_names_what_drifts(drifted: Running, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    assert drifted("monitor", "report", "scores", "--out", str(out)) == f"Written to {out}.\n"
    text = out.read_text()
    assert text.startswith("<!doctype html>")
    assert "amount" in text
    assert drifted("monitor", "report", "scores", "--out", "-").startswith("<!doctype html>")
    assert drifted.json("monitor", "report", "scores", "--out", str(out))["bytes"] == len(out.read_bytes())
    assert "not watched" in drifted.fails("monitor", "report", "other", "--out", str(tmp_path / "none.html"))
    assert not (tmp_path / "none.html").exists()


class Slow:
    """A plane that says once a second which state it serves by: a plane that is silent is waited for by nobody."""

    def __init__(self, client: Client) -> None:
        self.serial = 0
        self._client, self._run = client, new_id(SystemClock().now())
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._go_on)

    def __enter__(self) -> "Slow":
        self._report(1)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()

    def _go_on(self) -> None:
        for number in itertools.count(2):
            if self._ending.wait(1.0):
                return
            self._report(number)

    def _report(self, number: int) -> None:
        where = "http://127.0.0.1:1"
        told = Report(run=self._run, number=number, url=where, version="1", workers=1, serial=self.serial, seconds=1.0)
        self._client.call(SEND_REPORT, told)


def test_applying_waits_for_the_planes_and_says_how_many_it_did_not_wait_for(drifted: Running) -> None:
    owner = json.loads((drifted.home / "credentials.json").read_text())["token"]
    with Client(drifted.url, owner) as client:
        made = client.call(CREATE_PLANE, CreatePlane(plane="slow", zone=ZONE))
        with Client(drifted.url, made.token) as told, Slow(told) as plane:
            said = drifted("monitor", "apply", "other", "--window", "5m", "--wait", "0")
            assert said.splitlines()[-1].startswith("1 serving plane(s) have not heard of it yet")
            applying = drifted.start("monitor", "apply", "other", "--window", "3m", "--wait", "600")
            while drifted.json("monitor", "show", "other")["wishes"]["window"] != 180:
                assert applying.poll() is None
            assert applying.poll() is None
            plane.serial = told.call(READ_STATE, ReadState()).serial
            assert applying.communicate(timeout=120)[0] == "window: 300 -> 180\n"
        client.call(DELETE_PLANE, OnePlane(plane="slow"))
    drifted("monitor", "delete", "other", "--yes")
