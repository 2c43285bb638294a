"""What `falaj optimise` makes of four fixed models: `make bench-optimisation`. The last line is JSON.

`--only conv,mlp` takes some of them, `--models FOLDER` models that were trained before, `--budget 600` is for each search.

Each model is trained here first and must reach its stated accuracy; it is registered with a platform as it ships, searched by
its job, and its best certified variants are then timed against the original once more: in turn, in one process, on one thread.
The original is ONNX Runtime in float32 as it comes. Rows a second are at the best batch of 1 to 256, of each of the two.

NAME_x, NAME_drop_pct, NAME_size_x   the fastest certified variant of the same architecture (fused, quantised, pruned): how many
                                     times as many rows, points of accuracy lost on held-out rows, how many times smaller
NAME_distilled_x, ...                the fastest certified one that was distilled
plain_int8_conv_x                    ONNX Runtime's own static INT8 with its defaults, for comparison
search_s                             the whole search for the convolution net, students and all
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
import pyarrow as pa
from onnxruntime.quantization import CalibrationDataReader, quantize_static
from soak import Platform

from falaj.base.values import value
from falaj.client.datasets import save_dataset
from falaj.client.http import Client
from falaj.client.optimising.steps import names_there
from falaj.optimisation.making.candidates import planned
from falaj.optimisation.making.measuring import Measured, compare
from falaj.optimisation.making.profiles import profile_of
from falaj.optimisation.making.steps import STEPS
from falaj.optimisation.making.values import Made, Material, Sample
from falaj.optimisation.operations.optimisations import SHOW_OPTIMISATION, OneOptimisation, Optimisation
from falaj.optimisation.operations.variants import (
    LIST_VARIANTS,
    READ_VARIANT_FILE,
    SHOW_CERTIFICATE,
    ListVariants,
    OneVariant,
    ReadVariantFile,
    Variant,
)
from falaj.registry.operations.models import CREATE_MODEL, CreateModel
from falaj.registry.operations.versions import CREATE_VERSION, CreateVersion
from falaj.runtimes.hosts import this_host
from falaj.tracking.operations.artifacts import PUT_ARTIFACT, PutArtifact
from falaj.tracking.operations.runs import CREATE_RUN, CreateRun

HERE: Final = Path(__file__).parent
PROJECT: Final = "bench"
MODELS: Final = ("conv", "mlp", "transformer", "trees")
TRUTH: Final = "truth"
ROUNDS: Final = 3
GOALS: Final[dict[str, tuple[float, float]]] = {
    "conv_x": (2.0, math.inf),
    "mlp_x": (2.5, math.inf),
    "transformer_x": (1.6, math.inf),
    "trees_x": (2.0, math.inf),
    "conv_distilled_x": (4.0, math.inf),
    "mlp_distilled_x": (4.0, math.inf),
    **{f"{name}_drop_pct": (-math.inf, 0.5) for name in (*MODELS, "conv_distilled", "mlp_distilled")},
}


@value
class Trained:
    """A model with its rows, as `optimisation_models` wrote them."""

    name: str
    original: Made
    learnt: Sample
    held_out: Sample
    input: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(MODELS))
    parser.add_argument("--models", type=Path)
    parser.add_argument("--budget", type=int, default=900)
    given = parser.parse_args()
    wanted = [name for name in given.only.split(",") if name]
    if unknown := set(wanted) - set(MODELS):
        parser.error(f"there is no model {', '.join(sorted(unknown))}; there are {', '.join(MODELS)}")
    with tempfile.TemporaryDirectory(prefix="falaj-bench-") as temporary:
        folder = given.models or train(Path(temporary), wanted)
        figures: dict[str, float] = {}
        with platform(Path(temporary)) as running:
            for name in wanted:
                figures |= searched(running, read(folder, name), given.budget)
    shown(figures, wanted)
    print(json.dumps({name: round(figure, 3) for name, figure in figures.items()}))


def train(folder: Path, names: Sequence[str]) -> Path:
    command = [sys.executable, str(HERE / "optimisation_models.py"), str(folder), "--only", ",".join(names)]
    subprocess.run(command, check=True, cwd=HERE.parent, env=_environment())
    return folder


def _environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(HERE.parent)}


def read(folder: Path, name: str) -> Trained:
    rows = np.load(folder / f"{name}.npz")
    learnt = Sample(inputs=(rows["train_inputs"],), truth=rows["train_truth"])
    if name == "trees":
        # The baseline is Falaj's own ONNX TreeEnsemble of the LightGBM model, in the precision that LightGBM has; it is
        # faster than the form that onnxmltools makes.
        text = (folder / "trees.txt").read_bytes()
        native = Made(runtime="lightgbm", file="model.txt", files={"model.txt": text})
        original = STEPS["trees-onnx"](native, "", _material(learnt))
    else:
        original = Made(runtime="onnx", file="model.onnx", files={"model.onnx": (folder / f"{name}.onnx").read_bytes()})
    return Trained(
        name=name,
        original=original,
        learnt=learnt,
        held_out=Sample(inputs=(rows["held_out_inputs"],), truth=rows["held_out_truth"]),
        input=onnx.load_from_string(original.content).graph.input[0].name,
    )


def _material(learnt: Sample) -> Material:
    some = learnt.part(0, 512)
    return Material(calibration=some, training=learnt, selection=some, drop=lambda _: 0.0)


@contextmanager
def platform(folder: Path) -> Iterator[Platform]:
    running = Platform(folder)
    running.start()
    try:
        if running.falaj("project", "create", PROJECT, "--zone", "home"):
            raise SystemExit("The platform made no project.")
        yield running
    finally:
        running.falaj("down")  # with the serving plane, which outlives the platform
        running.stop()


def searched(running: Platform, trained: Trained, budget: int) -> dict[str, float]:
    """By everything there is; where what was distilled counts apart, for the same architecture by itself before: certified
    students are faster than anything else, and as many as were wanted."""
    with Client(running.url, running.token, timeout=600) as client:
        register(client, trained)
        same = dict[str, float]()
        if f"{trained.name}_distilled_x" in GOALS:
            same = judged(client, trained, search(running, client, trained, budget, only=same_architecture(trained)))
        began = time.monotonic()
        found = search(running, client, trained, budget)
        took = time.monotonic() - began
        figures = judged(client, trained, found) | same
    return figures | ({"search_s": took} if trained.name == "conv" else {f"{trained.name}_search_s": took})


def search(running: Platform, client: Client, trained: Trained, budget: int, only: Sequence[str] = ()) -> Optimisation:
    options = ["--held-out", f"{trained.name}-held-out", "--truth", TRUTH, "--budget", str(budget), "--certify", "6"]
    options += [word for step in only for word in ("--only", step)]
    command = ["optimise", f"{trained.name}:1", "--on", f"{trained.name}-learnt", *options, "--memory", "6GiB"]
    if running.falaj(*command, "--project", PROJECT):
        raise SystemExit(f"The search for {trained.name} failed.")
    newest = ListVariants(project=PROJECT, model=trained.name, version=1, limit=1)
    listed = client.call(LIST_VARIANTS, newest).items
    found = client.call(SHOW_OPTIMISATION, OneOptimisation(project=PROJECT, optimisation=listed[0].optimisation))
    for one in found.variants:
        times = f", {one.measures.times:.2f} times as fast" if one.measures else ""
        print(f"  {one.name}: {one.state}{times}. {one.reason}", flush=True)
    return found


def same_architecture(trained: Trained) -> list[str]:
    """All that would be tried with it but students."""
    profile, available = profile_of(trained.original), names_there(student=False)
    found = planned(profile, target="cpu", host=this_host(), available=available).candidates
    return sorted({step for one in found if not any(map(_is_student, one.steps)) for step in one.steps})


def register(client: Client, trained: Trained) -> None:
    client.call(CREATE_MODEL, CreateModel(project=PROJECT, model=trained.name))
    run = client.call(CREATE_RUN, CreateRun(project=PROJECT)).info.id
    put = PutArtifact(project=PROJECT, holder=run, name="model.onnx")
    client.call(PUT_ARTIFACT, put, chunks=iter((trained.original.content,)))
    client.call(CREATE_VERSION, CreateVersion(project=PROJECT, model=trained.name, holder=run, run=run))
    for name, sample in (("learnt", trained.learnt), ("held-out", trained.held_out)):
        flat = sample.inputs[0].reshape(sample.rows, -1)
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(flat).ravel()), flat.shape[1])
        table = pa.table({trained.input: vectors, TRUTH: pa.array(sample.truth)})
        save_dataset(f"{trained.name}-{name}", table, project=PROJECT, client=client)


def judged(client: Client, trained: Trained, found: Optimisation) -> dict[str, float]:
    certified = [one for one in found.variants if one.state == "certified"]
    kinds = {
        trained.name: [one for one in certified if not _is_distilled(one)],
        f"{trained.name}_distilled": [one for one in certified if _is_distilled(one)],
    }
    figures: dict[str, float] = {}
    for name, variants in kinds.items():
        if not variants:
            continue
        best = max(variants, key=lambda one: one.measures.times if one.measures else 0.0)
        ratio, size = timed(trained.original, fetched(client, best), trained.held_out)
        one = OneVariant(project=PROJECT, model=best.model, version=best.version, variant=best.name)
        drop = float(client.call(SHOW_CERTIFICATE, one).document["quality"]["overall"]["drop"]) * 100
        print(f"{name}: {best.name}, {ratio:.2f} times as fast, {drop:+.2f} points lost, {size:.1f} times smaller", flush=True)
        figures |= {f"{name}_x": ratio, f"{name}_drop_pct": drop, f"{name}_size_x": size}
    if trained.name == "conv":
        figures["plain_int8_conv_x"] = timed(trained.original, plain_int8(trained), trained.held_out)[0]
    return figures


def _is_distilled(one: Variant) -> bool:
    return any(map(_is_student, one.steps))


def _is_student(step: str) -> bool:
    return step.startswith("distil")


def fetched(client: Client, one: Variant) -> Made:
    def content(file: str) -> bytes:
        asked = ReadVariantFile(project=PROJECT, model=one.model, version=one.version, variant=one.name, file=file)
        return b"".join(client.call(READ_VARIANT_FILE, asked).chunks)

    settings = {setting.name: setting.value for setting in one.settings}
    return Made(
        runtime=one.runtime, file=one.file, files={file.name: content(file.name) for file in one.files}, settings=settings
    )


def timed(original: Made, made: Made, sample: Sample) -> tuple[float, float]:
    """The median of several comparisons, and how many times smaller it is."""
    ratios = []
    for _ in range(ROUNDS):
        theirs, ours = _pair(compare([original, made], sample, seconds=4.0))
        ratios.append(ours.rows_per_s / theirs.rows_per_s)
    return float(np.median(ratios)), original.size / made.size


def _pair(found: Sequence[Measured]) -> tuple[Measured, Measured]:
    return found[0], found[1]


def plain_int8(trained: Trained) -> Made:
    """As the library does it by itself."""

    class Rows(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            some = trained.learnt.inputs[0][:512]
            self._parts = iter([{trained.input: some[start : start + 64]} for start in range(0, len(some), 64)])

        def get_next(self) -> dict[str, Any] | None:
            return next(self._parts, None)

    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "source.onnx"), Path(folder, "target.onnx")
        source.write_bytes(trained.original.content)
        quantize_static(source, target, Rows())
        return Made(runtime="onnx", file="model.onnx", files={"model.onnx": target.read_bytes()})


def shown(figures: dict[str, float], models: Sequence[str]) -> None:
    """Every goal of the models that were run, with what was not measured at all, and then the other figures."""
    goals = {name: goal for name, goal in GOALS.items() if name.startswith(tuple(f"{model}_" for model in models))}
    for name, (low, high) in goals.items():
        wanted = f"at least {low:g}" if low > -math.inf else f"at most {high:g}"
        figure = figures.get(name)
        told = "-" if figure is None else f"{figure:.3f}"
        mark = "" if figure is not None and low <= figure <= high else "  NOT REACHED"
        print(f"{name:<28} {told:>10}  {wanted}{mark}")
    for name, figure in figures.items():
        if name not in goals:
            print(f"{name:<28} {figure:>10.3f}")


if __name__ == "__main__":
    main()
