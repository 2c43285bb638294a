"""Two jobs of half a card each on one GPU: one tries to take 90 % of its memory and is stopped, the other is unharmed.

Run on a host with an NVIDIA card and bubblewrap, by an interpreter that has PyTorch and Falaj. The last line is JSON: how the
greedy one ended and after how long, how fast the modest one multiplied before and meanwhile.
"""

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

from falaj.base.clock import SECOND
from falaj.jobs.engines.engine import Environment, Launch, Limits, Seen
from falaj.jobs.engines.local import LocalEngine
from falaj.jobs.engines.local_orders import Site
from falaj.jobs.scheduler.values import Seat, Shape

MODEST = """
import time, torch
a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
b = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
for _ in range(20):
    a @ b
torch.cuda.synchronize()
print("ready", flush=True)
while True:
    begun = time.perf_counter()
    for _ in range(200):
        a @ b
    torch.cuda.synchronize()
    print("products_per_s", round(200 / (time.perf_counter() - begun), 1), flush=True)
    time.sleep(0.1)
"""
GREEDY = """
import time, torch
total = torch.cuda.get_device_properties(0).total_memory
kept = []
print("ready", flush=True)
for step in range(1, 91):
    kept.append(torch.empty(total // 100, dtype=torch.uint8, device="cuda").fill_(1))
    print("took", step, "%", flush=True)
    time.sleep(0.05)
time.sleep(60)
"""


def start(engine: LocalEngine, name: str, code: str) -> str:
    launch = Launch(
        attempt=f"{name}{time.time_ns()}",
        job=name,
        project="benchmark",
        name=name,
        command=("python", "-c", code),
        shape=Shape(cpu_milli=1000, memory_mib=8192, gpus=1, gpu_milli=500),
        seats=(Seat(node=engine.nodes()[0].name, cards=(0,)),),
        environment=Environment(),
        limits=Limits(seconds=300),
        variables={},
    )
    engine.start(launch)
    return launch.attempt


def seen(engine: LocalEngine, attempt: str) -> Seen:
    return next(one for one in engine.look() if one.attempt == attempt)


def log(engine: LocalEngine, attempt: str) -> str:
    return engine.log(attempt, 0, 1 << 20)[0].decode(errors="replace")


def wait(engine: LocalEngine, attempt: str, word: str, seconds: int = 120) -> None:
    deadline = time.monotonic() + seconds
    while word not in log(engine, attempt):
        one = seen(engine, attempt)
        if one.state == "ended" or time.monotonic() > deadline:
            sys.exit(f"{attempt} did not say {word!r}: {one}\n{log(engine, attempt)}")
        time.sleep(0.1)


def speeds(text: str) -> list[float]:
    return [float(line.split()[1]) for line in text.splitlines() if line.startswith("products_per_s")]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        engine = LocalEngine(Path(folder) / "jobs", Site(zone="here"))
        (node,) = engine.nodes()
        print(f"{node.name}: {', '.join(node.cards) or 'no card'}; parts by {', '.join(node.sharing)}")
        modest = start(engine, "modest", MODEST)
        wait(engine, modest, "products_per_s")
        time.sleep(5)
        alone = len(log(engine, modest))
        greedy = start(engine, "greedy", GREEDY)
        wait(engine, greedy, "ready")
        begun = time.monotonic()
        while seen(engine, greedy).state != "ended" and time.monotonic() < begun + 90:
            time.sleep(0.1)
        ended, after = seen(engine, greedy), time.monotonic() - begun
        meanwhile = speeds(log(engine, modest)[alone:])
        time.sleep(3)
        unharmed = seen(engine, modest).state == "running"
        taken = [line for line in log(engine, greedy).splitlines() if line.startswith("took")]
        print(log(engine, greedy)[-2000:])
        for attempt in (modest, greedy):
            engine.stop(attempt, SECOND)
        while any(one.state != "ended" for one in engine.look()):
            time.sleep(0.1)
        figures = {
            "card": node.cards[0] if node.cards else "",
            "sharing": list(node.sharing),
            "greedy_cause": ended.cause,
            "greedy_code": ended.code,
            "greedy_words": ended.words,
            "greedy_took": taken[-1] if taken else "",
            "stopped_after_s": round(after, 2),
            "modest_unharmed": unharmed,
            "modest_alone_products_per_s": statistics.median(speeds(log(engine, modest)[:alone])),
            "modest_meanwhile_products_per_s": statistics.median(meanwhile) if meanwhile else None,
            "modest_gpu_seconds": seen(engine, modest).used.gpu_seconds,
            "modest_gpu_busy_seconds": seen(engine, modest).used.gpu_busy_seconds,
            "modest_energy_joules": seen(engine, modest).used.energy_joules,
        }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
