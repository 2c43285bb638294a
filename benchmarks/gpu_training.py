"""Two plain training scripts, and what makes them fast: as they are, with TF32, tuned by hand, and through Falaj's recipe.

Run on a machine with an NVIDIA GPU by an interpreter that has torch: `python benchmarks/gpu_training.py`. Each variant is a
process of its own. They compile side by side, then take turns: whoever is measured has the GPU alone. `--tries` measures what
was tried beside the recipe. `--tiny` runs anywhere, to see that it runs. The last line is JSON.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import torch

sys.path[:0] = [str(Path(__file__).parent.parent), str(Path(__file__).parent)]

from training_networks import FULL, TINY, Training, flops_of  # noqa: E402

from falaj.training import programs  # noqa: E402
from falaj.training.hardware import peaks_of  # noqa: E402
from falaj.training.recipes import Wishes  # noqa: E402
from falaj.training.session import Session  # noqa: E402

VARIANTS: Final = ("plain", "tf32", "hand", "recipe")
UNITS: Final = {"gpt2": "tokens", "resnet50": "images"}
CURVE_STEPS: Final = 200
CURVE_END: Final = 20  # the last so many losses are averaged
LIKE: Final = {"gpt2": 0.03, "resnet50": 0.1}  # how far apart two curves may end
_BATCHES: Final = 4
_PATIENCE: Final = 500  # seconds for one variant

# What --tries adds: wishes that differ from the default, or options of the code generator.
TRIES: Final[dict[str, tuple[Wishes, dict[str, Any]]]] = {
    "recipe": (Wishes(), {}),
    "flash": (Wishes(attention="flash"), {}),
    "cudnn": (Wishes(attention="cudnn"), {}),
    "unpadded": (Wishes(padded_outputs=1), {}),
    "wide_residuals": (Wishes(lean_residuals=False), {}),
    "descent": (Wishes(), {"coordinate_descent_tuning": True}),
    "pointwise": (Wishes(), {"max_autotune_pointwise": True}),
    "generated_loss": (Wishes(fused_loss=False), {}),
    "graphs": (Wishes(), {"triton.cudagraphs": True}),
    "autotune": (Wishes(), {"max_autotune": True}),
    "autotune_graphs": (Wishes(), {"max_autotune": True, "triton.cudagraphs": True}),
    "twice_rows": (Wishes(), {}),
}


class Runner:
    """One variant of one training, ready to take steps."""

    def __init__(self, training: Training, variant: str, rows: int, device: Any, *, guarded: bool) -> None:
        self.training, self.variant, self.rows, self.device = training, variant, rows, device
        self.model = training.model(device, tuned=variant == "hand")
        self.session: Session | None = None
        self.loss_of = training.loss_of
        if variant in ("plain", "tf32"):
            self.optimiser = training.optimiser(self.model.parameters())
            torch.set_float32_matmul_precision("high" if variant == "tf32" else "highest")  # convolutions have TF32 by default
        elif variant == "hand":
            self._tune_by_hand()
        else:
            wishes, options = TRIES[variant]
            if not guarded:
                wishes = replace(wishes, guarded_steps=0)
            programs.OPTIONS.update(options)
            self.session = Session(wishes)
            self.optimiser = training.optimiser(self.model.parameters())
            self.model, self.optimiser = self.session.prepare(self.model, self.optimiser)

    def _tune_by_hand(self) -> None:
        """bfloat16, model and loss compiled, a round vocabulary, a fused optimiser, channels last."""
        torch.set_float32_matmul_precision("high")
        torch.backends.cudnn.benchmark = True
        fused = {"fused": True} if self.device.type == "cuda" else {}
        self.optimiser = self.training.optimiser(self.model.parameters(), **fused)
        kind, loss_of = self.device.type, self.training.loss_of

        def in_halves(model: Any, *batch: Any) -> Any:
            with torch.autocast(kind, dtype=torch.bfloat16):
                return loss_of(model, *batch)

        self.loss_of = torch.compile(in_halves)

    def batches(self, count: int) -> list[tuple[Any, ...]]:
        made = [self.training.batch(seed, self.rows, self.device) for seed in range(count)]
        if self.variant != "hand":
            return made
        return [tuple(one.to(memory_format=torch.channels_last) if one.dim() == 4 else one for one in batch) for batch in made]

    def step(self, batch: tuple[Any, ...]) -> Any:
        if self.session is not None:
            return self.session.step(self.training.loss_of, *batch)
        loss = self.loss_of(self.model, *batch)
        loss.backward()
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        return loss.detach()


def measured(runner: Runner, steps: int) -> dict[str, Any]:
    """Milliseconds of a step, and the memory that was taken."""
    batches = runner.batches(_BATCHES)
    for at in range(3):
        runner.step(batches[at % _BATCHES])
    cuda = runner.device.type == "cuda"
    if cuda:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    taken = []
    for _ in range(3):
        begun = time.perf_counter()
        for at in range(steps):
            runner.step(batches[at % _BATCHES])
        if cuda:
            torch.cuda.synchronize()
        taken.append((time.perf_counter() - begun) / steps)
    memory = torch.cuda.max_memory_allocated() / (1 << 30) if cuda else 0.0
    return {"ms": statistics.median(taken) * 1e3, "spread_ms": (max(taken) - min(taken)) * 1e3, "gib": round(memory, 1)}


def curve(runner: Runner, steps: int) -> list[float]:
    """The losses of so many steps, each on a new batch; the first fifty with a rising learning rate."""
    warming = torch.optim.lr_scheduler.LambdaLR(runner.optimiser, lambda step: min(1.0, (step + 1) / 50))
    losses = []
    for at in range(steps):
        losses.append(runner.step(runner.training.batch(1000 + at, runner.rows, runner.device)))
        warming.step()
    return [round(float(loss), 4) for loss in losses]


def work(network: str, variant: str, kind: str, folder: Path, tiny: bool, profile: bool) -> None:
    """A worker: prepares, says that it is ready, waits for its turn, measures, tells."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    training = (TINY if tiny else FULL)[network]
    mark = folder / f"{network}.{variant}.{kind}"
    begun = time.perf_counter()
    rows = training.curve_rows if kind == "curve" else training.rows * (2 if variant == "twice_rows" else 1)
    # The guard's float32 needs much memory, which others may have while all prepare: the curve's run shows it.
    runner = Runner(training, variant, rows, device, guarded=kind == "curve")
    told: dict[str, Any] = {"network": network, "variant": variant, "kind": kind}
    if kind == "curve":
        told["losses"] = curve(runner, CURVE_STEPS if not tiny else 12)
        told["seconds"] = round(time.perf_counter() - begun, 1)
    else:
        if variant not in ("plain", "tf32"):  # they have nothing to compile
            _first_step(runner)
        told["prepared_s"] = round(time.perf_counter() - begun, 1)
        mark.with_suffix(f".{kind}.ready").touch()
        _wait_for(mark.with_suffix(f".{kind}.go"))
        slow = variant in ("plain", "tf32")
        told |= measured(runner, 2 if tiny or slow else 12)
        told |= _rates(runner, network, told["ms"], tiny)
        if profile and device.type == "cuda":
            _profile(runner, folder / f"{network}.{variant}.profile.txt")
    if runner.session is not None:
        told["explained"] = runner.session.recipe.explain().splitlines()
        told["notes"] = runner.session.notes
        told["verdicts"] = [verdict.why for verdict in runner.session.verdicts]
    mark.with_suffix(f".{kind}.part").write_text(json.dumps(told))
    mark.with_suffix(f".{kind}.part").rename(mark.with_suffix(f".{kind}.json"))


