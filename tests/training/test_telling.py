"""What a training tells of itself arrives on its run; where nobody listens, the training does not notice."""

import json
import math
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from falaj.tracking.operations import artifacts, runs
from falaj.training.telling import NoRun, RemoteRun, run_from_environment
from tests.web import tracked
from tests.web.conftest import Site, running_site

Told = tuple[Site, str]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    for site in running_site(tmp_path_factory.mktemp("told")):
        site.project("fraud")
        yield site, tracked.run(site, tracked.experiment(site), "training", ended=False)


def _run(told: Told) -> RemoteRun:
    site, run = told
    variables = {"TRACKING_URI": site.url, "TRACKING_TOKEN": site.owner, "RUN_ID": run, "WORKSPACE": "fraud"}
    found = run_from_environment({f"MLFLOW_{name}": value for name, value in variables.items()})
    assert isinstance(found, RemoteRun)
    return found


def _shown(told: Told) -> runs.Run:
    site, run = told
    return site.call(runs.SHOW_RUN, runs.OneRun(project="fraud", run=run))  # type: ignore[no-any-return]


def test_figures_words_parameters_and_files_arrive_on_the_run(told: Told, tmp_path: Path) -> None:
    run = _run(told)
    (tmp_path / "trace.json.gz").write_bytes(b"\x1f\x8b" + b"t" * 100_000)
    for step in range(250):
        run.figures({"falaj.training/step_seconds": 0.1 + step}, step)
    run.words({"falaj.training.verdict": "input-bound: 41 % of each step waits for data"})
    run.parameters({"rows": 32})
    run.file(tmp_path / "trace.json.gz", "profile/trace.json.gz")
    run.close()
    assert run.lost == 0
    shown = _shown(told)
    assert {one.key: (one.value, one.step) for one in shown.metrics}["falaj.training/step_seconds"] == (249.1, 249)
    assert {one.key: one.value for one in shown.tags}["falaj.training.verdict"].startswith("input-bound")
    assert ("rows", "32") in {(one.key, one.value) for one in shown.params}
    site, id = told
    listed = site.call(artifacts.LIST_ARTIFACTS, artifacts.ListArtifacts(project="fraud", holder=id, deep=True))
    assert [(one.name, one.size) for one in listed.items if not one.folder] == [("profile/trace.json.gz", 100_002)]


def test_what_is_refused_does_not_take_the_others_along(told: Told) -> None:
    run = _run(told)
    run.figures({"good": 1.0, "": 2.0, "nan": math.nan, "large": math.inf, "also good": 3.0})
    run.words({f"tag-{number}": "x" * 10_000 for number in range(150)})
    run.close()
    assert run.lost == 1
    measured = {one.key: one.value for one in _shown(told).metrics}
    assert (measured["good"], measured["also good"], measured["large"]) == (1.0, 3.0, math.inf)
    assert math.isnan(measured["nan"])
    assert sum(tag.key.startswith("tag-") for tag in _shown(told).tags) == 150


def test_a_dead_server_costs_the_figures_and_nothing_else() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    run = RemoteRun(f"http://127.0.0.1:{port}", "token", "run")
    for step in range(100):
        run.figures({"loss": 1.0}, step)
    run.file(Path("nowhere"), "nothing")
    run.close()
    assert run.lost == 101


def test_a_server_that_never_answers_holds_nobody_up() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        run = RemoteRun(f"http://127.0.0.1:{silent.getsockname()[1]}", "token", "run", patience=0.2)
        for step in range(11_000):  # more than can wait
            run.figures({"loss": 1.0}, step)
        assert run.lost > 0
        run.close()


def test_a_server_that_is_away_for_a_moment_is_told_again() -> None:
    asked: list[dict[str, object]] = []

    class Restarting(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(503 if len(asked) == 1 else 200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Restarting) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        run = RemoteRun(f"http://127.0.0.1:{server.server_port}", "token", "run")
        run.figures({"loss": 1.0})
        while len(asked) < 2:
            time.sleep(0.01)
        run.close()
        server.shutdown()
        serving.join()
    assert run.lost == 0
    assert asked[0] == asked[1]


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"MLFLOW_TRACKING_URI": "http://127.0.0.1:1"},
        {"MLFLOW_TRACKING_URI": "file:///etc", "MLFLOW_RUN_ID": "a"},
        {"MLFLOW_TRACKING_URI": "http://127.0.0.1:1", "MLFLOW_RUN_ID": "a", "RANK": "1"},
        {"MLFLOW_TRACKING_URI": "http://127.0.0.1:1", "MLFLOW_RUN_ID": "a", "LOCAL_RANK": "1"},
    ],
)
def test_without_a_run_or_as_another_process_nobody_is_told(variables: dict[str, str]) -> None:
    assert isinstance(run_from_environment(variables), NoRun)
