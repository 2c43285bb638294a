"""Processes of torch.distributed: torchrun on each node, which starts them again when one is lost."""

import os
import sys

from falaj.training.launchers.starting import meeting
from falaj.training.launchers.starting.children import Children
from falaj.training.launchers.starting.failures import Unfit
from falaj.training.launchers.starting.seats import Seat, Told, own_address


def start(seat: Seat, told: Told) -> int:
    if seat.is_open:  # gloo might encrypt; torchrun's own store does not, and unpickles what anybody puts there
        raise Unfit(meeting.not_private("torchrun"))
    threads = int(os.environ.get("OMP_NUM_THREADS") or 1)
    variables = {
        "OMP_NUM_THREADS": str(max(1, threads // told.processes)),
        # A store that outlives the processes it was for still names those that are gone, and new ones cannot find each other.
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
        "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": str(max(1, told.grace - 2)),  # or else it kills them after 30 s, saved or not
    }
    with Children() as children:
        return children.end_of(children.start(command(seat, told), variables))


def command(seat: Seat, told: Told) -> list[str]:
    """All nodes of a try start together or not at all, so that their number is known."""
    return [
        *(sys.executable, "-m", "torch.distributed.run"),
        f"--nnodes={seat.size}",
        f"--nproc-per-node={told.processes}",
        f"--max-restarts={told.restarts}",
        "--monitor-interval=0.5",
        "--rdzv-backend=c10d",
        f"--rdzv-endpoint={seat.address}:{seat.port}",
        f"--rdzv-conf=is_host={int(seat.rank == 0)}",
        f"--local-addr={own_address(seat)}",  # any node may come to be the first of torchrun's, and is then sought there
        f"--rdzv-id={os.environ.get('FALAJ_JOB', 'training')}-{os.environ.get('FALAJ_TRY', '1')}",
        *told.script,
    ]
