"""PyTorch Lightning with autologging and with its own MLFlowLogger, and Optuna's callback."""

import logging
import warnings

import lightning
import mlflow
import optuna
import torch
from lightning.pytorch.loggers import MLFlowLogger
from mlflow import MlflowClient
from optuna_integration import MLflowCallback
from torch.utils.data import DataLoader, TensorDataset

warnings.simplefilter("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
# It loads each model again in a process of its own, which takes seconds and says nothing to the server.
mlflow.models.infer_pip_requirements = lambda *_, **__: []
client = MlflowClient()
THREE = mlflow.__version__.startswith("3")


class Line(lightning.LightningModule):
    def __init__(self, rate=0.1):
        super().__init__()
        self.save_hyperparameters()
        self.line = torch.nn.Linear(2, 1)

    def training_step(self, batch, number):
        rows, wanted = batch
        loss = torch.nn.functional.mse_loss(self.line(rows), wanted)
        self.log("loss", loss, on_step=True, on_epoch=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=self.hparams.rate)


def trained(logger):
    rows = torch.rand(32, 2, generator=torch.Generator().manual_seed(1))
    loader = DataLoader(TensorDataset(rows, rows.sum(1, keepdim=True)), batch_size=8)
    trainer = lightning.Trainer(
        max_epochs=2,
        logger=logger,
        log_every_n_steps=1,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=logger is not False,
        accelerator="cpu",
    )
    trainer.fit(Line(), loader)
    return trainer


# Its own logger, models included
logger = MLFlowLogger(experiment_name="lightning", run_name="logger", log_model=True, tracking_uri=mlflow.get_tracking_uri())
trained(logger)
logger.finalize("success")
found = client.get_run(logger.run_id)
assert found.info.status == "FINISHED"
assert found.data.params["rate"] == "0.1"
assert [point.step for point in client.get_metric_history(logger.run_id, "loss_step")] == list(range(8))
assert found.data.metrics["loss_epoch"] > 0
[checkpoint] = client.list_artifacts(logger.run_id)
assert f"{checkpoint.path}/{checkpoint.path}.ckpt" in {
    one.path for one in client.list_artifacts(logger.run_id, checkpoint.path)
}

# Autologging
mlflow.set_experiment("lightning")
mlflow.pytorch.autolog(log_every_n_step=1)
with mlflow.start_run(run_name="autologged") as run:
    trained(False)
mlflow.pytorch.autolog(disable=True)
found = client.get_run(run.info.run_id)
assert found.data.params["epochs"] == "2", found.data.params
assert found.data.metrics["loss_epoch"] > 0, found.data.metrics
if THREE:
    assert len(found.outputs.model_outputs) >= 1
else:
    assert "model" in {entry.path for entry in client.list_artifacts(run.info.run_id)}

# Optuna
optuna.logging.set_verbosity(optuna.logging.ERROR)
callback = MLflowCallback(metric_name="error", create_experiment=True)
study = optuna.create_study(study_name="search", direction="minimize")
study.optimize(lambda trial: (trial.suggest_float("x", -1, 1) - 0.5) ** 2, n_trials=4, callbacks=[callback])
experiment = client.get_experiment_by_name("search")
best = client.search_runs([experiment.experiment_id], order_by=["metrics.error ASC"])
assert len(best) == 4
assert best[0].data.metrics["error"] == study.best_value
assert float(best[0].data.params["x"]) == study.best_params["x"]
print("done")
