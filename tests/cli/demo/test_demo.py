"""The demo shows what it says, ends well or says what went wrong, has the same models again, and leaves nothing behind."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from falaj.cli.commands.demo import PARTS
from falaj.cli.demo.ground import AGAIN
from falaj.cli.demo.stage import copied
from falaj.cli.main import run
from falaj.client.pipelines.files import written

ROOT = Path(__file__).parents[3]
DEMO = [sys.executable, "-u", "-m", "falaj.cli.main", "demo"]
SCRIPT = """
import signal, sys, time
from falaj.app import planes
from falaj.app.home import Home
from falaj.cli.demo import showing
from falaj.cli.demo.playing import Step
from falaj.cli.demo.stage import expect
from falaj.cli.main import run
class Part:
    def __init__(self, name, ground):
        self.home = Home(path=ground.stage.home)
    def steps(self):
        return [Step(title="A step", words="That ends early.", play=self.play)]
    def play(self):
        planes.start(self.home)
        while not planes.running(self.home):
            time.sleep(0.05)
        {ending}
showing.part = Part
sys.exit(run(["demo", "residency", "--exit"]))
"""


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Temporary files are made in a folder of the test's own, which must be empty in the end, with nothing running in it.
    What a demo that was cut off left running is ended."""
    yield os.environ | {"TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT), "FALAJ_URL": "http://elsewhere.invalid"}
    left = [process for process in psutil.process_iter() if str(tmp_path) in _traces_of(process)]
    for process in left:
        _end(process)
    assert (list(tmp_path.iterdir()), left) == ([], [])


def _traces_of(process: psutil.Process) -> str:
    """What says on which home it works: its environment, or how it was called."""
    try:
        return " ".join((process.environ().get("FALAJ_HOME", ""), *process.cmdline()))
    except psutil.Error:
        return ""


def _end(process: psutil.Process) -> None:
    with contextlib.suppress(psutil.Error):
        whole = [*process.children(recursive=True), process]
        for each in whole:
            with contextlib.suppress(psutil.Error):
                each.kill()
        psutil.wait_procs(whole, 10)


@pytest.mark.timeout(1200)  # all of it, beside other tests
def test_it_shows_everything_and_ends_by_itself(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory):
    report = tmp_path_factory.mktemp("report") / "demo.html"
    asked = [*DEMO, "--exit", "--json", "--report", str(report)]
    done = subprocess.run(asked, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    for line in (
        "The console, while it goes on: http://",
        "327,346 of 336,776 flights arrived where they should",
        "flights@2 broke 3 checks and is in quarantine; delivered again it is flights@3",
        "winter@1 has 70,124 flights; by the time of flights alone 64,404 of them would have seen the future",
        "online and in training the same bits",
        "late-arrival 2 is the champion, signed: 0.",
        "curl -s http://",
        "without a token it does not",
        "nothing in the rest of winter; spring found by ",
        "and the pipeline started by that",
        "gate quality: Not worse than champion v2 within 1.00 points over all: ",
        "the pipeline asks: Shall version 3 answer a tenth of the calls?",
        "late-arrival 3, of 72,124 flights of the half year",
        "revision 2 answers 10% of July's calls, as a canary",
        "and 50% of them in the A/B test late-",
        "and promoted by itself; late-arrival 3 is the champion",
        "none failed; revision 2 answers, and what became of its flights is known",
        "noura could not approve her own, and an approval serves one move only",
        "version 2 then and 3 now; leaf",
        "root and signature checked offline",
        "each caught and named: leaf-changed, leaf-removed, leaves-reordered, log-truncated",
        "predictions without a control plane, none failed; it was back after",
        "acknowledged writes are there, and the ledger verifies",
        "one sealed file of",
        "was worse, and went back by itself; none failed",
        "8,600 bytes read back with the same SHA-256; the disk in abu-dhabi holds ciphertext",
        "403 by residency.target-zone and residency.caller-zone",
        "404, in the same words as for a project that does not exist",
        "shredded it is gone for maryam too",
        "and lend what they do not use",
        "one has the team's own share, one borrows what research does not use, one waits and knows why and until when",
        "what had borrowed it gave back, and was trained after all",
        "of version 3 is certified",
    ):
        assert line in done.stderr
    told = json.loads(done.stdout)
    assert list(dict.fromkeys(one["part"] for one in told["shown"])) == list(PARTS)
    assert sorted(told["models"]) == ["1", "2", "3", "4"]
    assert told["report"] == str(report)
    _is_sound(report.read_text(), told["models"])


def _is_sound(page: str, models: dict[str, str]) -> None:
    assert "<script" not in page
    assert "http" not in re.sub(r"http-equiv|httpd?s?://www\.w3\.org/\S+", "", page)
    sections = ("shown", "drift", "pipeline", "gates", "quality", "verdict", "traffic", "models")
    assert [name for name in sections if f'id="{name}"' not in page] == []
    assert page.count("<svg") >= 5
    assert all(digest in page for digest in models.values())


def test_the_pipeline_that_the_alert_starts_goes_all_the_way(tmp_path: Path):
    (made,) = written(copied(AGAIN, tmp_path))
    steps = {step.name: step for step in made.definition.steps}
    line = ["wait", "training-set", "training-set-2", "train", "gates", "approval", "deploy", "wait-2", "abtest", "promote"]
    assert list(steps)[: len(line)] == line
    assert steps["gates"].arguments["gates"] == ["quality"]
    assert steps["deploy"].arguments["version"] == {"$": "steps.gates.version"}  # what did not pass does not answer
    assert (steps["deploy"].arguments["mode"], steps["abtest"].arguments["design"]["on_win"]) == ("canary", "promote")
    assert steps["promote"].when == {"$": "==", "of": [{"$": "steps.abtest.state"}, "won"]}


@pytest.mark.heavy
@pytest.mark.timeout(2400)  # twice all of it, beside other tests
def test_all_of_it_played_again_has_the_same_models(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory):
    asked, models = [*DEMO, "--exit", "--json"], []
    for seed in ("1", "3"):
        env = environment | {"PYTHONHASHSEED": seed}
        there = tmp_path_factory.mktemp("there")
        done = subprocess.run(asked, env=env, capture_output=True, text=True, check=False, cwd=there)
        assert done.returncode == 0, done.stderr[-4000:]
        models.append(json.loads(done.stdout)["models"])
    assert sorted(models[0]) == ["1", "2", "3", "4"]
    assert models[0] == models[1]


@pytest.mark.timeout(600)
def test_a_chapter_played_again_has_the_same_models(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory):
    asked = [*DEMO, "audit", "--exit", "--json"]
    seeds = [environment | {"PYTHONHASHSEED": seed} for seed in ("1", "3")]  # of Python's sets, in which nothing may depend
    piped: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    both = [subprocess.Popen(asked, env=env, cwd=tmp_path_factory.mktemp("there"), **piped) for env in seeds]
    first, second = (json.loads(one.communicate()[0])["models"] for one in both)
    assert len(first) == 2
    assert first == second


def test_it_keeps_the_console_open_until_it_is_interrupted(environment: dict[str, str]):
    process = subprocess.Popen([*DEMO, "residency"], env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    link = next(found[0] for line in process.stdout if (found := re.search(r"http://\S+/sign-in\?code=\S+", line)))
    assert httpx.get(link, trust_env=False).status_code == 200
    assert any("until you press Ctrl-C" in line for line in process.stdout)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("ending", "code", "said"),
    [
        ('expect(False, "the sky fell")', 1, "falaj: The demo failed: the sky fell\n"),
        ("signal.raise_signal(signal.SIGTERM)", 130, ""),
    ],
)
def test_however_it_ends_the_serving_plane_ends_with_it(environment: dict[str, str], ending: str, code: int, said: str):
    script = SCRIPT.format(ending=ending)
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.rstrip()) == (code, said.rstrip())


def test_once_it_has_ended_by_itself_the_report_is_there_to_be_read(environment: dict[str, str], tmp_path_factory):
    here = tmp_path_factory.mktemp("here")
    asked = [*DEMO, "residency", "--exit"]
    done = subprocess.run(asked, env=environment, capture_output=True, text=True, check=False, cwd=here)
    assert done.returncode == 0, done.stderr[-4000:]
    assert f"The report: {here / 'falaj-demo.html'}" in done.stdout.replace("\n", " ")
    assert "residency" in (here / "falaj-demo.html").read_text()


def test_what_is_made_in_a_folder_of_the_user_s_own_stays_there(environment: dict[str, str], tmp_path_factory):
    folder = tmp_path_factory.mktemp("own") / "demo"
    asked = [*DEMO, "residency", "--exit", "--json", "--folder", str(folder)]
    done = subprocess.run(asked, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert Path(json.loads(done.stdout)["report"]).parent == folder
    assert (folder / "home" / "falaj.toml").exists()


@pytest.mark.parametrize(
    ("asked", "status", "said"),
    [
        (["flight"], 2, "The demo has no part 'flight'; there are flights, audit,"),
        (["--home", "somewhere"], 2, "--folder says where it is made."),
        (["--folder", str(ROOT)], 1, "is not empty"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_begins(asked: list[str], status: int, said: str, capsys):
    assert run(["demo", "--exit", *asked]) == status
    assert said in capsys.readouterr().err


def test_who_has_not_the_flights_is_told_how_to_get_them(monkeypatch, capsys):
    monkeypatch.setattr("falaj.cli.demo.flights.find_spec", lambda name: None)
    assert run(["demo", "--exit"]) == 2
    assert "pip install 'falaj[demo]'" in capsys.readouterr().err
