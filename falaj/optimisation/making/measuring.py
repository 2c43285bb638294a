"""How fast, how large and how thrifty forms of a model are on this machine: measured in a process of their own, in turn.

Whatever else runs on the machine hits all of them alike then, and ratios hold where times do not. Rows are new from run to
run: a processor that is shown the same ones learns the branches of trees by heart. `timing` has the clockwork.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np

from falaj.base.errors import FalajError
from falaj.base.values import value
from falaj.optimisation.making.running import Device
from falaj.optimisation.making.timing import Clocks, Course, Timed, limit, memory_of, timed
from falaj.optimisation.making.values import Array, CannotBeMade, Made, Sample
from falaj.statistics.intervals import Interval

WATTS: Final = 10.0  # of a busy core of a server, its share of the rest included
_MOST_ROWS: Final = 4096
_STARTS_WITHIN: Final = 120.0
_PLAN: Final = "plan.json"


@value
class Measured:
    """Latencies are of one row, in milliseconds, with what they lie between at 95 %; `batch` is the one at which most rows a
    second are answered. `memory` is what loading and running it adds to a process that has its library; `joules` are of 1,000
    predictions, and `energy` says where that figure is from; `cost` is of a million, at the price of an hour of a core and, if
    it ran on a GPU, of that. `device` says what it ran on."""

    rows_per_s: float
    batch: int
    p50_ms: float
    p50_low: float
    p50_high: float
    p99_ms: float
    p99_low: float
    p99_high: float
    size: int
    memory: int
    joules: float
    energy: str
    cost: float
    device: str


def measure(
    made: Made, sample: Sample, *, threads: int = 1, seconds: float = 2.0, price: float = 0.0, watts: float = WATTS
) -> Measured:
    return compare([made], sample, threads=threads, seconds=seconds, price=price, watts=watts)[0]


def compare(
    models: Sequence[Made],
    sample: Sample,
    *,
    threads: int = 1,
    seconds: float = 2.0,
    price: float = 0.0,
    gpu_price: float = 0.0,
    watts: float = WATTS,
    device: Device = "cpu",
    memory: Sequence[int] = (),
) -> list[Measured]:
    """In turn, in one process; each may take about `seconds`, slow ones longer. `memory` is that of the first of them, where it
    was measured before. Raises `CannotBeMade` where one of them cannot be run."""
    with TemporaryDirectory(prefix="falaj-measuring-") as name:
        folder = Path(name)
        _write(folder, models, sample.part(0, _MOST_ROWS))
        plan = _plan(models, threads, seconds, watts) | {"device": device, "memory": list(memory)}
        (folder / _PLAN).write_text(json.dumps(plan))
        command = [sys.executable, "-m", "falaj.optimisation.making.measuring", str(folder)]
        try:
            ended = subprocess.run(
                command,
                capture_output=True,
                timeout=_STARTS_WITHIN + limit(seconds) * len(models),
                check=False,
                env=_environment(),
            )
        except subprocess.TimeoutExpired as error:
            raise CannotBeMade(
                f"measuring took more than {error.timeout:.0f} seconds: the model is too slow for that"
            ) from error
    if ended.returncode:
        last = ended.stderr.decode(errors="replace").strip().splitlines()[-1:] or [f"it ended with {ended.returncode}"]
        raise CannotBeMade(f"it cannot be measured: {last[0][:500]}")
    told = json.loads(ended.stdout.splitlines()[-1])
    return [_measured(made, one, threads, price, gpu_price) for made, one in zip(models, told, strict=True)]


def _measured(made: Made, told: dict[str, Any], threads: int, price: float, gpu_price: float) -> Measured:
    of_an_hour = price * _threads(made, threads) + (gpu_price if told["device"] == "gpu" else 0.0)
    return Measured(
        rows_per_s=told["rows_per_s"],
        batch=told["batch"],
        p50_ms=told["p50"][0],
        p50_low=told["p50"][1],
        p50_high=told["p50"][2],
        p99_ms=told["p99"][0],
        p99_low=told["p99"][1],
        p99_high=told["p99"][2],
        size=made.size,
        memory=told["memory"],
        joules=told["joules"],
        energy=told["energy"],
        cost=of_an_hour * 1e6 / told["rows_per_s"] / 3600,
        device=told["device"],
    )


def _threads(made: Made, threads: int) -> int:
    return int(made.settings.get("threads", threads))


def _plan(models: Sequence[Made], threads: int, seconds: float, watts: float) -> dict[str, Any]:
    described = [
        {"runtime": made.runtime, "file": made.file, "files": list(made.files), "settings": dict(made.settings)}
        for made in models
    ]
    return {"models": described, "threads": threads, "seconds": seconds, "watts": watts}


def _environment() -> dict[str, str]:
    """As here, and the package is found wherever this one was."""
    package = str(Path(__file__).parents[3])
    paths = [package, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def _write(folder: Path, models: Sequence[Made], sample: Sample) -> None:
    for number, made in enumerate(models):
        for place, content in enumerate(made.files.values()):
            (folder / f"{number}-{place}").write_bytes(content)
    for number, one in enumerate(sample.inputs):
        texts = one.dtype.hasobject  # which numpy would pickle
        np.save(folder / f"rows{number}.npy", one.astype(np.bytes_) if texts else one, allow_pickle=False)


def _read(folder: Path, plan: dict[str, Any]) -> tuple[list[Made], Sample]:
    models = []
    for number, told in enumerate(plan["models"]):
        files = {name: (folder / f"{number}-{place}").read_bytes() for place, name in enumerate(told["files"])}
        models.append(Made(runtime=told["runtime"], file=told["file"], files=files, settings=told["settings"]))
    inputs: list[Array] = []
    while (file := folder / f"rows{len(inputs)}.npy").exists():
        one = np.load(file, allow_pickle=False)
        inputs.append(one.astype(object) if one.dtype.kind == "S" else one)
    return models, Sample(inputs=tuple(inputs))


def _told(found: Timed) -> dict[str, Any]:
    def ends(interval: Interval) -> list[float]:
        return [interval.at, interval.low, interval.high]

    figures = {"rows_per_s": found.rows_per_s, "batch": found.batch, "joules": found.joules}
    return {**figures, "energy": found.energy, "device": found.device, "p50": ends(found.p50), "p99": ends(found.p99)}


def main(folder: Path) -> int:
    """Inside the process: reads what is to be measured, and prints what was found as one line of JSON."""
    plan = json.loads((folder / _PLAN).read_text())
    models, sample = _read(folder, plan)
    try:
        threads, device, memory = plan["threads"], plan["device"], plan["memory"]
        memory += [memory_of(made, sample, threads, device) for made in models[len(memory) :]]
        courses = [Course(made, sample, threads, device) for made in models]
        alone = device == "cpu" and all(_threads(made, threads) == 1 for made in models)
        worked = time.process_time if alone else time.perf_counter
        clocks = Clocks(wall=time.perf_counter, worked=worked, busy=time.process_time)
        found = timed(courses, clocks=clocks, seconds=plan["seconds"], watts=plan["watts"])
    except FalajError as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps([{**_told(one), "memory": grown} for one, grown in zip(found, memory, strict=True)]))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
