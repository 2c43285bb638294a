"""Two workers of Ray Train that report a checkpoint at every step; one kills itself in the first try where asked to."""

import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

import ray.train
import torch
from ray.train.torch import TorchTrainer, prepare_model


def learn(config):
    torch.manual_seed(17)
    model = prepare_model(torch.nn.Linear(4, 1))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
    rank, first = ray.train.get_context().get_world_rank(), 0
    if (earlier := ray.train.get_checkpoint()) is not None:
        with earlier.as_directory() as folder:
            known = torch.load(Path(folder) / "state.pt", weights_only=True)
        model.load_state_dict(known["model"])
        first = known["step"]
    if rank == 0:
        print(f"begins at step {first} of {ray.train.get_context().get_world_size()}", flush=True)
    rows = torch.randn(32, 4, generator=torch.Generator().manual_seed(rank))
    for step in range(first + 1, config["steps"] + 1):
        loss = torch.nn.functional.mse_loss(model(rows), rows.sum(1, keepdim=True))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        with tempfile.TemporaryDirectory() as folder:
            torch.save({"model": model.state_dict(), "step": step}, Path(folder) / "state.pt")
            kept = ray.train.Checkpoint.from_directory(folder) if rank == 0 else None
            ray.train.report({"step": step, "loss": loss.item()}, checkpoint=kept)
        if rank == 1 and step == config["lose_at"] and os.environ["FALAJ_TRY"] == "1":
            time.sleep(5)  # until what was reported has been heard
            os.kill(os.getpid(), signal.SIGKILL)


trainer = TorchTrainer(
    learn,
    train_loop_config={"steps": int(sys.argv[1]), "lose_at": int(sys.argv[2])},
    scaling_config=ray.train.ScalingConfig(num_workers=2),
    run_config=ray.train.RunConfig(
        name="run", storage_path=os.environ["FALAJ_CHECKPOINTS"], failure_config=ray.train.FailureConfig(max_failures=0)
    ),
)
result = trainer.fit()
print("ended", json.dumps({"step": result.metrics["step"], "loss": round(result.metrics["loss"], 6)}), flush=True)
