"""Falaj's MLflow face against the stock `mlflow server`: the same requests to both, and the stock client in front of both.

make bench-tracking        the last line is one JSON object; ARGS="--quick" for a first look
"""

import argparse
import compileall
import itertools
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import psutil
from load import Talk, http_request, requests_per_second, rounds_per_second
from runs_table import fill_falaj, fill_mlflow

from falaj.app.home import Home, read_document
from falaj.base.values import value
from tests.servers.postgres import PostgresServer

HERE = Path(__file__).parent
PEER_PACKAGES = ("mlflow==3.17.2", "psycopg2-binary", "torch==2.13.0", "lightning>=2.6,<3")
MLFLOW_ENVIRONMENT = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
# As a database is run in earnest; both servers use the same one.
DURABLE = {"listen_addresses": "", "max_connections": "100", "shared_buffers": "128MB"}
KEYS = [f"metric_{number}" for number in range(10)]
ANY_RUN = "0" * 32  # where a run's id will stand
ROUNDS = 10
SEARCH = {
    "experiment_ids": ["0"],
    "filter": "metrics.accuracy > 0.5 AND params.depth = '4'",
    "order_by": ["metrics.accuracy DESC"],
    "max_results": 50,
}


@value
class Server:
    """One server under load; `process` has children of its own."""

    name: str
    url: str
    token: str
    process: psutil.Process
    started_in: float

    def post(self, endpoint: str, body: Any) -> Any:
        headers = {"authorization": f"Bearer {self.token}"} if self.token else {}
        answer = httpx.post(f"{self.url}/api/2.0/mlflow/{endpoint}", json=body, headers=headers, timeout=120, trust_env=False)
        answer.raise_for_status()
        return answer.json()

    def request(self, endpoint: str, body: Any) -> bytes:
        content = json.dumps(body, separators=(",", ":")).encode()
        return http_request("POST", self.url, f"/api/2.0/mlflow/{endpoint}", token=self.token, body=content)

    def megabytes(self) -> float:
        family = [self.process, *self.process.children(recursive=True)]
        return sum(process.memory_info().rss for process in family) / 1e6

    def environment(self) -> dict[str, str]:
        found = os.environ | MLFLOW_ENVIRONMENT | {"MLFLOW_TRACKING_URI": self.url}
        return found | ({"MLFLOW_TRACKING_TOKEN": self.token} if self.token else {})


# --- starting them -----------------------------------------------------------------------------------------------------------


def peer_python() -> Path:
    """The peer's own environment, made on first use."""
    venv = HERE.parent / ".bench" / "tracking"
    if not (venv / "ready").exists():
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        subprocess.run([venv / "bin/pip", "install", "-q", *PEER_PACKAGES], check=True, stderr=subprocess.DEVNULL)
        (venv / "ready").touch()
    return venv / "bin/python"


