"""What the stock client sees of the server behind MLFLOW_TRACKING_URI. Runs in the peer's environment; prints one JSON object.

tracking_client.py log SECONDS | lightning ROUNDS
"""

import functools
import inspect
import json
import logging
import sys
import time
import warnings
from collections.abc import Callable
from statistics import median
from typing import Any


def log(seconds: float) -> dict[str, float]:
    from mlflow import MlflowClient
    from mlflow.entities import Metric

    client = MlflowClient()
    run = client.create_run("0").info.run_id
    began = 1_700_000_000_000
    points = [Metric(f"metric_{number % 10}", number / 1000, began + number, number // 10) for number in range(1000)]

    def batch(call: int) -> None:
        # Fresh objects, as a script would have them; only the step tells the calls apart.
        client.log_batch(run, [Metric(it.key, it.value, it.timestamp, it.step + 100 * call) for it in points])

    def single(call: int) -> None:
        client.log_metric(run, "loss", 1 / (1 + call), timestamp=began + call, step=call, synchronous=True)

    return {"batch": 1000 * calls_per_second(batch, seconds), "single": calls_per_second(single, seconds)}


def calls_per_second(call, seconds: float) -> float:
    call(0)
    began, calls = time.perf_counter(), 1
    while time.perf_counter() < began + seconds:
        call(calls)
        calls += 1
    return calls / (time.perf_counter() - began)


class Watch:
    """How long was spent inside what it times. What is called from inside counts once."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.calls = 0
        self._inside = False

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*arguments: Any, **named: Any) -> Any:
            if self._inside:
                return function(*arguments, **named)
            self._inside, began = True, time.perf_counter()
            try:
                return function(*arguments, **named)
            finally:
                self.seconds += time.perf_counter() - began
                self.calls += 1
                self._inside = False

        return call

    def watched(self, kind: type) -> type:
        """That class with everything timed that others may call or look at: its making, its methods, its properties."""
        members: dict[str, Any] = {"__init__": self.timed(kind.__init__)}
        for name in (name for name in dir(kind) if not name.startswith("_")):
            member = inspect.getattr_static(kind, name)
            if isinstance(member, property):
                members[name] = property(self.timed(member.fget))
            elif inspect.isfunction(member):
                members[name] = self.timed(member)
        return type(kind.__name__, (kind,), members)


def lightning(rounds: int) -> dict[str, float]:
    """Trainings with the stock logger at its default interval: the time inside the logger over the time outside of it.

    Not whole trainings with and without a logger: two of the same kind differ by ten times what the logger takes.
    """
    import lightning as lightning_package
    import torch
    from lightning.pytorch.loggers import MLFlowLogger

    torch.set_num_threads(1)  # the server gets the other core

    class Digits(lightning_package.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = torch.nn.Sequential(
                torch.nn.Conv2d(1, 16, 3, padding=1),
                torch.nn.ReLU(),
                torch.nn.Conv2d(16, 32, 3, padding=1),
                torch.nn.ReLU(),
                torch.nn.Flatten(),
                torch.nn.Linear(32 * 28 * 28, 10),
            )

        def training_step(self, batch, _index):
            images, labels = batch
            loss = torch.nn.functional.cross_entropy(self.net(images), labels)
            self.log("loss", loss)
            return loss

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=1e-3)

    images, labels = torch.randn(64 * 300, 1, 28, 28), torch.randint(0, 10, (64 * 300,))
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(images, labels), batch_size=64)

    def train() -> tuple[Watch, float]:
        watch = Watch()
        began = time.perf_counter()
        logger = watch.watched(MLFlowLogger)(experiment_name="lightning")
        trainer = lightning_package.Trainer(
            max_epochs=1,
            accelerator="cpu",
            logger=logger,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        trainer.fit(Digits(), loader)
        return watch, time.perf_counter() - began

    train()  # the first one imports what it needs
    found = [train() for _ in range(rounds)]
    slowdowns = [100 * watch.seconds / (total - watch.seconds) for watch, total in found]
    return {
        "slowdown_pct": median(slowdowns),
        "spread_pct": max(slowdowns) - min(slowdowns),
        "logger_s": median(watch.seconds for watch, _ in found),
        "logger_calls": median(watch.calls for watch, _ in found),
        "training_s": median(total for _, total in found),
    }


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    kind, amount = sys.argv[1:]
    print(json.dumps(log(float(amount)) if kind == "log" else lightning(int(amount))))
