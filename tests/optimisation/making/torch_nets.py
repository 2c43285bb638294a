"""Three networks trained by torch and exported to ONNX, into the folder that is given: for tests that have no torch themselves.

Run as a program, because torch takes long to import and has warnings of its own.
"""

import functools
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from falaj.optimisation.making.values import Made
from tests.optimisation.making.models import LENGTH, WORDS, digits, sentences, table

ROOT = Path(__file__).parents[3]


@functools.cache
def nets() -> dict[str, Made]:
    """By name: `pictures` of MobileNet's kind, `dense` over a table, and `reader`, a small transformer."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-W", "ignore", "-m", "tests.optimisation.making.torch_nets", folder]
        subprocess.run(command, cwd=ROOT, check=True, timeout=120)
        contents = {path.stem: path.read_bytes() for path in Path(folder).glob("*.onnx")}
    return {name: Made(runtime="onnx", file="m.onnx", files={"m.onnx": content}) for name, content in contents.items()}


def numbers() -> tuple[np.ndarray, np.ndarray]:
    rows, truth = table()
    return np.nan_to_num(rows).astype(np.float32), truth


def _write_all(folder: Path) -> None:
    import torch

    from falaj.training.shrinking.networks import Dense, Pictures, Reader

    torch.set_num_threads(1)
    torch.manual_seed(0)

    def write(name, net, rows, truth, steps):
        given, aims = torch.from_numpy(rows), torch.from_numpy(truth).long()
        optimiser = torch.optim.Adam(net.parameters(), lr=5e-3)
        for _ in range(steps):
            chosen = torch.randint(0, len(given), (64,))
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(net(given[chosen]), aims[chosen]).backward()
            optimiser.step()
        free = {"x": {0: "rows"}, "scores": {0: "rows"}}
        path, names = str(folder / f"{name}.onnx"), {"input_names": ["x"], "output_names": ["scores"]}
        torch.onnx.export(net.eval(), (given[:2],), path, dynamo=False, dynamic_axes=free, opset_version=17, **names)

    sample = digits()[0]
    write("pictures", Pictures((1, 8, 8), 10, (32, 64, 128), (3, 3), 1.0), sample.inputs[0], sample.truth, 70)
    rows, truth = numbers()
    width = rows.shape[1]
    write("dense", Dense([(width,)], 2, 128, torch.zeros(width), torch.ones(width)), rows[:1000], truth[:1000], 200)
    sample = sentences()[0]
    write("reader", Reader(WORDS, LENGTH, 3, width=96, layers=2, heads=4), sample.inputs[0], sample.truth, 60)


if __name__ == "__main__":
    _write_all(Path(sys.argv[1]))
