"""Datasets and features against their peers and limits: `make bench-features`. The last line is JSON.

`--only pit,peak` measures some parts; `--scale 0.01` tries them on fewer rows. Each program is a process of its own, as a data
worker is, and they take turns, so that a noisy moment hits all of them. Parts:

pit   pit_limit_x   a bitemporal join of 1,000,000 labels and 3 views of 1,000,000 sealed rows, against hand-written DuckDB over
                    plain Parquet: every value must be the same; at most 1.6
      pit_feast_x   Feast against Falaj, at least 25. Feast has no knowledge time: what it leaks is counted
peak  pit_peak_gib  the most memory for 1,000,000 labels against 10,000,000 rows; at most 3
loader loader_x     rows/s into tensors from 1,000,000 sealed rows, against a plain PyTorch DataLoader with 2 processes over the
                    same Parquet; at least 5. loader_batched_x: against one written by hand for whole row groups
online online_get_us       10 features of one entity, in process, sealed, from LMDB; at most 40
      online_feast_x       Feast's SQLite online store asked for the same, against that; at least 20
http  online_http_p99_ms   10 features of 100 entities by REST, 32 clients at a time, each call on record
import import_mb_s         CSV, of 5,000,000 rows, into a sealed version of a platform as it ships: profiled, digested, recorded
      import_limit_x       the same against DuckDB from CSV to plain Parquet with as many threads; at most 1.6
      commit_ms            100 rows appended as a version of their own: three calls over HTTP, median
"""

import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow.parquet as pq
from soak import Platform

HERE: Final = Path(__file__).parent
FEAST: Final = "feast==0.67.0"
KEYS: Final = ("driver", "customer", "merchant")
ROUNDS: Final = 5
LOADER_ROUNDS: Final = 3
IMPORT_ROUNDS: Final = 3
ENTITIES: Final = 10_000
_PATIENCE: Final = 1800
Figures = dict[str, float]
GOALS: Final[dict[str, tuple[float, float]]] = {  # between what each should be
    "pit_limit_x": (0, 1.6),
    "pit_feast_x": (25, math.inf),
    "pit_peak_gib": (0, 3),
    "loader_x": (5, math.inf),
    "online_get_us": (0, 40),
    "online_feast_x": (20, math.inf),
    "import_limit_x": (0, 1.6),
}


def point_in_time(folder: Path, scale: float) -> Figures:
    made(folder, labels=int(1_000_000 * scale), rows=int(1_000_000 * scale), keys=KEYS)
    ours, limits = [], []
    for _ in range(ROUNDS):
        ours.append(program("features_pit.py", "falaj", folder, *KEYS)["seconds"])
        limits.append(program("features_pit.py", "limit", folder, *KEYS)["seconds"])
    must_agree(folder)
    feast = program("features_feast.py", folder, *KEYS, python=feast_python())
    program("features_pit.py", "careless", folder, *KEYS)
    seconds = statistics.median(ours)
    return {
        "pit_limit_x": statistics.median(one / other for one, other in zip(ours, limits, strict=True)),
        "pit_feast_x": feast["seconds"] / seconds,
        "pit_s": seconds,
        "pit_limit_s": statistics.median(limits),
        "pit_feast_s": feast["seconds"],
        **beside_feast(folder),
    }


def peak(folder: Path, scale: float) -> Figures:
    made(folder, labels=int(1_000_000 * scale), rows=int(10_000_000 * scale), keys=KEYS[:1])
    found = program("features_pit.py", "falaj", folder, *KEYS[:1])
    program("features_pit.py", "limit", folder, *KEYS[:1])
    must_agree(folder)
    return {"pit_peak_gib": found["peak_gib"], "pit_peak_s": found["seconds"]}


def loader(folder: Path, scale: float) -> Figures:
    python = torch_python()
    program("features_loader.py", "make", folder, int(1_000_000 * scale), python=python)
    rounds = []
    for _ in range(LOADER_ROUNDS):
        told = {who: program("features_loader.py", who, folder, python=python) for who in ("falaj", "plain", "batched")}
        if len({(one["rows"], one["sum"]) for one in told.values()}) > 1:
            raise SystemExit(f"The loaders gave different rows: {told}")
        rounds.append({who: one["rows_s"] for who, one in told.items()})
    return {
        "loader_x": statistics.median(one["falaj"] / one["plain"] for one in rounds),
        "loader_batched_x": statistics.median(one["falaj"] / one["batched"] for one in rounds),
        "loader_rows_s": statistics.median(one["falaj"] for one in rounds),
    }


def online(folder: Path, scale: float) -> Figures:
    entities = max(1, int(ENTITIES * scale))
    ours = program("features_online.py", folder, entities)["online_get_us"]
    feast = program("features_feast_online.py", folder, entities, python=feast_python())["us"]
    return {"online_get_us": ours, "online_feast_x": feast / ours, "online_feast_us": feast}


def over_http(folder: Path, scale: float) -> Figures:
    with platform(folder):
        return program("features_served.py", folder, max(100, int(ENTITIES * scale)))


