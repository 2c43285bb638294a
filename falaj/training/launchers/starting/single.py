"""One process: the script takes the starter's place, and with it every signal and the exit code."""

import os
import sys

from falaj.training.launchers.starting.seats import Seat, Told


def start(seat: Seat, told: Told) -> int:
    os.execv(sys.executable, [sys.executable, *told.script])  # nosec B606 - the job's own script
