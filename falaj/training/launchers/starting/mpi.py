"""MPI: the environment's own `mpirun`. On several nodes MPICH's is told to start nothing itself: the tasks that are there
already run what it would have run on each host, and prove to each other who they are."""

import os
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Final

from falaj.training.launchers.starting import meeting
from falaj.training.launchers.starting.children import Children
from falaj.training.launchers.starting.failures import Failed, Missing, Unfit
from falaj.training.launchers.starting.seats import Seat, Told

# What each process is called by MPICH and Open MPI, and by everything else.
_NAMES: Final = {
    "RANK": ("PMI_RANK", "OMPI_COMM_WORLD_RANK"),
    "WORLD_SIZE": ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE"),
    "LOCAL_RANK": ("MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK"),
    "LOCAL_WORLD_SIZE": ("MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE"),
}
_ORDER, _ALL_ORDERED = "HYDRA_LAUNCH: ", "HYDRA_LAUNCH_END"


def start(seat: Seat, told: Told) -> int:
    if seat.is_open:
        raise Unfit(meeting.not_private("MPI"))
    mpirun = _mpirun()
    is_mpich = _is_mpich(mpirun)
    if seat.size > 1 and not is_mpich:
        raise Unfit("several nodes need MPICH's mpirun (`pip install mpich`); this environment has another.")
    os.environ["OMP_NUM_THREADS"] = str(max(1, int(os.environ.get("OMP_NUM_THREADS") or 1) // told.processes))
    if not Path("/sys/class/net").exists():  # within walls MPICH's other way, UCX, does not find the network
        os.environ.setdefault("MPIR_CVAR_CH4_NETMOD", "ofi")
        os.environ.setdefault("FI_PROVIDER", "tcp")
    program = [sys.executable, sys.argv[0], "rank", "--", *told.script]
    with Children() as children:
        if seat.size == 1:
            how = [] if is_mpich else ["--map-by", ":OVERSUBSCRIBE"]
            runner = children.start([mpirun, *how, "-n", str(told.processes), *program], hears=is_mpich)
            if not is_mpich:  # Open MPI's kills its ranks at once
                children.tell_past(runner)
            return children.end_of(runner)
        return _together(seat, told, mpirun, program, children)


def rank_start(seat: Seat, told: Told) -> int:
    """In each process that mpirun started: it is called as in any other training, and goes on as the script."""
    for name, known_as in _NAMES.items():
        os.environ[name] = next((os.environ[key] for key in known_as if key in os.environ), "0")
    os.execv(sys.executable, [sys.executable, *told.script])  # nosec B606 - the job's own script


def _together(seat: Seat, told: Told, mpirun: str, program: Sequence[str], children: Children) -> int:
    # 1. Where everybody is. Tasks of one host share its name to MPI: one of them runs what is ordered there.
    hosts = [host if seat.is_spread else f"127.0.0.{rank + 1}" for rank, (host, _) in enumerate(meeting.meet(seat, ""))]
    first_of = {host: hosts.index(host) for host in hosts}
    # 2. The first task asks mpirun what has to be run on each host, and tells all.
    runner = None
    if seat.rank == 0:
        counts = ",".join(f"{host}:{hosts.count(host) * told.processes}" for host in first_of)
        size = str(len(hosts) * told.processes)
        asked = [mpirun, "-launcher", "manual", "-localhost", seat.address, "-hosts", counts, "-n", size, *program]
        runner = children.start(asked, hears=False, heard=True)
        orders = dict(zip(first_of.values(), _orders(runner), strict=True))
    else:
        orders = {}
    ordered = {int(rank): line for rank, line in meeting.meet(seat, orders)[0][1].items()}
    # 3. Each runs its part. What MPI says, the signal too, passes through mpirun alone.
    own = children.start(shlex.split(ordered[seat.rank]), hears=False) if seat.rank in ordered else None
    if runner is not None:
        children.tell(runner)
        return children.end_of(runner)
    return children.end_of(own) if own else 0


def _orders(runner: "subprocess.Popen[bytes]") -> list[str]:
    """What it wants run on each host; everything after that is the training's own words."""
    said: IO[bytes] = runner.stdout  # type: ignore[assignment]
    lines: list[str] = []
    for raw in iter(said.readline, b""):
        line = raw.decode(errors="replace").rstrip()
        if line == _ALL_ORDERED:
            threading.Thread(target=_echo, args=(said,), daemon=True).start()
            return lines
        lines += [line.removeprefix(_ORDER)] if line.startswith(_ORDER) else []
    raise Failed(f"mpirun ended with {runner.wait()} before it had said what to run.")


def _echo(said: IO[bytes]) -> None:
    for line in iter(said.readline, b""):
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()


def _mpirun() -> str:
    found = shutil.which("mpirun") or shutil.which("mpiexec")
    if found is None:
        raise Missing("there is no mpirun in the job's environment; name `mpich` and `mpi4py` in its lock file.")
    return found


def _is_mpich(mpirun: str) -> bool:
    told = subprocess.run([mpirun, "--version"], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    return "hydra" in told.stdout.lower()