def importing(folder: Path, scale: float) -> Figures:
    """The platform's workers are started by a first import, which is not counted."""
    made = program("features_import.py", "make", folder, int(5_000_000 * scale))
    with platform(folder):
        rounds = []
        for number in range(IMPORT_ROUNDS + 1):
            ours, limit = (program("features_import.py", who, folder)["seconds"] for who in ("falaj", "limit"))
            rounds += [(ours, limit)] if number else []
        if not program("features_import.py", "compare", folder)["same"]:
            raise SystemExit("Falaj and the limit hold different rows.")
        appended = program("features_import.py", "append", folder)
    return {
        "import_mb_s": made["mb"] / statistics.median(ours for ours, _ in rounds),
        "import_limit_x": statistics.median(ours / limit for ours, limit in rounds),
        "import_limit_mb_s": made["mb"] / statistics.median(limit for _, limit in rounds),
        "commit_ms": appended["commit_ms"],
    }


@contextmanager
def platform(folder: Path) -> Iterator[None]:
    """As it ships, with a project, and the home in this folder."""
    running = Platform(folder)
    running.start()
    try:
        if running.falaj("project", "create", "bench", "--zone", "home"):
            raise SystemExit("The platform made no project.")
        yield
    finally:
        running.stop()


PARTS: Final[dict[str, Callable[[Path, float], Figures]]] = {
    "pit": point_in_time,
    "peak": peak,
    "loader": loader,
    "online": online,
    "http": over_http,
    "import": importing,
}


def made(folder: Path, *, labels: int, rows: int, keys: Sequence[str]) -> None:
    program("features_data.py", folder, labels, rows, *keys)


def program(*command: object, python: Path = Path(sys.executable)) -> dict[str, Any]:
    """What its last line says."""
    words = [str(python), str(HERE / str(command[0])), *map(str, command[1:])]
    variables = os.environ | {"PYTHONPATH": str(HERE.parent)}
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, env=variables, timeout=_PATIENCE, check=True)
    lines = done.stdout.splitlines()
    found: dict[str, Any] = json.loads(lines[-1]) if lines else {}
    print(f"{' '.join(Path(word).name for word in words[1:3])}: {lines[-1] if lines else 'done'}", flush=True)
    return found


def must_agree(folder: Path) -> None:
    """Row by row and bit by bit."""
    ours, limit = pq.read_table(folder / "falaj.result.parquet"), pq.read_table(folder / "limit.result.parquet")
    if not ours.equals(limit.cast(ours.schema)):
        differing = [
            name
            for name in ours.column_names
            if not ours.column(name).equals(limit.column(name).cast(ours.schema.field(name).type))
        ]
        raise SystemExit(f"Falaj and the limit differ in {differing}")


def beside_feast(folder: Path) -> Figures:
    """How many labels it has other values for, and how many of those are explained by what was not yet known."""
    ours, careless, feast = (values(folder / f"{who}.result.parquet") for who in ("falaj", "careless", "feast"))
    known = np.isin(ours["id"], feast["id"])
    places = np.searchsorted(ours["id"], feast["id"])
    differ, unexplained = (np.zeros(len(places), np.bool_) for _ in range(2))
    for name in (name for name in ours if name != "id"):
        differ |= different(ours[name][places], feast[name])
        unexplained |= different(careless[name][places], feast[name])
    return {
        "feast_lost_rows": float((~known).sum()),
        "feast_leaked_rows": float((differ & ~unexplained).sum()),
        "feast_other_rows": float(unexplained.sum()),
    }


def different(one: Any, other: Any) -> Any:
    return ~((one == other) | (np.isnan(one) & np.isnan(other)))


def values(file: Path) -> dict[str, Any]:
    """Features as floats by label, nulls as NaN."""
    table = pq.read_table(file).sort_by("id")
    names = [name for name in table.column_names if name == "id" or name.startswith(tuple(f"{key}_" for key in KEYS))]
    return {name: table.column(name).to_numpy().astype(np.int64 if name == "id" else np.float64) for name in names}


def feast_python() -> Path:
    """Feast's own environment, made on first use."""
    venv = HERE.parent / ".bench" / "features"
    if not (venv / "ready").exists():
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        subprocess.run([venv / "bin/pip", "install", "-q", FEAST], check=True, stderr=subprocess.DEVNULL)
        (venv / "ready").touch()
    return venv / "bin/python"


def torch_python() -> Path:
    """The environment of the stock clients, which has torch and pyarrow."""
    subprocess.run([HERE.parent / "scripts" / "make_client_venvs.sh", "mlflow3"], check=True)
    return Path(os.environ.get("FALAJ_CLIENTS", HERE.parent / ".clients")) / "mlflow3" / "bin" / "python"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(PARTS), help="which parts, with commas between")
    parser.add_argument("--scale", type=float, default=1.0, help="of all numbers of rows")
    arguments = parser.parse_args()
    figures: Figures = {}
    for part in arguments.only.split(","):
        folder = Path(tempfile.mkdtemp(prefix="falaj-bench-"))
        try:
            figures |= PARTS[part](folder, arguments.scale)
        finally:
            shutil.rmtree(folder)
    for name, figure in figures.items():
        least, most = GOALS.get(name, (-math.inf, math.inf))
        judged = "" if name not in GOALS else "as it should be" if least <= figure <= most else "OUT OF BOUNDS"
        print(f"{name:24} {figure:12.2f}   {judged}")
    print(json.dumps({name: round(figure, 3) for name, figure in figures.items()}))


if __name__ == "__main__":
    main()
