"""What serving on a GPU keeps of torch's own speed, and whether answers go on when the device is lost.

python benchmarks/gpu_serving.py        needs torch and numpy beside Falaj's own files; the last line is one JSON object

Raw: the network by torch itself, eager and by `torch.compile`, as CUDA graphs replayed back to back, at its best batch size;
with its inputs on the device already, and copied there from pinned memory beside the computing, as a server must. Served: the
same network exported, loaded from bytes by `falaj.runtimes`, asked one row at a time by clients that wait for each answer,
through the batching of the serving plane. Clients are in the same process: no network, no parsing.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from gpu_networks import FILE, NETWORKS, TINY, Network
from gpu_raw import raw_on_cpu, raw_on_gpu

from falaj.base.values import value
from falaj.runtimes.engine import Array, Engine, ModelFiles, Placement
from falaj.runtimes.fallback import load_with_fallback
from falaj.runtimes.loading import load
from falaj.runtimes.tuning import tune
from falaj.serving.plane.asking import Answer, Ask, Given, Reply
from falaj.serving.plane.core.admission import Gate
from falaj.serving.plane.core.batches import SWITCH_AFTER, Batches
from falaj.serving.plane.core.counts import Counts
from falaj.serving.plane.core.inputs import Inputs
from falaj.serving.plane.core.running import Running
from falaj.serving.plane.core.runs import Face
from falaj.serving.plane.core.sizes import BatchSize
from falaj.serving.plane.shares import Shares

SIZES: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256)
OBJECTIVE: Final = 0.1  # seconds: what endpoints have unless told otherwise
DISTINCT_ROWS: Final = 256
CHECK_EVERY: Final = 16  # answers
MAY_DIFFER: Final = 0.05  # of the largest score: bfloat16, and other kernels for other batch sizes
LOSES_AFTER: Final = 2.0  # seconds
GOES_ON_FOR: Final = 14.0  # longer than the pause after which the device is tried again


# What is served


class Rows:
    """Distinct rows as clients send them, and what the network itself says to them."""

    def __init__(self, network: Network, count: int, device: str) -> None:
        torch.manual_seed(1)
        tensors = network.rows(count)
        module = network.module().to(device)
        with torch.inference_mode():
            self.expected: Array = module(*[one.to(device) for one in tensors])["scores"].cpu().numpy()
        self.may_differ = MAY_DIFFER * float(np.abs(self.expected).max())
        self.sent = [[one[row].numpy().tobytes() for one in tensors] for row in range(count)]

    def is_right(self, row: int, scores: Array) -> bool:
        return scores.shape == (1, *self.expected.shape[1:]) and bool(
            np.abs(scores[0] - self.expected[row]).max() <= self.may_differ
        )


class Promise:
    """The reply to whoever awaits it."""

    gone = False

    def __init__(self, future: "asyncio.Future[Array]") -> None:
        self._future = future

    def answer(self, answer: Answer) -> None:
        self._future.set_result(answer.arrays[0])

    def refuse(self, error: Exception) -> None:
        self._future.set_exception(error)


class Door:
    """An engine behind the plane's own batching, asked as the plane's core asks it."""

    def __init__(self, engine: Engine, rows: Rows) -> None:
        tuned = tune(engine, objective_s=OBJECTIVE)
        self.engine, self.rows, self.tuned_batch = engine, rows, tuned.batch
        self._loop = asyncio.get_running_loop()
        self._inputs = Inputs(engine.inputs, batches=engine.batches, nan="allow")
        self._gate = Gate(Shares(1 << 30).of("project"))
        self.batches = Batches(
            Face(endpoint="m", revision=1, model="m", version=1, number=1),
            engine,
            self._inputs,
            BatchSize(tuned.batch, tuned.row_s_at_batch, objective=OBJECTIVE, longest=OBJECTIVE / 2),
            counts=Counts(),
            gate=self._gate,
            running=Running(None),
            loop=self._loop,
            threaded=True,
        )
        self._inputs_as = [(spec.name, spec.datatype, (1, *spec.shape[1:])) for spec in engine.inputs]

    def submit(self, row: int, reply: Reply) -> None:
        given = [Given(*known, data) for known, data in zip(self._inputs_as, self.rows.sent[row], strict=True)]
        ask = Ask(token="", endpoint="m", given=given, reply=reply, arrived=time.monotonic())
        datas, count, tails, weight = self._inputs.check(given)
        self._gate.enter(weight)
        batches = self.batches
        batches.add((ask, None, count, datas, tails, weight))
        if not batches.scheduled:
            batches.scheduled = True
            self._loop.call_soon(self._turn)

    async def ask(self, row: int) -> Array:
        future: asyncio.Future[Array] = self._loop.create_future()
        self.submit(row, Promise(future))
        return await future

    def _turn(self) -> None:
        self.batches.scheduled = False
        self.batches.turn()


@value
class Served:
    clients: int
    rows_s: float
    p50_ms: float
    p99_ms: float
    mean_batch: float
    batches: dict[int, int]  # how often which number of rows ran together, the five that were most often
    wrong: int


class Tally:
    """What clients found between `begin` and `end`, by the monotonic clock."""

    def __init__(self, begin: float, end: float) -> None:
        self.begin, self.end = begin, end
        self.latencies: list[float] = []
        self.wrong = 0
        self.failures: list[Exception] = []


class Client:
    """Asks again as soon as it has its answer: no task and no future, as the plane's own faces have none."""

    gone = False

    def __init__(self, door: Door, tally: Tally, row: int, step: int) -> None:
        self._door, self._tally, self._row, self._step = door, tally, row, step
        self.ended = asyncio.Event()
        self._asked = 0.0

    def ask(self) -> None:
        self._row = (self._row + self._step) % len(self._door.rows.sent)
        self._asked = time.monotonic()
        self._door.submit(self._row, self)

    def answer(self, answer: Answer) -> None:
        now, tally = time.monotonic(), self._tally
        if tally.begin <= now < tally.end:
            tally.latencies.append(now - self._asked)
            if not len(tally.latencies) % CHECK_EVERY and not self._door.rows.is_right(self._row, answer.arrays[0]):
                tally.wrong += 1
        if now < tally.end:
            self.ask()
        else:
            self.ended.set()

    def refuse(self, error: Exception) -> None:
        self._tally.failures.append(error)
        self.ended.set()


