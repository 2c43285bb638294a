"""Pipelines against DBOS and Prefect: `make bench-lifecycle`. The last line is JSON.

`--only steps,resume` measures some parts; `--scale 0.1` tries them with fewer runs and rounds. The platform is `falaj up` in a
process and a home of its own, as shipped; DBOS and Prefect have environments of their own below `.bench`. All of it lies on the
same disk. Those that are held against each other take turns; the median of the turns counts. Parts:

steps   steps_per_s     steps that do nothing, 50 runs of 20 at once, on SQLite: from the first start until the last is on disk
        dbos_x          over bare DBOS on SQLite, in whichever of its ways is quickest just then; at least 0.9
        prefect_x       over Prefect 3 with its local server, likewise; at least 10
        operation_steps_per_s   where each step is an operation that changes something, in a transaction of its own with
                        its leaf; `read_steps_per_s` where it is one that reads
resume  resume_s        from the start of the process after a kill -9 until a step goes on; at most 5
cached  cached_rerun_s  `falaj pipeline run` of three functions a second time, where nothing changed; at most 10
demo    demo_main_s     `falaj demo flights`, its main part, on a platform of its own; at most 180
"""

import argparse
import json
import math
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import lifecycle_runs as own

HERE: Final = Path(__file__).parent
PEERS: Final = {  # the newest Prefect that can be installed from PyPI; it does not start with the newest FastAPI
    "dbos": ("dbos==3.4.0",),
    "prefect": ("prefect==3.8.8", "fastapi==0.150.0"),
}
RUNS, STEPS, CHAIN = 50, 20, 200
PEER_RUNS, PEER_CHAIN = 5, 50  # of Prefect, which takes longer
ROUNDS, KILLS = 3, 5
_PATIENCE: Final = 3600
Figures = dict[str, float]
GOALS: Final[dict[str, tuple[float, float]]] = {  # between what each should be
    "dbos_x": (0.9, math.inf),
    "prefect_x": (10, math.inf),
    "resume_s": (0, 5),
    "demo_main_s": (0, 180),
    "cached_rerun_s": (0, 10),
}


def steps(folder: Path, scale: float) -> Figures:
    runs, chain = max(2, round(RUNS * scale)), max(10, round(CHAIN * scale))
    rounds = [
        one_round(folder / str(number), runs, chain, scale) for number in range(max(1, round(ROUNDS * min(1, scale * 2))))
    ]

    def median(of: Callable[[Mapping[str, Figures]], float]) -> float:
        return statistics.median(of(one) for one in rounds)

    return {
        "steps_per_s": median(lambda one: one["falaj"]["many"]),
        "dbos_steps_per_s": median(lambda one: one["dbos"]["best"]),
        "prefect_steps_per_s": median(lambda one: one["prefect"]["best"]),
        "dbos_x": median(lambda one: one["falaj"]["many"] / one["dbos"]["best"]),
        "prefect_x": median(lambda one: one["falaj"]["many"] / one["prefect"]["best"]),
        "chain_steps_per_s": median(lambda one: one["falaj"]["chain"]),
        "chain_dbos_x": median(lambda one: one["falaj"]["chain"] / one["dbos"]["chain"]),
        "chain_prefect_x": median(lambda one: one["falaj"]["chain"] / one["prefect"]["chain"]),
        "operation_steps_per_s": median(lambda one: one["falaj"]["changes"]),
        "operation_dbos_x": median(lambda one: one["falaj"]["changes"] / one["dbos"]["best"]),
        "operation_prefect_x": median(lambda one: one["falaj"]["changes"] / one["prefect"]["best"]),
        "read_steps_per_s": median(lambda one: one["falaj"]["reads"]),
    }


def one_round(folder: Path, runs: int, chain: int, scale: float) -> dict[str, Figures]:
    folder.mkdir()
    found = {"falaj": own.steps_per_s(folder / "falaj", runs, STEPS, chain)}
    dbos = [program("dbos", "lifecycle_dbos.py", folder, journal, runs, STEPS, chain) for journal in ("wal", "delete")]
    found["dbos"] = quickest(*dbos)
    with prefect_server(folder) as variables:
        few, peer_chain = max(2, round(PEER_RUNS * scale)), max(5, round(PEER_CHAIN * scale))
        found["prefect"] = quickest(program("prefect", "lifecycle_prefect.py", few, STEPS, peer_chain, variables=variables))
    print(json.dumps(found), file=sys.stderr, flush=True)
    return found