def _first_step(runner: Runner) -> None:
    """Others prepare beside: what does not fit now may fit soon."""
    for patience in range(20):
        try:
            runner.step(runner.batches(1)[0])
            break
        except torch.OutOfMemoryError:
            runner.optimiser.zero_grad(set_to_none=True)
            torch.cuda.empty_cache()
            time.sleep(1 + patience / 4)
    if runner.device.type == "cuda":
        torch.cuda.synchronize()
        torch.cuda.empty_cache()


def _rates(runner: Runner, network: str, ms: float, tiny: bool) -> dict[str, Any]:
    units = runner.rows * (runner.model.places.weight.shape[0] if network == "gpt2" else 1)
    rate = units / ms * 1e3
    flops = flops_of(network, runner.model, tiny)
    peak = peaks_of(torch.cuda.get_device_name()).get("bfloat16", math.nan) if runner.device.type == "cuda" else math.nan
    return {"per_s": round(rate), "gflop_per_unit": round(flops / 1e9, 4), "share_of_peak": round(rate * flops / peak, 4)}


def _profile(runner: Runner, file: Path) -> None:
    batches = runner.batches(1)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(2):
            runner.step(batches[0])
        torch.cuda.synchronize()
    file.write_text(profile.key_averages().table(sort_by="self_device_time_total", row_limit=60, max_name_column_width=90))


