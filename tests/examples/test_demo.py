"""The demo: it shows what it says, ends well or says what went wrong, and leaves nothing behind."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SHORTENED = "import sys, demo; demo.Stage.play = lambda stage, steps: print(steps[0][1]()); sys.exit(demo.main())"
FAILING = """
import sys, demo
def promise(stage, steps):
    steps[0][1]()
    demo.expect(False, "the sky fell")
demo.Stage.play = promise
sys.exit(demo.main())
"""
PLANE = """
import signal, sys, time, demo
from falaj.app import planes
from falaj.app.home import Home
def serve(stage, steps):
    steps[0][1]()
    planes.start(Home(path=stage.home))
    while not planes.running(Home(path=stage.home)):
        time.sleep(0.05)
    {ending}
demo.Stage.play = serve
sys.exit(demo.main())
"""


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Temporary files are made in a folder of the test's own, which must be empty in the end, with nothing running in it.
    What a demo that was cut off left running is ended."""
    repository = str(EXAMPLES.parent)
    yield os.environ | {
        "TMPDIR": str(tmp_path),
        "PYTHONPATH": f"{EXAMPLES}:{repository}",
        "FALAJ_URL": "http://elsewhere.invalid",
    }
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


@pytest.mark.timeout(900)  # all of it, beside other tests
def test_it_shows_everything_and_ends_by_itself(environment: dict[str, str]):
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "demo.py"), "--exit"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    assert done.stderr == ""
    for line in (
        "8,600 bytes read back with the same SHA-256; the disk holds ciphertext",
        "404, in the same words as for a project that does not exist",
        "403 by residency.target-zone and residency.caller-zone",
        "root and signature checked offline",
        "each caught and named: leaf-changed, leaf-removed, leaves-reordered, log-truncated",
        "reads while the key went to version 2, none failed",
        "gone for maryam too: 404",
        "acknowledged writes are there",
        "6,043 real flights of a week, sealed and profiled, as flights@1",
        "flights@2 broke 3 checks and is in quarantine, with the rows that did; flights@1 stays current",
        "flights@3 has 6,042 flights more, none gone, none changed",
        "6,042 questions, each with what was known then; by event time alone 5,575 would see what came later",
        "training@1 6042 rows auc 0.6",
        "online and in a training set the same bits",
        "against winter@1, every 4 s, at most one false alarm in 1,000 windows",
        "no alert in January; July found by",
        "and promoted by itself",
        "and lend what they do not use",
        "one has the queue's own share, one borrows what research does not use, one waits and knows why and until when",
        "what had borrowed it gave back, and was trained after all",
        "registered as versions 1 and 2, signed",
        "each waited for salem; noura could not approve her own",
        "the champion is version 1 again, and every byte of it is what was signed",
        "version 2 then and 1 now; leaf",
        "version 1 answers in plain records, over REST and gRPC alike, on one port; without a token it is 401",
        "version 2 answers 20 % of the calls; none failed, none was answered by the wrong model",
        "calls went to version 1 again; none failed; the history says who and why",
        "predictions without a control plane, none failed; it was back after",
        "one sealed file of",
    ):
        assert line in done.stdout
    assert re.search(r"^everything +\d+\.\d", done.stdout, re.MULTILINE)


def test_it_keeps_the_console_open_until_it_is_interrupted(environment: dict[str, str]):
    process = subprocess.Popen([sys.executable, "-u", "-c", SHORTENED], env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    link = next(found[0] for line in process.stdout if (found := re.search(r"http://\S+/sign-in\?code=\S+", line)))
    page = httpx.get(link, trust_env=False)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert page.status_code == 200


def test_a_promise_that_is_not_kept_fails_it_and_is_told(environment: dict[str, str]):
    done = subprocess.run([sys.executable, "-c", FAILING], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "The demo failed: the sky fell" in done.stdout


@pytest.mark.parametrize(
    ("ending", "code"), [("demo.expect(False, 'the sky fell')", 1), ("signal.raise_signal(signal.SIGINT)", 130)]
)
def test_however_it_ends_the_serving_plane_ends_with_it(environment: dict[str, str], ending: str, code: int):
    script = PLANE.format(ending=ending)
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (code, "")
