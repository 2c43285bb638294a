"""How much of a training's time is not spent waiting for data: `python benchmarks/training_loader.py`, where torch is.

A plain script gives a session a `DataLoader` without any processes, over pictures that are decoded, cropped, turned and scaled,
and trains a small convolutional network on them. The session finds out by itself how many loader processes hide that; after it
has settled, the time that the loop waits for batches is measured from outside, and before, without a session. The last line is
JSON.
"""

import argparse
import json
import os
import sys
import time
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import torch
from torch import nn

from falaj.training import Hardware, Session, Wishes

SIDE = 96


class Pictures(torch.utils.data.Dataset):  # type: ignore[type-arg,misc,unused-ignore]
    """Packed pictures of 112 x 112, as a folder of files would be: each is unpacked and changed at random."""

    def __init__(self, count: int) -> None:
        generator = torch.Generator().manual_seed(0)
        coarse = torch.randint(0, 256, (64, 3, 14, 14), generator=generator, dtype=torch.uint8)
        whole = coarse.repeat_interleave(8, 2).repeat_interleave(8, 3)
        self._packed = [zlib.compress(bytes(one.contiguous().view(-1).numpy())) for one in whole]
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> tuple[Any, int]:
        raw = bytearray(zlib.decompress(self._packed[index % len(self._packed)]))
        picture = torch.frombuffer(raw, dtype=torch.uint8).view(3, 112, 112)
        top, left = torch.randint(0, 112 - SIDE + 1, (2,)).tolist()
        picture = picture[:, top : top + SIDE, left : left + SIDE].float()
        if torch.rand(()) < 0.5:
            picture = picture.flip(2)
        return (picture - 128) / 64 + 0.05 * torch.randn(3, SIDE, SIDE), index % 10


def network() -> Any:
    layers: list[Any] = []
    for given, made in ((3, 16), (16, 32), (32, 48)):
        layers += [nn.Conv2d(given, made, 3, 2, 1, bias=False), nn.BatchNorm2d(made), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(48, 10))


def loss_of(model: Any, pictures: Any, labels: Any) -> Any:
    return nn.functional.cross_entropy(model(pictures), labels)


def busy(batches: Iterable[Any], step: Any, skipped: int, counted: int) -> float:
    """The share of the time that is not spent waiting, in percent, after so many batches."""
    waited, began = 0.0, 0.0
    source = iter(batches)
    for number in range(skipped + counted):
        if number == skipped:
            began = time.perf_counter()
        asked = time.perf_counter()
        batch = next(source)
        waited += time.perf_counter() - asked if number >= skipped else 0.0
        step(batch)
        del batch  # to give its memory back is no waiting for data
    return 100 * (1 - waited / (time.perf_counter() - began))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=32, help="pictures in a batch")
    parser.add_argument("--steps", type=int, default=100, help="that count")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // 2))  # the other half of the cores can load
    loader = torch.utils.data.DataLoader(Pictures(arguments.rows * 10_000), batch_size=arguments.rows, shuffle=True)
    model = network()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05)

    def bare(batch: Any) -> None:
        loss_of(model, *batch).backward()
        optimiser.step()
        optimiser.zero_grad()

    plain = busy(loader, bare, 4, 20)
    session = Session(Wishes(precision="float32"), hardware=Hardware(cores=len(os.sched_getaffinity(0))))
    session.prepare(model, optimiser)
    found = busy(session.batches(loader), lambda batch: session.step(loss_of, *batch), 64, arguments.steps)
    chosen = session.recipe.loader_workers
    print(f"a plain loop: {plain:.1f} %. A session: {found:.1f} %, with {chosen.value} loader processes. {chosen.why}")
    print(json.dumps({"loader_busy_pct": round(found, 2), "plain_busy_pct": round(plain, 2), "loader_workers": chosen.value}))
    session.finish()


if __name__ == "__main__":
    main()
