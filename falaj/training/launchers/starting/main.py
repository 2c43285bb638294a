"""`python3 .falaj/start.py LAUNCHER --processes 2 -- SCRIPT ARGUMENTS`: one table of launchers, one way to start them."""

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from falaj.training.launchers.starting import mpi, ray, single, spark, tensorflow, torchrun
from falaj.training.launchers.starting.children import say
from falaj.training.launchers.starting.failures import Failed
from falaj.training.launchers.starting.seats import Seat, Told, seat_of

STARTS: Final[Mapping[str, Callable[[Seat, Told], int]]] = {
    "single": single.start,
    "torchrun": torchrun.start,
    "tensorflow": tensorflow.start,
    "mpi": mpi.start,
    "rank": mpi.rank_start,
    "spark": spark.start,
    "ray": ray.start,
}
ROOMS: Final = str(Path(__file__).parents[4])  # where this very copy of Falaj's light rooms lies


def main(arguments: Sequence[str] | None = None) -> int:
    launcher, told = _told(sys.argv[1:] if arguments is None else arguments)
    if not _has_own_falaj():
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (ROOMS, os.environ.get("PYTHONPATH"))))
    seat = seat_of()
    if seat.rank == 0 and launcher != "rank":
        say(f"{launcher}: {' '.join(told.script)}")
    try:
        return STARTS[launcher](seat, told)
    except Failed as problem:
        say(str(problem))
        return problem.code


def _told(arguments: Sequence[str]) -> tuple[str, Told]:
    cut = list(arguments).index("--")
    parser = argparse.ArgumentParser(prog="start.py")
    parser.add_argument("launcher", choices=list(STARTS))
    for name, usual in (("processes", 1), ("restarts", 0), ("cpus", 1), ("gpus", 0), ("grace", 30)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    found = vars(parser.parse_args(list(arguments[:cut])))
    return found.pop("launcher"), Told(**found, script=tuple(arguments[cut + 1 :]))


def _has_own_falaj() -> bool:
    """An environment with Falaj in it keeps its own: it may have rooms that did not travel."""
    places = [place for place in sys.path if place and Path(place).resolve() != Path(ROOMS).resolve()]
    return any((Path(place) / "falaj" / "training").is_dir() for place in places)