def quickest(*said: Mapping[str, Any]) -> Figures:
    """Of all the ways that a peer has, and of a chain alone."""
    rates = [figure for one in said for figure in one.values() if isinstance(figure, float)]
    return {"best": max(rates), "chain": max(one["chain"] for one in said)}


def resume(folder: Path, scale: float) -> Figures:
    return own.resumed(folder / "resume", max(1, round(KILLS * min(1, scale))))


def cached(folder: Path, _scale: float) -> Figures:
    return own.rerun(folder / "cached")


def demo(_folder: Path, _scale: float) -> Figures:
    return own.demo()


PARTS: Final[dict[str, Callable[[Path, float], Figures]]] = {"steps": steps, "resume": resume, "cached": cached, "demo": demo}


# The peers


def program(peer: str, *command: object, variables: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """What its last line says."""
    words = [str(peer_python(peer)), str(HERE / str(command[0])), *map(str, command[1:])]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, env=dict(variables), timeout=_PATIENCE, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(f"{peer}: {json.dumps(found)}", file=sys.stderr, flush=True)
    return found


@contextmanager
def prefect_server(folder: Path) -> Iterator[dict[str, str]]:
    """As it ships, with a database (SQLite) of its own: what a client of it needs in its environment. Results are kept, as
    those of durable steps have to be, and nothing is printed."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    told = {
        "PREFECT_HOME": str(folder / "prefect"),
        "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",
        "PREFECT_RESULTS_PERSIST_BY_DEFAULT": "true",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_LOGGING_LEVEL": "ERROR",
        "DO_NOT_TRACK": "1",
    }
    variables = {name: text for name, text in os.environ.items() if not name.startswith("PREFECT_")} | told
    words = [
        str(peer_python("prefect")),
        "-m",
        "prefect",
        "server",
        "start",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--no-ui",
    ]
    with (folder / "prefect.log").open("wb") as output:
        server = subprocess.Popen(words, env=variables, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        wait_for_prefect(server, f"{told['PREFECT_API_URL']}/health", folder / "prefect.log")
        yield variables
    finally:
        end(server)


def wait_for_prefect(server: "subprocess.Popen[bytes]", url: str, log: Path, seconds: float = 180.0) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            if server.poll() is not None or time.monotonic() > deadline:
                said = log.read_text(errors="replace").strip().splitlines() or ["nothing"]
                raise SystemExit(f"bench-lifecycle: Prefect's server did not start: {said[-1]}") from None
            time.sleep(0.1)


def end(server: "subprocess.Popen[bytes]") -> None:
    server.terminate()
    try:
        server.wait(30)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def peer_python(peer: str) -> Path:
    """The peer's own environment, made on first use. The stamp says what it was made from."""
    venv, packages = HERE.parent / ".bench" / f"lifecycle-{peer}", PEERS[peer]
    stamp = venv / "ready"
    if not stamp.exists() or stamp.read_text() != " ".join(packages):
        print(f"making {venv} with {packages[0]} (a minute or two, once)", file=sys.stderr, flush=True)
        pip = [str(venv / "bin" / "pip"), "install", "-q", "--disable-pip-version-check"]
        for step in ([sys.executable, "-m", "venv", str(venv)], [*pip, *packages]):
            made = subprocess.run(step, capture_output=True, text=True, check=False)
            if made.returncode:
                said = made.stderr.strip().splitlines() or ["nothing"]
                raise SystemExit(f"bench-lifecycle: {packages[0]} cannot be installed here: {said[-1]}")
        stamp.write_text(" ".join(packages))
    return venv / "bin" / "python"


def told(figures: Figures) -> None:
    for name, figure in figures.items():
        least, most = GOALS.get(name, (-math.inf, math.inf))
        judged = "" if name not in GOALS else "as it should be" if least <= figure <= most else "OUT OF BOUNDS"
        print(f"{name:28} {figure:12,.2f}   {judged}")
    print(json.dumps({name: round(figure, 3) for name, figure in figures.items()}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(PARTS), help="which parts, with commas between")
    parser.add_argument("--scale", type=float, default=1.0, help="of all numbers of runs, steps and rounds")
    arguments = parser.parse_args()
    parts = arguments.only.split(",")
    if unknown := [part for part in parts if part not in PARTS]:
        raise SystemExit(f"bench-lifecycle: no such part: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    figures: Figures = {}
    for part in parts:
        folder = Path(tempfile.mkdtemp(prefix="bench-lifecycle-"))
        try:
            figures |= PARTS[part](folder, arguments.scale)
        finally:
            shutil.rmtree(folder)
    told(figures)


if __name__ == "__main__":
    main()
