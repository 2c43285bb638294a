"""Which launcher a script needs and what it is told, from what was read of it and what was asked for. Pure."""

import math
from collections.abc import Callable, Mapping
from typing import Final

from falaj.base.values import value
from falaj.training.launchers.errors import Unfit
from falaj.training.launchers.reading import Reading

LAUNCHERS: Final = ("single", "torchrun", "tensorflow", "mpi", "spark", "ray")
STARTER: Final = ".falaj/start.py"
RESTARTS: Final = 3  # of torchrun's workers within one try of the job
_CLASSIC: Final = ("scikit-learn", "lightgbm", "xgboost", "catboost")
_SPREADING: Final = ("torch.distributed", "lightning", "falaj.training")


@value
class Wishes:
    """`nodes` are tasks of the job, each on its own share of a host; it makes do with `least` of them. Of each: `processes` (0
    for what fits the script), `cpus`, `gpus`."""

    launcher: str = "auto"
    nodes: int = 1
    least: int = 0
    processes: int = 0
    cpus: float = 1.0
    gpus: float = 0.0
    grace: int = 30


@value
class Launch:
    """What the job runs. `sentences` say which launcher and why, for people."""

    launcher: str
    nodes: int
    processes: int  # on each node
    command: tuple[str, ...]
    sentences: tuple[str, ...]


def choose(reading: Reading, arguments: tuple[str, ...], wishes: Wishes) -> Launch:
    """Raises `Unfit` where what was asked for cannot be."""
    if wishes.launcher not in ("auto", *LAUNCHERS):
        raise Unfit(f"There is no launcher {wishes.launcher!r}; there are auto, {', '.join(LAUNCHERS)}.")
    if wishes.nodes < 1 or wishes.processes < 0 or not 0 <= wishes.least <= wishes.nodes:
        raise Unfit(f"{wishes.nodes} nodes, {wishes.least} at least, with {wishes.processes} processes each cannot be.")
    launcher, why = (wishes.launcher, "as was asked for") if wishes.launcher != "auto" else _fitting(reading, wishes)
    processes = wishes.processes or _usual_processes(launcher, wishes)
    _check(launcher, reading, wishes, processes)
    options = ["--processes", str(processes), "--grace", str(wishes.grace)]
    if launcher == "torchrun":
        options += ["--restarts", str(RESTARTS)]
    if launcher in ("ray", "spark"):
        options += ["--cpus", str(max(1, math.floor(wishes.cpus))), "--gpus", str(math.floor(wishes.gpus))]
    return Launch(
        launcher=launcher,
        nodes=wishes.nodes,
        processes=processes,
        command=("python3", STARTER, launcher, *options, "--", reading.script, *arguments),
        sentences=(f"Launcher {launcher}: {why}.", *_remarks(launcher, reading, wishes, processes)),
    )


# 1. Which one


def _fitting(reading: Reading, wishes: Wishes) -> tuple[str, str]:
    for what, launcher in (("horovod", "mpi"), ("mpi4py", "mpi"), ("pyspark", "spark"), ("ray", "ray")):
        if found := reading.has(what):
            return launcher, f"{reading.script} uses {found}"
    for what in ("MultiWorkerMirroredStrategy", "MirroredStrategy"):
        if found := reading.has(what):
            return "tensorflow", f"{reading.script} uses {found}"
    for what in _SPREADING:
        if (found := reading.has(what)) and (what == "torch.distributed" or _wants_several(wishes)):
            return "torchrun", f"{reading.script} uses {found}"
    others = [found for what in ("lightning", "torch", "tensorflow", *_CLASSIC) if (found := reading.has(what))]
    named = f"{reading.script} uses {others[0]} in one process" if others else f"nothing in {reading.script} says otherwise"
    return "single", named


def _wants_several(wishes: Wishes) -> bool:
    return wishes.nodes > 1 or wishes.processes > 1 or wishes.gpus > 1


def _usual_processes(launcher: str, wishes: Wishes) -> int:
    """One for each GPU; for MPI, without GPUs, one for each core."""
    if launcher == "torchrun":
        return max(1, math.floor(wishes.gpus))
    if launcher == "mpi":
        return max(1, math.floor(wishes.gpus if wishes.gpus >= 1 else wishes.cpus))
    return 1


# 2. Whether it can be


def _check(launcher: str, reading: Reading, wishes: Wishes, processes: int) -> None:
    _CHECKS.get(launcher, _any)(reading, wishes, processes)
    if processes > 1 and 0 < wishes.gpus < processes:
        raise Unfit(f"{processes} processes cannot share {wishes.gpus:g} GPUs; ask for one each, or for fewer processes.")


def _any(reading: Reading, wishes: Wishes, processes: int) -> None:
    """Whatever the script is, this launcher starts it."""


def _single(reading: Reading, wishes: Wishes, processes: int) -> None:
    if wishes.nodes == 1 and processes == 1:
        return
    asked = f"{wishes.nodes} nodes" if wishes.nodes > 1 else f"{processes} processes"
    classic = [found for what in _CLASSIC if (found := reading.has(what))]
    if classic:
        raise Unfit(
            f"{reading.script} uses {classic[0]}, which trains in one process on all cores of one host; {asked} would each "
            "train the same model. Ask for more --cpus instead, or for parallel trials with `falaj tune`."
        )
    raise Unfit(
        f"Nothing in {reading.script} lets several processes train one model, and {asked} were asked for. Use "
        "torch.distributed, Lightning, falaj.training, MultiWorkerMirroredStrategy, mpi4py, Spark or Ray; or say --launcher."
    )


def _tensorflow(reading: Reading, wishes: Wishes, processes: int) -> None:
    if processes > 1:
        raise Unfit(f"TensorFlow uses all cores and GPUs of a node from one process; leave out --processes {processes}.")
    if wishes.nodes > 1 and not reading.has("MultiWorkerMirroredStrategy"):
        raise Unfit(
            f"{wishes.nodes} nodes need a MultiWorkerMirroredStrategy, and {reading.script} has none; "
            "a MirroredStrategy is for the devices of one."
        )


def _one_process(reading: Reading, wishes: Wishes, processes: int) -> None:
    if processes > 1:
        raise Unfit(f"Spark and Ray start processes themselves, as --cpus allows; leave out --processes {processes}.")


_CHECKS: Final[Mapping[str, Callable[[Reading, Wishes, int], None]]] = {
    "single": _single,
    "tensorflow": _tensorflow,
    "spark": _one_process,
    "ray": _one_process,
}


# 3. What people should know


def _remarks(launcher: str, reading: Reading, wishes: Wishes, processes: int) -> list[str]:
    said = []
    if launcher in ("torchrun", "mpi") or wishes.nodes > 1:
        each = f"{processes} process{'' if processes == 1 else 'es'}"
        said.append(f"{wishes.nodes} node{'' if wishes.nodes == 1 else 's'} with {each} each.")
    if launcher == "single" and wishes.gpus > 1:
        said.append(f"It sees {wishes.gpus:g} GPUs from one process; torch.distributed, Lightning or falaj.training use all.")
    if launcher == "mpi" and reading.has("horovod"):
        said.append(
            "Horovod scripts are experimental here: started by MPI, as Horovod asks, but not tried with Horovod itself."
        )
    return said
