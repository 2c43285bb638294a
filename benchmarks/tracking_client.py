"""What the stock client sees of the server behind MLFLOW_TRACKING_URI. Runs in the peer's environment; prints one JSON object.

tracking_client.py log SECONDS | lightning ROUNDS
"""

import json
import logging
import sys
import time
import warnings
from statistics import median


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


def lightning(rounds: int) -> dict[str, float]:
    """The same training in turns without a logger and with the stock one at its default interval."""
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

    def train(logger) -> float:
        trainer = lightning_package.Trainer(
            max_epochs=1,
            accelerator="cpu",
            logger=logger,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        model = Digits()
        began = time.perf_counter()
        trainer.fit(model, loader)
        return time.perf_counter() - began

    train(False)
    # In pairs, each the other way round than the last: what drifts, and what noise there is, hits both alike.
    plain, logged = [], []
    for number in range(rounds):
        for with_logger in (False, True) if number % 2 else (True, False):
            took = train(MLFlowLogger(experiment_name="lightning") if with_logger else False)
            (logged if with_logger else plain).append(took)
    slowdowns = [100 * (with_it / without - 1) for with_it, without in zip(logged, plain, strict=True)]
    return {"slowdown_pct": median(slowdowns), "spread_pct": max(slowdowns) - min(slowdowns), "epoch_s": median(plain)}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    kind, amount = sys.argv[1:]
    print(json.dumps(log(float(amount)) if kind == "log" else lightning(int(amount))))
