"""Least squares by all ranks together, saved by the first one at every step; loses a rank in the first try where asked to."""

import json
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
from mpi4py import MPI

from falaj.training.checkpoints import Preemption

steps, lose_at, pause = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
world = MPI.COMM_WORLD
saved = Path(os.environ["FALAJ_CHECKPOINTS"]) / "weights.json"
rows = np.random.default_rng(17 + world.rank).normal(size=(32, 4))
wanted = rows @ np.array([1.0, -2.0, 3.0, 0.5])

first = json.loads(saved.read_text()) if world.rank == 0 and saved.exists() else {"step": 0, "weights": [0.0] * 4}
step, weights = world.bcast((first["step"], np.array(first["weights"])))
if world.rank == 0:
    print(
        f"try {os.environ['FALAJ_TRY']} begins at step {step} of {world.size} ranks, {os.environ['WORLD_SIZE']} told",
        flush=True,
    )
with Preemption() as preemption:
    while step < steps:
        missed = rows @ weights - wanted
        gradient = world.allreduce(2 * rows.T @ missed / len(rows)) / world.size
        loss = world.allreduce(float(missed @ missed) / len(rows)) / world.size
        weights, step = weights - 0.05 * gradient, step + 1
        if world.rank == 0:
            saved.with_suffix(".new").write_text(json.dumps({"step": step, "weights": list(weights)}))
            saved.with_suffix(".new").replace(saved)
            print(f"step {step} {loss:.9f}", flush=True)
        world.barrier()
        if world.rank == 1 and step == lose_at and os.environ["FALAJ_TRY"] == "1":
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(pause)
        if world.allreduce(preemption.asked):
            sys.exit(143)