async def load_from(door: Door, count: int, seconds: float, warm: float) -> Served:
    """So many clients for `warm` seconds, until the batch size is found, and then for as long as counts."""
    begin, sizes = time.monotonic() + warm, Counter[int]()
    tally = Tally(begin, begin + seconds)
    door.batches.after = lambda batch, _inputs, _outputs, now: sizes.update([len(batch)] if begin <= now < tally.end else [])
    clients = [Client(door, tally, number, count + 1) for number in range(count)]
    for client in clients:
        client.ask()
    await asyncio.gather(*[client.ended.wait() for client in clients])
    if tally.failures:
        raise tally.failures[0]
    latencies = sorted(tally.latencies)
    return Served(
        clients=count,
        rows_s=len(latencies) / seconds,
        p50_ms=1000 * quantile(latencies, 0.5),
        p99_ms=1000 * quantile(latencies, 0.99),
        mean_batch=sum(size * count for size, count in sizes.items()) / max(1, sizes.total()),
        batches=dict(sizes.most_common(5)),
        wrong=tally.wrong,
    )


def quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


# When the device is lost


@value
class Lost:
    """`longest_gap_ms` is the longest time without any answer after the loss."""

    how: str
    answered_before: int
    answered_after: int
    failed: int
    wrong: int
    longest_gap_ms: float
    device_before: str
    device_after: str


def poison() -> None:
    """An index beyond a tensor's end, asserted on the device: from then on every call to it fails in this process."""
    with suppress(RuntimeError):
        torch.arange(4, device="cuda")[torch.tensor([9], device="cuda")].cpu()


async def lose(engine: Engine, rows: Rows, how: str, *, before: float, after: float, break_it: Callable[[], object]) -> Lost:
    door = Door(engine, rows)
    started = time.monotonic()
    lost_at, end = started + before, started + before + after
    device, moments, failed, wrong = engine.device, list[float](), 0, 0

    async def client(number: int) -> None:
        nonlocal failed, wrong
        row = number
        while time.monotonic() < end:
            row = (row + 1) % len(rows.sent)
            try:
                scores = await door.ask(row)
            except Exception:  # noqa: BLE001 - whatever a client is told, it counts
                failed += 1
                await asyncio.sleep(0.01)
                continue
            moments.append(time.monotonic())
            wrong += not rows.is_right(row, scores)

    tasks = [asyncio.create_task(client(number)) for number in range(8)]
    await asyncio.sleep(before)
    await asyncio.to_thread(break_it)
    await asyncio.gather(*tasks)
    later = [lost_at, *[one for one in moments if one > lost_at]]
    return Lost(
        how=how,
        answered_before=len(moments) - len(later) + 1,
        answered_after=len(later) - 1,
        failed=failed,
        wrong=wrong,
        longest_gap_ms=1000 * max((second - first for first, second in pairwise(later)), default=after),
        device_before=device,
        device_after=engine.device,
    )


