"""Least squares by all ranks together, saved by the first one at every step; loses a rank in the first try where asked to.
When it is done, the same is learned again from the beginning, and nothing happens to that."""

import itertools
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
world, now = MPI.COMM_WORLD, os.environ["FALAJ_TRY"]
saved = Path(os.environ["FALAJ_CHECKPOINTS"]) / "weights.json"
rows = np.random.default_rng(17 + world.rank).normal(size=(32, 4))
wanted = rows @ np.array([1.0, -2.0, 3.0, 0.5])


def learned(weights):
    """The weights after each step, and the loss before it."""
    while True:
        missed = rows @ weights - wanted
        gradient = world.allreduce(2 * rows.T @ missed / len(rows)) / world.size
        loss = world.allreduce(float(missed @ missed) / len(rows)) / world.size
        weights = weights - 0.05 * gradient
        yield weights, loss


def say(words):
    if world.rank == 0:
        print(words, flush=True)


def save(step, weights):
    if world.rank == 0:
        saved.with_suffix(".new").write_text(json.dumps({"step": step, "weights": list(weights)}))
        saved.with_suffix(".new").replace(saved)


first = json.loads(saved.read_text()) if world.rank == 0 and saved.exists() else {"step": 0, "weights": [0.0] * 4}
done, begin = world.bcast((first["step"], np.array(first["weights"])))
say(f"try {now} begins at step {done} of {world.size} ranks, {os.environ['WORLD_SIZE']} told")
with Preemption() as preemption:
    for step, (weights, loss) in enumerate(itertools.islice(learned(begin), steps - done), done + 1):
        save(step, weights)
        say(f"step {step} {loss:.9f}")
        world.barrier()
        if world.rank == 1 and step == lose_at and now == "1":
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(pause)
        if world.allreduce(preemption.asked):
            sys.exit(143)
for step, (_, loss) in enumerate(itertools.islice(learned(np.zeros(4)), steps), 1):
    say(f"undisturbed {step} {loss:.9f}")
