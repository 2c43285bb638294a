"""Variants for GPUs: an ONNX model as a torch program in float32, bfloat16 and float16, by the runtime that serves it.

`python -m benchmarks.gpu_variants` needs torch, onnx and onnxscript beside Falaj's own files. Two networks with random weights,
as large as people serve: convolutions on pictures of 224 x 224 (inverted residuals), and a transformer of 12 layers, 768 wide,
on 128 tokens. Rows a second are with copies to the device and back, at the best batch. The last line is JSON.
"""

import json
import time
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import torch

from falaj.runtimes.engine import Engine, ModelFiles, Placement
from falaj.runtimes.loading import load
from falaj.training.shrinking.exporting import exported, program
from falaj.training.shrinking.networks import Pictures, Reader

BATCHES: Final = (1, 16, 64, 256)
SECONDS: Final = 1.5
ROWS: Final = 512


def pictures() -> tuple[Any, np.ndarray[Any, Any]]:
    rows = np.random.default_rng(0).normal(size=(ROWS, 3, 224, 224)).astype(np.float32)
    return Pictures((3, 224, 224), 1000, (96, 144, 240, 384), (3, 3, 3), spread=1.0), rows


def sentences() -> tuple[Any, np.ndarray[Any, Any]]:
    rows = np.random.default_rng(0).integers(0, 30_000, (ROWS, 128))
    return Reader(30_000, 128, 2, width=768, layers=12, heads=12), rows


NETWORKS: Final[dict[str, Callable[[], tuple[Any, Any]]]] = {"conv": pictures, "transformer": sentences}


def main() -> None:
    figures: dict[str, float] = {}
    device = "gpu" if torch.cuda.is_available() else "cpu"
    for name, make in NETWORKS.items():
        torch.manual_seed(0)
        module, rows = make()
        content = exported(module.eval(), [rows], ["x"], ["scores"])
        said: dict[str, Any] = {}
        for dtype in ("f32", "bf16", "f16"):
            began = time.perf_counter()
            made = program(content, [rows], dtype=dtype)
            files = ModelFiles(runtime="torch", main="model.pt2", contents={"model.pt2": made})
            engine = load(files, Placement(device=device, batch=max(BATCHES)))  # type: ignore[arg-type]
            took = time.perf_counter() - began
            said[dtype] = np.concatenate([np.asarray(engine.run([rows[at : at + 64]])[0]) for at in range(0, ROWS, 64)])
            rates = {batch: rate(engine, rows, batch) for batch in BATCHES}
            best = max(rates.values())
            figures[f"{name}_{dtype}_rows_s"] = best
            agree = float((said[dtype].argmax(1) == said["f32"].argmax(1)).mean())
            apart = float(np.abs(said[dtype] - said["f32"]).max())
            shown = ", ".join(f"{batch}: {one:,.0f}" for batch, one in rates.items())
            print(
                f"{name} {dtype}: {shown} rows/s; made and loaded in {took:.0f} s; {agree:.2%} agree, {apart:.3g} apart",
                flush=True,
            )
            engine.close()
        for dtype in ("bf16", "f16"):
            figures[f"{name}_{dtype}_x"] = figures[f"{name}_{dtype}_rows_s"] / figures[f"{name}_f32_rows_s"]
    print(json.dumps({name: round(figure, 3) for name, figure in figures.items()}))


def rate(engine: Engine, rows: Any, batch: int) -> float:
    some = [rows[:batch]]
    for _ in range(5):
        engine.run(some)
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < SECONDS:
        engine.run(some)
        count += batch
    return count / (time.perf_counter() - began)


if __name__ == "__main__":
    main()
