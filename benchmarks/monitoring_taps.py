"""What watching costs where predictions are made: one platform as shipped, and the same model behind two endpoints.

Nothing looks at the answers of the one; the other has a monitor as it ships, and one call in a hundred logged. Both are
loaded in turns, server and client on one core each, so that a noisy moment hits both.
"""

import re
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import httpx
import serving
from serving_peers.generators import Generators, Load, least_disturbed, prepare_tools
from serving_peers.peer_table import BENCH, Running
from serving_peers.request_files import JSON, Questions, read_questions

from falaj.monitoring.operations.monitors import APPLY_MONITOR, SHOW_MONITOR, ApplyMonitor, OneMonitor

PLAIN, WATCHED = "plain", "watched"
_TAP: Final = "WatchTap"
_PATIENCE: Final = 600.0  # seconds, for what is learnt from traffic
Pairs = list[tuple[Load, Load]]


def taps(seconds: float, rounds: int) -> dict[str, float]:
    BENCH.mkdir(parents=True, exist_ok=True)
    program, data = prepare_tools(BENCH), serving.prepare_models()
    with tempfile.TemporaryDirectory(prefix="bench-monitoring-") as name:
        folder, rows = Path(name), read_questions(data, "tabular")
        generators = Generators(program=program, answers=folder / "answers")
        bench = serving.Bench(generators=generators, folder=folder, seconds=seconds, tries=1, tabular=rows, vision=rows)
        with serving.falaj(folder / "falaj") as server:
            return measured(bench, server, rows, rounds)


def measured(bench: serving.Bench, server: serving.Falaj, rows: Questions, rounds: int) -> dict[str, float]:
    """Bins are chosen from the first windows of traffic, and filled by the next ones: what that costs is told apart."""
    server.register("rows", [rows.file.read_bytes()])
    server.deploy(PLAIN, "rows", logged=0)
    server.deploy(WATCHED, "rows")
    running = server.running()
    files = {
        name: bench.requests(running, JSON, rows, server.targets(name)).rename(bench.folder / name) for name in (PLAIN, WATCHED)
    }
    server.client.call(APPLY_MONITOR, ApplyMonitor(project=serving.PROJECT, endpoint=WATCHED))
    learning = pairs(bench, running, files, max(1, rounds // 3))
    wait_until_learnt(bench, server, running, files[WATCHED])
    before = batches(server)
    loads = pairs(bench, running, files, rounds)
    seen, missed = (after - sooner for after, sooner in zip(batches(server), before, strict=True))
    if not seen:
        raise RuntimeError("nothing was watched")
    return {
        "tap_overhead_pct": overhead(loads),
        "tap_overhead_cpu_pct": overhead_per_core(loads),
        "tap_learning_pct": overhead(learning),
        "tap_missed_pct": 100 * missed / (seen + missed),
        "tap_plain_rps": statistics.median(plain.rate for plain, _ in loads),
    }


def pairs(bench: serving.Bench, running: Running, files: Mapping[str, Path], rounds: int) -> Pairs:
    """Whichever came second in one round comes first in the next."""
    found: Pairs = []
    for number in range(rounds):
        order = (PLAIN, WATCHED) if number % 2 else (WATCHED, PLAIN)
        loads = {name: loaded(bench, running, name, files[name]) for name in order}
        found.append((loads[PLAIN], loads[WATCHED]))
    return found


def loaded(bench: serving.Bench, running: Running, name: str, file: Path) -> Load:
    load = least_disturbed(
        running.family,
        lambda: bench.generators.closed(False, running.port, file, serving.CONNECTIONS, bench.seconds),
        tries=bench.tries,
    )
    if not load.clean:
        raise RuntimeError(f"{load.errors + load.non2xx} calls of {name} failed: {load.said}")
    return serving.say("falaj", name, load)


def wait_until_learnt(bench: serving.Bench, server: serving.Falaj, running: Running, file: Path) -> None:
    """Under load, which is what it is learnt from."""
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        loaded(bench, running, "learning", file)
        found = server.client.call(SHOW_MONITOR, OneMonitor(project=serving.PROJECT, endpoint=WATCHED))
        if found.watching and all(one.columns and not one.learning for one in found.watching):
            return
    raise RuntimeError(f"the monitor learns for {_PATIENCE:.0f} s: {found}")


def batches(server: serving.Falaj) -> tuple[float, float]:
    """That the tap saw, and that it was too slow for, as the plane tells it; workers tell it about once a second."""
    time.sleep(3)
    token = {"authorization": f"Bearer {server.token()}"}
    text = httpx.get(f"{server.url}/metrics", headers=token, trust_env=False).raise_for_status().text
    found = {kind: re.search(rf'falaj_plane_tap_{kind}_total{{tap="{_TAP}"}} (\S+)', text) for kind in ("seen", "missed")}
    seen, missed = (float(one[1]) if one else 0.0 for one in (found["seen"], found["missed"]))
    return seen, missed


def overhead(loads: Pairs) -> float:
    """By how many hundredths fewer are answered; the median of pairs."""
    return 100 * statistics.median(1 - watched.rate / plain.rate for plain, watched in loads)


def overhead_per_core(loads: Pairs) -> float:
    """The same per second of the server's core, whoever else used it meanwhile."""
    rates = [[one.rate / max(one.server, 0.01) for one in pair] for pair in loads]
    return 100 * statistics.median(1 - watched / plain for plain, watched in rates)


def main(arguments: Sequence[str]) -> None:
    print(taps(float(arguments[0]), int(arguments[1])))


if __name__ == "__main__":
    main(sys.argv[1:])
