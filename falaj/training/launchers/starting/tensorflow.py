"""TensorFlow: one process on each node. Several learn of each other by TF_CONFIG, as MultiWorkerMirroredStrategy reads it."""

import contextlib
import json
import os
import socket
import sys

from falaj.training.launchers.starting import meeting
from falaj.training.launchers.starting.children import Children
from falaj.training.launchers.starting.failures import Unfit
from falaj.training.launchers.starting.seats import Seat, Told


def start(seat: Seat, told: Told) -> int:
    if seat.size == 1:
        os.execv(sys.executable, [sys.executable, *told.script])  # nosec B606 - the job's own script
    if seat.is_open:
        raise Unfit(meeting.not_private("TensorFlow"))
    workers = meeting.addresses(seat, _free_port(seat))
    config = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": seat.rank}}
    with Children() as children:
        return children.end_of(children.start([sys.executable, *told.script], {"TF_CONFIG": json.dumps(config)}))


def _free_port(seat: Seat) -> int:
    with contextlib.closing(socket.socket()) as found:
        found.bind(("127.0.0.1" if not seat.is_spread else "", 0))
        return int(found.getsockname()[1])
