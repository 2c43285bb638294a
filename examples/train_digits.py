"""A training that takes its time: a small network learns to read digits, batch by batch, in plain numpy.

    falaj train train_digits.py

Killed or preempted, it goes on from its last checkpoint, and its losses are those of a training that nothing happened to.
"""

import hashlib
import io
import time

import numpy as np
from sklearn.datasets import load_digits

from falaj.training.checkpoints import saved_bytes_from_environment
from falaj.training.telling import run_from_environment

STEPS, ROWS, WIDTH, RATE = 60, 128, 48, 0.2

images, truth = load_digits(return_X_y=True)
images = images / 16.0
wanted = np.eye(10)[truth]


def begin() -> dict[str, np.ndarray]:
    chance = np.random.default_rng(7)
    return {
        "first": chance.normal(0, 0.2, (64, WIDTH)),
        "second": chance.normal(0, 0.2, (WIDTH, 10)),
        "losses": np.zeros(0),
    }


def step(state: dict[str, np.ndarray]) -> float:
    """One batch, whose rows depend on the number of the step alone."""
    number = len(state["losses"])
    rows = np.random.default_rng(number).choice(len(images), ROWS, replace=False)
    hidden = np.tanh(images[rows] @ state["first"])
    scores = hidden @ state["second"]
    chances = np.exp(scores - scores.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    loss = float(-np.log((chances * wanted[rows]).sum(axis=1)).mean())
    back = (chances - wanted[rows]) / ROWS
    state["first"] = state["first"] - RATE * images[rows].T @ ((back @ state["second"].T) * (1 - hidden**2))
    state["second"] = state["second"] - RATE * hidden.T @ back
    state["losses"] = np.append(state["losses"], loss)
    return loss


def main() -> None:
    saved, run, state = saved_bytes_from_environment(), run_from_environment(), begin()
    if saved is not None and (content := saved.load()) is not None:
        with np.load(io.BytesIO(content)) as found:
            state = dict(found)
        print(f"goes on from step {len(state['losses'])}", flush=True)
    while len(state["losses"]) < STEPS:
        loss = step(state)
        done = len(state["losses"])
        run.figures({"loss": loss}, step=done)
        print(f"step {done} loss {loss:.4f}", flush=True)
        if saved is not None and done % 5 == 0:
            kept = io.BytesIO()
            np.savez(kept, first=state["first"], second=state["second"], losses=state["losses"])
            saved.save(kept.getvalue(), step=done, progress=done / STEPS)
        time.sleep(0.05)  # as if it were a larger one
    run.close()
    print(f"curve {hashlib.sha256(state['losses'].tobytes()).hexdigest()}")


if __name__ == "__main__":
    main()