def lose_here(network: Network, file: Path, how: str) -> None:
    """In a process of its own, which is of no use afterwards."""
    files = ModelFiles(runtime="torch", main=FILE, contents={FILE: file.read_bytes()})
    places = [Placement(device="gpu", batch=16), Placement(device="cpu", threads=max(1, len(os.sched_getaffinity(0)) // 2))]
    engine = load_with_fallback(files, places)
    rows = Rows(network, 32, "cpu")
    break_it = poison if how == "assert" else bool
    lost = asyncio.run(lose(engine, rows, how, before=LOSES_AFTER, after=GOES_ON_FOR, break_it=break_it))
    print(json.dumps(document(lost)), flush=True)
    os._exit(0)  # a broken context may keep the interpreter from ending


def lose_elsewhere(name: str, files: ModelFiles, how: str, tiny: bool) -> dict[str, Any]:
    environment = {**os.environ, **({"CUDA_VISIBLE_DEVICES": ""} if how == "hidden" else {})}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, FILE)
        file.write_bytes(files.contents[FILE])
        command = [sys.executable, __file__, "--lose", how, "--only", name, "--file", str(file), *(["--tiny"] if tiny else [])]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, timeout=300, check=False)
    lines = done.stdout.strip().splitlines()
    return json.loads(lines[-1]) if done.returncode == 0 and lines else {"how": how, "ended": done.returncode}


# Together


def document(result: Any) -> dict[str, Any]:
    return {name: round(given, 2) if isinstance(given, float) else given for name, given in asdict(result).items()}


def measure(name: str, network: Network, arguments: argparse.Namespace) -> dict[str, Any]:
    gpu = torch.cuda.is_available() and not arguments.cpu
    seconds, sizes = arguments.seconds, arguments.sizes
    print(f"\n{name}: raw torch, rows/s", flush=True)
    raw = (raw_on_gpu if gpu else raw_on_cpu)(network, sizes, seconds / 10)
    for one in raw:
        rates = f"{one.rows_s:10,.0f} on the device {one.copied_rows_s:10,.0f} with copies"
        print(f"  {one.way:16} batch {one.size:4} {rates}", flush=True)
    best, best_copied = max(raw, key=lambda one: one.rows_s), max(raw, key=lambda one: one.copied_rows_s)
    rows = Rows(network, DISTINCT_ROWS, "cuda" if gpu else "cpu")
    torch._dynamo.reset()
    files = network.files()
    started = time.monotonic()
    engine = load(files, Placement(device="gpu" if gpu else "cpu", threads=arguments.threads))
    loaded = time.monotonic() - started
    served = asyncio.run(serve(engine, rows, arguments.clients, seconds))
    print(f"{name}: served, one row a request; loaded in {loaded:.0f} s", flush=True)
    told = {}
    for found in served:
        share, of_copied = found.rows_s / best.rows_s, found.rows_s / (best_copied.copied_rows_s or best.rows_s)
        told[f"clients_{found.clients}"] = {**document(found), "share": round(share, 3), "share_of_copied": round(of_copied, 3)}
        print(
            f"  {found.clients:4} clients {found.rows_s:10,.0f} rows/s: {share:.2f} of raw on the device, {of_copied:.2f} of it"
            f" with copies; p50 {found.p50_ms:.2f} ms, p99 {found.p99_ms:.2f} ms; batches {found.batches}, {found.wrong} wrong",
            flush=True,
        )
    losses = [lose_elsewhere(name, files, how, arguments.tiny) for how in arguments.losses.split(",") if how and gpu]
    for loss in losses:
        print(f"  device lost: {loss}", flush=True)
    return {
        "raw": [document(one) for one in raw],
        "best": document(best),
        "best_copied": document(best_copied),
        "load_s": round(loaded, 1),
        **told,
        "lost": losses,
    }


async def serve(engine: Engine, rows: Rows, clients: Sequence[int], seconds: float) -> list[Served]:
    door = Door(engine, rows)
    served = [await load_from(door, count, seconds, warm=seconds / 2) for count in clients]
    await door.batches.close()
    return served


def set_up_as_the_plane_does() -> str:
    """With uvloop where it is there; which loop it is."""
    sys.setswitchinterval(SWITCH_AFTER)
    try:
        import uvloop
    except ImportError:
        return "asyncio"
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    return "uvloop"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each load")
    parser.add_argument("--clients", type=int, nargs="+", default=[64, 256, 512])
    parser.add_argument("--threads", type=int, default=1, help="of the model: on a GPU they put batches together")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="of raw torch's batches")
    parser.add_argument("--only", default="resnet50,bert_base")
    parser.add_argument("--tiny", action="store_true", help="small networks, to try this program out")
    parser.add_argument("--cpu", action="store_true", help="although there is a GPU")
    parser.add_argument("--losses", default="assert,hidden", help="ways to lose the device; empty for none")
    parser.add_argument("--lose", default="", help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    networks, loop = TINY if arguments.tiny else NETWORKS, set_up_as_the_plane_does()
    if arguments.lose:
        lose_here(networks[arguments.only], arguments.file, arguments.lose)
        return
    device = torch.cuda.get_device_name() if torch.cuda.is_available() and not arguments.cpu else "cpu"
    print(f"{device}, torch {torch.__version__}, {loop}")
    told = {name: measure(name, networks[name], arguments) for name in arguments.only.split(",")}
    print(json.dumps({"device": device, "torch": torch.__version__, **told}))


if __name__ == "__main__":
    main()