@contextmanager
def running(name: str, command: list[str], url: str, environment: dict[str, str], token: Callable[[], str]) -> Iterator[Server]:
    """Started, and timed until it answers."""
    began = time.perf_counter()
    with subprocess.Popen(
        command, env=os.environ | environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            wait_until_healthy(f"{url}/{'health' if name == 'mlflow' else 'healthz'}", process)
            took = time.perf_counter() - began
            yield Server(name=name, url=url, token=token(), process=psutil.Process(process.pid), started_in=took)
        finally:
            if process.poll() is None:
                children = psutil.Process(process.pid).children(recursive=True)
                process.terminate()
                process.wait(timeout=60)
                for child in children:
                    if child.is_running():
                        child.terminate()


def wait_until_healthy(url: str, process: "subprocess.Popen[bytes]") -> None:
    for _ in range(3000):
        if process.poll() is not None:
            raise RuntimeError(f"the server behind {url} ended while it started")
        try:
            if httpx.get(url, trust_env=False, timeout=5).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    raise RuntimeError(f"{url} did not start")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def mlflow_server(folder: Path, database: str, workers: int) -> Iterator[Server]:
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    command = [str(peer_python().parent / "mlflow"), "server", "--host", "127.0.0.1", "--port", str(port)]
    command += [
        "--workers",
        str(workers),
        "--backend-store-uri",
        database,
        "--artifacts-destination",
        str(folder / "artifacts"),
    ]
    with running("mlflow", command, f"http://127.0.0.1:{port}", MLFLOW_ENVIRONMENT, lambda: "") as server:
        yield server


@contextmanager
def falaj_server(folder: Path, database: str) -> Iterator[Server]:
    # As pip leaves an installation behind, the peer's among them; a checkout may never have written its bytecode.
    compileall.compile_dir(HERE.parent / "falaj", quiet=1)
    port = free_port()
    environment = {"FALAJ_DATABASE_URL": database} if database else {}
    command = [sys.executable, "-m", "falaj.cli.main", "up", "--home", str(folder), "--port", str(port), "--json"]
    credentials = Home(path=folder).credentials
    token: Callable[[], str] = lambda: str(read_document(credentials)["token"])  # noqa: E731
    with running("falaj", command, f"http://127.0.0.1:{port}", environment, token) as server:
        yield server


# --- the same requests to both -----------------------------------------------------------------------------------------------


def new_run(server: Server) -> str:
    return str(server.post("runs/create", {"experiment_id": "0", "start_time": 1})["run"]["info"]["run_id"])


def batches_per_second(server: Server, seconds: float) -> float:
    """1,000 points of ten metrics in a call, over four connections. No point is sent twice, for one that is there is cheap."""
    runs = [new_run(server) for _ in range(ROUNDS * 4)]

    def body(call: int) -> bytes:
        first = call * 100
        points = [
            {"key": key, "value": 0.5 + offset / 1000, "timestamp": 1_700_000_000_000 + offset, "step": offset}
            for offset in range(first, first + 100)
            for key in KEYS
        ]
        return server.request("runs/log-batch", {"run_id": ANY_RUN, "metrics": points})

    ready = [body(call) for call in range(400)]  # made before, so that making them is not measured
    # Once all were sent they go out again, to other runs; four connections write to four runs.
    sending = (
        request.replace(ANY_RUN.encode(), runs[4 * turn + call % 4].encode())
        for turn in range(ROUNDS)
        for call, request in enumerate(ready)
    )
    return requests_per_second(server.url, connections=4, seconds=seconds, next_request=lambda: next(sending))


def singles_per_second(server: Server, seconds: float) -> float:
    runs = itertools.cycle([new_run(server) for _ in range(8)])
    steps = itertools.count()

    def body() -> bytes:
        step = next(steps)
        point = {
            "run_id": next(runs),
            "key": "loss",
            "value": 1 / (1 + step),
            "timestamp": 1_700_000_000_000 + step,
            "step": step,
        }
        return server.request("runs/log-metric", point)

    return requests_per_second(server.url, connections=8, seconds=seconds, next_request=body)


def runs_per_second(server: Server, seconds: float) -> float:
    """Created with the tags the stock client sends, and finished."""
    tags = [
        {"key": "mlflow.user", "value": "noura"},
        {"key": "mlflow.source.name", "value": "train.py"},
        {"key": "mlflow.source.type", "value": "LOCAL"},
        {"key": "mlflow.runName", "value": "gentle-palm-7"},
    ]
    create = {"experiment_id": "0", "user_id": "noura", "run_name": "gentle-palm-7", "start_time": 1, "tags": tags}

    def talk() -> Talk:
        answer = yield server.request("runs/create", create)
        run = json.loads(answer)["run"]["info"]["run_id"]
        yield server.request("runs/update", {"run_id": run, "status": "FINISHED", "end_time": 2})

    return rounds_per_second(server.url, connections=8, seconds=seconds, talk=talk)


def searches_per_second(server: Server, seconds: float) -> float:
    """The first page of 50 of 30,000 runs, filtered and ordered by a metric, over two connections."""
    page = server.post("runs/search", SEARCH)["runs"]
    assert len(page) == SEARCH["max_results"], f"{server.name} found {len(page)} runs"
    request = server.request("runs/search", SEARCH)
    return requests_per_second(server.url, connections=2, seconds=seconds, next_request=lambda: request)


# --- the stock client in front of both ---------------------------------------------------------------------------------------


def client_figures(server: Server, seconds: float) -> dict[str, float]:
    """What a script sees: metrics a second by log_batch, and calls a second by log_metric."""
    command = [str(peer_python()), str(HERE / "tracking_client.py"), "log", str(seconds)]
    told = subprocess.run(command, env=server.environment(), check=True, capture_output=True, text=True).stdout
    return dict(json.loads(told.splitlines()[-1]))


def lightning_slowdown(server: Server, rounds: int) -> dict[str, float]:
    """How much longer a Lightning training takes for the time it spends in its stock MLflow logger, in percent: the median of
    some trainings, and how far they lie apart."""
    command = [str(peer_python()), str(HERE / "tracking_client.py"), "lightning", str(rounds)]
    told = subprocess.run(command, env=server.environment(), check=True, capture_output=True, text=True).stdout
    found = json.loads(told.splitlines()[-1])
    print(f"lightning: {found}", file=sys.stderr, flush=True)
    return {"lightning_slowdown_pct": found["slowdown_pct"], "lightning_spread_pct": found["spread_pct"]}


# --- the figures -------------------------------------------------------------------------------------------------------------


def in_turns(
    servers: list[Server], measure: Callable[[Server, float], float], seconds: float, turns: int = 3
) -> dict[str, float]:
    """Both take turns, so that a noisy moment hits both; the median of each counts."""
    figures: dict[str, list[float]] = {server.name: [] for server in servers}
    for server in servers:
        measure(server, min(1.0, seconds))
    for _ in range(turns):
        for server in servers:
            figures[server.name].append(measure(server, seconds))
    return {name: median(found) for name, found in figures.items()}


def compare(figures: dict[str, float], name: str, found: dict[str, float], unit: float = 1) -> None:
    figures[f"{name}_x"] = found["falaj"] / found["mlflow"]
    figures |= {f"{name}_{server}": speed * unit for server, speed in found.items()}
    print(f"{name}: { ({server: round(speed * unit, 1) for server, speed in found.items()}) }", file=sys.stderr, flush=True)


def measure_sqlite(folder: Path, seconds: float, runs: int, workers: int) -> dict[str, float]:
    figures: dict[str, float] = {}
    with ExitStack() as stack:
        mlflow = stack.enter_context(mlflow_server(folder / "mlflow", f"sqlite:///{folder}/mlflow.db", workers))
        falaj = stack.enter_context(falaj_server(folder / "falaj", ""))
        servers = [mlflow, falaj]
        compare(figures, "batch", in_turns(servers, batches_per_second, seconds), 1000)
        compare(figures, "single", in_turns(servers, singles_per_second, seconds))
        compare(figures, "runs", in_turns(servers, runs_per_second, seconds))
        figures["rss_x"] = mlflow.megabytes() / falaj.megabytes()
        figures["rss_mb"] = falaj.megabytes()
        figures["start_x"] = mlflow.started_in / falaj.started_in
        figures["start_s"] = falaj.started_in
        clients = {server.name: client_figures(server, seconds) for server in servers}
        for kind in ("batch", "single"):
            compare(figures, f"client_{kind}", {name: told[kind] for name, told in clients.items()})
        figures |= lightning_slowdown(falaj, 2 if seconds < 3 else 8)
    fill_mlflow(f"sqlite:///{folder}/mlflow.db", runs)
    fill_falaj(f"sqlite:///{folder}/falaj/falaj.db", runs)
    with ExitStack() as stack:
        servers = [
            stack.enter_context(mlflow_server(folder / "mlflow", f"sqlite:///{folder}/mlflow.db", workers)),
            stack.enter_context(falaj_server(folder / "falaj", "")),
        ]
        compare(figures, "search", in_turns(servers, searches_per_second, seconds))
    return figures


def measure_postgres(folder: Path, seconds: float, runs: int, workers: int) -> dict[str, float]:
    """The same two servers on one Postgres, as durable as it comes."""
    figures: dict[str, float] = {}
    postgres = PostgresServer(settings=DURABLE)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, postgres.folder, ignore_errors=True)
        stack.callback(postgres.stop)
        postgres.start()
        ours, theirs = postgres.create_database(), postgres.create_database().replace("+psycopg", "+psycopg2")
        with mlflow_server(folder / "mlflow-pg", theirs, workers) as mlflow, falaj_server(folder / "falaj-pg", ours) as falaj:
            compare(figures, "pg_batch", in_turns([mlflow, falaj], batches_per_second, seconds), 1000)
        fill_mlflow(theirs.replace("+psycopg2", "+psycopg"), runs)
        fill_falaj(ours, runs)
        with mlflow_server(folder / "mlflow-pg", theirs, workers) as mlflow, falaj_server(folder / "falaj-pg", ours) as falaj:
            compare(figures, "pg_search", in_turns([mlflow, falaj], searches_per_second, seconds))
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="a first look: 2 s a figure and 5,000 runs")
    parser.add_argument("--workers", type=int, default=1, help="workers of mlflow server; on two cores more are not faster")
    parser.add_argument("--only", choices=("sqlite", "postgres"), default="")
    given = parser.parse_args()
    seconds, runs = (2.0, 5_000) if given.quick else (6.0, 30_000)
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        if given.only != "postgres":
            figures |= measure_sqlite(Path(folder), seconds, runs, given.workers)
            print(json.dumps(figures), file=sys.stderr, flush=True)
        if given.only != "sqlite":
            figures |= measure_postgres(Path(folder), seconds, runs, given.workers)
    print(json.dumps({name: round(figure, 3) for name, figure in figures.items()}))


if __name__ == "__main__":
    main()
