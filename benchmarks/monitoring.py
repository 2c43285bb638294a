"""Monitoring against Evidently and the limit: `make bench-monitoring`. The last line is JSON.

`--only drift,taps` measures some parts; `--scale 0.1` tries them on fewer rows, windows and rounds. Each program is a process
of its own, and those that are held against each other take turns. Evidently 0.7 has an environment of its own below `.bench`,
with pandas 2. Parts:

drift   rows_per_s_x    a drift verdict on 1,000,000 rows of 100 features against as many, from Parquet files: how many rows a
                        second, over Evidently's; at least 20
        memory_x        the most memory of Evidently's process over that of ours; at least 20
        limit_x         our time over DuckDB's for histograms of both files, by bins that it is given; at most 3
taps    tap_overhead_pct   by how many hundredths an endpoint answers fewer calls with all taps on; at most 5
alarms  false_alarms_per_100_windows        of 100 features that do not change, 200 or 1,000 rows a window, as shipped; at
                                            most 1
        peer_false_alarms_per_100_windows   Evidently's on the same rows, 200 a window: in how many it calls any feature drifted
delay   delay_x         rows until a shift by 0.2 standard deviations is called, Evidently's over ours, where each really gives
                        one false alarm in 1,000 windows of 200 rows of 100 features, and Evidently has windows of the size
                        that suits it best; at least 1
"""

import argparse
import json
import math
import os
import secrets
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from monitoring_data import FEATURES
from monitoring_taps import taps

HERE: Final = Path(__file__).parent
PEER: Final = ("evidently==0.7.21", "pandas==2.3.3")
ROWS: Final = 1_000_000
ROUNDS: Final = 5
WINDOW, LARGE_WINDOW = 200, 1000  # rows
STREAMS, WINDOWS, PEER_WINDOWS = 10, 100, 20
SHIFT, ONE_IN, TRIALS = 0.2, 1000, 300
TAP_SECONDS, TAP_ROUNDS = 5.0, 15
_PATIENCE: Final = 3600
Figures = dict[str, float]
GOALS: Final[dict[str, tuple[float, float]]] = {  # between what each should be
    "rows_per_s_x": (20, math.inf),
    "memory_x": (20, math.inf),
    "limit_x": (0, 3),
    "tap_overhead_pct": (-math.inf, 5),
    "false_alarms_per_100_windows": (0, 1),
    "delay_x": (1, math.inf),
}


def drift(folder: Path, scale: float) -> Figures:
    python, rows = peer_python(), max(2000, round(ROWS * scale))
    program("monitoring_data.py", "files", folder, rows)
    theirs = program("monitoring_evidently.py", "check", folder, python=python)
    rounds = [(program("monitoring_check.py", folder), program("monitoring_limit.py", folder)) for _ in range(ROUNDS)]
    seconds, peak = (statistics.median(ours[name] for ours, _ in rounds) for name in ("seconds", "peak_mb"))
    if {theirs["columns"], *(one["columns"] for pair in rounds for one in pair)} != {FEATURES}:
        raise SystemExit(f"Not all looked at {FEATURES} columns: {theirs}, {rounds}")
    return {
        "rows_per_s_x": theirs["seconds"] / seconds,
        "memory_x": theirs["peak_mb"] / peak,
        "limit_x": statistics.median(ours["seconds"] / limit["seconds"] for ours, limit in rounds),
        "rows_per_processor_s_x": theirs["processor_s"] / statistics.median(ours["processor_s"] for ours, _ in rounds),
        "limit_processor_x": statistics.median(ours["processor_s"] / limit["processor_s"] for ours, limit in rounds),
        "rows": rows,
        "check_s": seconds,
        "peer_check_s": theirs["seconds"],
        "limit_s": statistics.median(limit["seconds"] for _, limit in rounds),
        "check_mb": peak,
        "peer_check_mb": theirs["peak_mb"],
        "limit_mb": statistics.median(limit["peak_mb"] for _, limit in rounds),
    }


def watching(_folder: Path, scale: float) -> Figures:
    return taps(max(2.0, TAP_SECONDS * min(1.0, scale * 2)), max(2, round(TAP_ROUNDS * scale)))


