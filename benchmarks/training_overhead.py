"""What a `Session` costs beside the same bare loop, on the CPU: `python benchmarks/training_overhead.py`, where torch is.

One process trains two copies of one network on the same batches, by a bare loop and by a session with all that it does by
itself (its clock, its data's order, looking for checkpoints), in turns: some steps of one, some of the other. CPU time of the
training's thread counts, for other programs do not lengthen that; the share is the median over the pairs. The last line is
JSON.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import torch
from torch import nn

from falaj.training import Hardware, Saves, Session, Wishes
from falaj.training.checkpoints.keys import GivenKey


def loss_of(model: Any, rows: Any, wanted: Any) -> Any:
    return nn.functional.mse_loss(model(rows), wanted)


def parts(width: int) -> tuple[Any, Any, Any]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, width), nn.GELU(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, 8))
    data = torch.utils.data.TensorDataset(torch.randn(4096, 64), torch.randn(4096, 8))
    return model, torch.optim.AdamW(model.parameters(), lr=1e-3), torch.utils.data.DataLoader(data, 64, shuffle=True)


def bare(width: int) -> Iterator[None]:
    model, optimiser, loader = parts(width)
    while True:
        for rows, wanted in loader:
            loss = loss_of(model, rows, wanted)
            loss.backward()
            if not torch.isfinite(loss):
                raise ArithmeticError
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
            yield


def through_session(width: int, folder: str) -> Iterator[None]:
    model, optimiser, loader = parts(width)
    saves = Saves(folder=folder, key=GivenKey(os.urandom(32)))
    session = Session(Wishes(precision="float32"), saves=saves, hardware=Hardware(cores=len(os.sched_getaffinity(0))))
    session.prepare(model, optimiser)
    while True:
        for rows, wanted in session.batches(loader):
            session.step(loss_of, rows, wanted)
            yield


def spent(loop: Iterator[None], steps: int) -> float:
    began = time.thread_time()
    for _ in range(steps):
        next(loop)
    return time.thread_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=1536, help="of the network's layers")
    parser.add_argument("--steps", type=int, default=8, help="of one block")
    parser.add_argument("--pairs", type=int, default=150, help="blocks of each kind")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        plain, ours = bare(arguments.width), through_session(arguments.width, folder)
        spent(plain, 64), spent(ours, 64)
        pairs = []
        for number in range(arguments.pairs):
            order = (plain, ours) if number % 2 else (ours, plain)
            taken = {id(loop): spent(loop, arguments.steps) for loop in order}
            pairs.append((taken[id(plain)], taken[id(ours)]))
    shares = sorted(100 * (with_session / without - 1) for without, with_session in pairs)
    step = statistics.median(without for without, _ in pairs) / arguments.steps
    told = {
        "overhead_pct": round(statistics.median(shares), 2),
        "step_ms": round(1e3 * step, 3),
        "half_of_pairs_between": [round(shares[len(shares) // 4], 2), round(shares[3 * len(shares) // 4], 2)],
    }
    print(f"a step of {told['step_ms']} ms; half of the pairs lie between {told['half_of_pairs_between']} %")
    print(json.dumps(told))


if __name__ == "__main__":
    main()
