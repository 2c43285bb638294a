"""What checkpoints cost a training: one every ten seconds, sealed and written beside it, against the same loop without.

python benchmarks/training_checkpoint.py        needs torch beside Falaj's own files; the last line is one JSON object

Blocks of as many steps with a checkpoint and without take turns: what the blocks with one take longer is what a checkpoint
costs, until its last byte is on the disk. A block begins with saving and outlasts it. Many short blocks see through the noise
of a machine better than few windows of ten seconds. A plain `torch.save` that the loop waits for is measured in the same way.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import torch

from falaj.training.checkpoints.keys import GivenKey
from falaj.training.checkpoints.saving import Checkpoints, Saved
from falaj.training.checkpoints.state import TrainingState

WIDTH: Final = 1024
LAYERS: Final = 8
ROWS: Final = 64


class Training:
    """Eight million parameters with Adam: 100 MB to save. A step takes some tens of milliseconds on two cores."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        layers = [part for _ in range(LAYERS) for part in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.GELU())]
        self.model: Any = torch.nn.Sequential(*layers)
        self.optimiser: Any = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.state = TrainingState(model=self.model, optimisers=self.optimiser)
        self._rows: Any = torch.randn(ROWS, WIDTH)

    def step(self) -> None:
        self.optimiser.zero_grad()
        self.model(self._rows).pow(2).mean().backward()
        self.optimiser.step()
        self.state.step += 1

    def block(self, steps: int, at_first: Callable[[], object]) -> float:
        """Seconds of a block that begins with `at_first`."""
        began = time.perf_counter()
        at_first()
        for _ in range(steps):
            self.step()
        return time.perf_counter() - began


def lost(training: Training, steps: int, pairs: int, save: Callable[[], object], after: Callable[[], object]) -> list[float]:
    """Seconds that a checkpoint costs, pair by pair. `after`: whatever is left to do; it falls on no block."""
    found = []
    for _ in range(pairs):
        without = training.block(steps, lambda: None)
        found.append(training.block(steps, save) - without)
        after()
    return found


def measure(folder: Path, every: float, seconds: float, pairs: int) -> dict[str, float]:
    training = Training()
    store = Checkpoints(folder / "sealed", GivenKey(os.urandom(32)))
    training.block(3, lambda: None)
    steps = max(1, round(seconds / (training.block(5, lambda: None) / 5)))
    store.save(training.state)  # the first one takes memory for its copies
    store.wait()
    copying, writing, size, late = [], [], 0, 0

    def noted() -> None:
        nonlocal size, late
        late += store.is_busy
        saved = store.wait()
        if isinstance(saved, Saved):
            copying.append(saved.copying)
            writing.append(saved.writing)
            size = sum(file.stat().st_size for file in (folder / "sealed" / saved.name).iterdir())

    def plainly() -> None:
        with (folder / "plain.pt").open("wb") as file:
            torch.save({"model": training.model.state_dict(), "optimiser": training.optimiser.state_dict()}, file)
            os.fsync(file.fileno())

    sealed = lost(training, steps, pairs, lambda: store.save(training.state), noted)
    plain = lost(training, steps, max(1, pairs // 2), plainly, lambda: None)
    if len(copying) != pairs:
        raise SystemExit(f"{pairs - len(copying)} of {pairs} checkpoints were not saved.")
    return {
        "checkpoint_stall_pct": round(100 * statistics.median(sealed) / every, 2),
        "waited_stall_pct": round(100 * statistics.median(plain) / every, 2),
        "copying_ms": round(1e3 * statistics.median(copying), 1),
        "writing_ms": round(1e3 * statistics.median(writing), 1),
        "checkpoint_mb": round(size / 1e6, 1),
        "written_late": late,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=float, default=10.0, help="seconds from one checkpoint to the next")
    parser.add_argument("--seconds", type=float, default=1.5, help="of a block; more than writing takes")
    parser.add_argument("--pairs", type=int, default=20, help="blocks with and without")
    parser.add_argument("--folder", type=Path, help="on the disk to write to; without it, where temporary files go")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        told = measure(Path(folder), arguments.every, arguments.seconds, arguments.pairs)
    print(f"a checkpoint of {told['checkpoint_mb']} MB every {arguments.every:g} s")
    print(f"  sealed, beside the training    {told['checkpoint_stall_pct']:6.2f} % of the steps lost")
    print(f"    the training stood still for {told['copying_ms']:6.1f} ms; written after {told['writing_ms']:.1f} ms")
    if told["written_late"]:
        print(f"    {told['written_late']} of {arguments.pairs} outlasted their block; the rest is not counted: more --seconds")
    print(f"  plain, waited for              {told['waited_stall_pct']:6.2f} %")
    print(json.dumps(told))


if __name__ == "__main__":
    main()