def alarms(folder: Path, scale: float) -> Figures:
    """One stream after the other. Evidently takes seconds for a window, and sees the first ones of the first stream."""
    windows, streams, most = (
        max(least, round(many * scale)) for least, many in ((10, WINDOWS), (1, STREAMS), (2, PEER_WINDOWS))
    )
    ours, peers = [], {}
    for number, rows in enumerate((LARGE_WINDOW, *[WINDOW] * streams)):
        program("monitoring_data.py", "stream", folder, secrets.randbits(32), windows, rows)
        ours.append(program("monitoring_streams.py", "alarms", folder))
        if number < 2:
            peers[rows] = program("monitoring_evidently.py", "alarms", folder, most, python=peer_python())
    total = sum(one["windows"] for one in ours)
    small, large = peers[WINDOW], peers[LARGE_WINDOW]
    return {
        "false_alarms_per_100_windows": 100 * sum(one["alarms"] for one in ours) / total,
        "false_alarms_without_floor_per_100_windows": 100 * sum(one["without_floor"] for one in ours) / total,
        "peer_false_alarms_per_100_windows": 100 * small["alarms"] / small["windows"],
        f"peer_false_alarms_of_{LARGE_WINDOW}_rows_per_100_windows": 100 * large["alarms"] / large["windows"],
        "peer_half_of_all_per_100_windows": 100 * small["whole"] / small["windows"],
        "windows": total,
        "peer_windows": small["windows"],
    }


def delay(_folder: Path, scale: float) -> Figures:
    given = (SHIFT, ONE_IN, WINDOW, FEATURES, max(20, round(TRIALS * scale)), secrets.randbits(32))
    ours = program("monitoring_streams.py", "delay", *given)
    theirs = program("monitoring_evidently.py", "delay", *given, python=peer_python())["rows"]
    best = min(theirs, key=lambda size: float(theirs[size]))
    return {
        "delay_x": theirs[best] / ours["equal"],
        "delay_same_windows_x": theirs[str(WINDOW)] / ours["equal"],
        "delay_shipped_x": theirs[best] / ours["shipped"],
        "delay_rows": ours["equal"],
        "delay_shipped_rows": ours["shipped"],
        "peer_delay_rows": theirs[best],
        "peer_delay_window_rows": float(best),
        "peer_delay_same_windows_rows": theirs[str(WINDOW)],
    }


PARTS: Final[dict[str, Callable[[Path, float], Figures]]] = {
    "drift": drift,
    "taps": watching,
    "alarms": alarms,
    "delay": delay,
}


def program(*command: object, python: Path = Path(sys.executable)) -> dict[str, Any]:
    """What its last line says."""
    words = [str(python), str(HERE / str(command[0])), *map(str, command[1:])]
    variables = os.environ | {"PYTHONPATH": str(HERE.parent), "DO_NOT_TRACK": "1"}
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, env=variables, timeout=_PATIENCE, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(f"{' '.join(Path(word).name for word in words[1:3])}: {json.dumps(found)}", file=sys.stderr, flush=True)
    return found


def peer_python() -> Path:
    """Evidently's own environment, made on first use. The stamp says what it was made from."""
    venv = HERE.parent / ".bench" / "monitoring"
    stamp = venv / "ready"
    if not stamp.exists() or stamp.read_text() != " ".join(PEER):
        print(f"making {venv} with {PEER[0]} (some minutes, once)", file=sys.stderr, flush=True)
        pip = [str(venv / "bin" / "pip"), "install", "-q", "--disable-pip-version-check"]
        for step in ([sys.executable, "-m", "venv", str(venv)], [*pip, *PEER]):
            made = subprocess.run(step, capture_output=True, text=True, check=False)
            if made.returncode:
                said = made.stderr.strip().splitlines() or ["nothing"]
                raise SystemExit(f"bench-monitoring: {PEER[0]} cannot be installed here: {said[-1]}")
        stamp.write_text(" ".join(PEER))
    return venv / "bin" / "python"


def told(figures: Figures) -> None:
    for name, figure in figures.items():
        least, most = GOALS.get(name, (-math.inf, math.inf))
        judged = "" if name not in GOALS else "as it should be" if least <= figure <= most else "OUT OF BOUNDS"
        print(f"{name:52} {figure:14,.2f}   {judged}")
    print(json.dumps({name: round(figure, 3) for name, figure in figures.items()}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(PARTS), help="which parts, with commas between")
    parser.add_argument("--scale", type=float, default=1.0, help="of all numbers of rows, windows and rounds")
    arguments = parser.parse_args()
    parts = arguments.only.split(",")
    if unknown := [part for part in parts if part not in PARTS]:
        raise SystemExit(f"bench-monitoring: no such part: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    figures: Figures = {}
    for part in parts:
        folder = Path(tempfile.mkdtemp(prefix="bench-monitoring-"))
        try:
            figures |= PARTS[part](folder, arguments.scale)
        finally:
            shutil.rmtree(folder)
    told(figures)


if __name__ == "__main__":
    main()