def _wait_for(file: Path) -> None:
    while not file.exists():
        time.sleep(0.05)


def run_all(jobs: list[tuple[str, str, str]], arguments: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """All workers at once until they are ready, then one after the other."""
    running: dict[tuple[str, str, str], Any] = {}
    for job in jobs:
        command = [sys.executable, __file__, "--worker", ":".join(job), "--folder", str(folder)]
        command += ["--tiny"] * arguments.tiny + ["--profile"] * (arguments.profile and job[1] in ("recipe", "generated_loss"))
        log = (folder / f"{'.'.join(job)}.log").open("w")
        running[job] = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    begun, told = time.monotonic(), []
    for kind in ("curve", "speed"):
        for job in [job for job in jobs if job[2] == kind]:
            while running[job].poll() is None and time.monotonic() - begun < arguments.patience:
                if (folder / f"{'.'.join(job)}.{'ready' if kind == 'speed' else 'json'}").exists():
                    break
                time.sleep(0.1)
    for job in jobs:
        name = ".".join(job)
        (folder / f"{name}.go").touch()
        try:
            running[job].wait(max(5.0, arguments.patience - (time.monotonic() - begun)))
        except subprocess.TimeoutExpired:
            running[job].kill()
        answer = folder / f"{name}.json"
        if answer.exists():
            told.append(json.loads(answer.read_text()))
            shown = {key: one for key, one in told[-1].items() if key not in ("explained", "losses", "notes", "verdicts")}
            print(json.dumps(shown), flush=True)
        else:
            print(f"{name} failed:\n" + (folder / f"{name}.log").read_text()[-1500:], flush=True)
    return told


def summary(told: list[dict[str, Any]]) -> dict[str, Any]:
    """The last line."""
    made: dict[str, Any] = {
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "torch": torch.__version__,
    }
    speeds = {(one["network"], one["variant"]): one for one in told if one["kind"] == "speed"}
    ends = {
        (one["network"], one["variant"]): statistics.fmean(one["losses"][-CURVE_END:]) for one in told if one["kind"] == "curve"
    }
    for (network, variant), one in speeds.items():
        made[f"{network}_{variant}_{UNITS[network]}_per_s"] = one["per_s"]
        made[f"{network}_{variant}_share_of_peak"] = one["share_of_peak"]
        made[f"{network}_{variant}_gib"] = one["gib"]
    for network in UNITS:
        for other in ("plain", "tf32", "hand"):
            if (network, "recipe") in speeds and (network, other) in speeds:
                made[f"{network}_x_{other}"] = round(speeds[network, "recipe"]["per_s"] / speeds[network, other]["per_s"], 2)
    for (network, variant), end in ends.items():
        made[f"{network}_{variant}_loss_after_{CURVE_STEPS}"] = round(end, 4)
        if variant != "plain" and (network, "plain") in ends:
            made[f"{network}_{variant}_same_loss"] = abs(end - ends[network, "plain"]) <= LIKE[network]
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--tries", default="", help="names of tries for GPT-2, with commas; all: every one")
    parser.add_argument("--networks", default="gpt2,resnet50")
    parser.add_argument("--variants", default=",".join(VARIANTS))
    parser.add_argument("--curves", default="gpt2:plain,gpt2:recipe,resnet50:plain,resnet50:recipe")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--patience", type=float, default=_PATIENCE)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--worker", default="")
    arguments = parser.parse_args()
    if arguments.worker:
        network, variant, kind = arguments.worker.split(":")
        work(network, variant, kind, arguments.folder, arguments.tiny, arguments.profile)
        return
    networks = [name for name in arguments.networks.split(",") if name]
    tries = list(TRIES) if arguments.tries == "all" else [name for name in arguments.tries.split(",") if name]
    jobs = [(*name.split(":"), "curve") for name in arguments.curves.split(",") if name.partition(":")[0] in networks]
    jobs += [(network, variant, "speed") for network in networks for variant in arguments.variants.split(",") if variant]
    jobs += [("gpt2", name, "speed") for name in tries if ("gpt2", name, "speed") not in jobs]
    with tempfile.TemporaryDirectory() as made:
        folder = arguments.folder or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        told = run_all(jobs, arguments, folder)
    for one in told:
        if one["variant"] == "recipe" and one["kind"] == "speed":
            print("\n".join([one["network"], *one["explained"], *one["verdicts"], *one["notes"]]))
    print(json.dumps(summary(told)))


if __name__ == "__main__":
    os.environ.setdefault("TORCHINDUCTOR_FX_GRAPH_CACHE", "1")
    main()
