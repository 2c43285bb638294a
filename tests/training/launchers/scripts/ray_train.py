"""Two workers of Ray Train that report a checkpoint at every step; one kills itself once where asked to."""

import os
import re
import signal
import sys
import tempfile
import time
from pathlib import Path

import ray.train
import torch
from ray.train.torch import TorchTrainer, prepare_model

place = Path(os.environ["FALAJ_CHECKPOINTS"])
lost, heard = place / "lost", place / "run" / "checkpoint_manager_snapshot.json"  # what Ray has heard of


def begun():
    torch.manual_seed(17)
    return torch.nn.Linear(4, 1)


def loss_of(model, rank):
    rows = torch.randn(32, 4, generator=torch.Generator().manual_seed(rank))
    return torch.nn.functional.mse_loss(model(rows), rows.sum(1, keepdim=True))


def learn(config):
    model = prepare_model(begun())
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
    rank, first = ray.train.get_context().get_world_rank(), 0
    if (earlier := ray.train.get_checkpoint()) is not None:
        with earlier.as_directory() as folder:
            saved = torch.load(Path(folder) / "state.pt", weights_only=True)
        model.load_state_dict(saved["model"])
        first = saved["step"]
    if rank == 0:
        print(f"begins at step {first} of {ray.train.get_context().get_world_size()}", flush=True)
    for step in range(first + 1, config["steps"] + 1):
        loss = loss_of(model, rank)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        with tempfile.TemporaryDirectory() as folder:
            torch.save({"model": model.state_dict(), "step": step}, Path(folder) / "state.pt")
            kept = ray.train.Checkpoint.from_directory(folder) if rank == 0 else None
            ray.train.report({"step": step, "loss": loss.item()}, checkpoint=kept)
        if rank == 1 and step == config["lose_at"] and not lost.exists():
            while not heard.exists() or not re.search(r'"checkpoint_dir_name": ?"', heard.read_text()):
                time.sleep(0.1)
            lost.touch()
            os.kill(os.getpid(), signal.SIGKILL)


def alone(steps):
    """What the first worker's last loss is without Ray, and without anything that happens."""
    model = begun()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(steps):
        losses = [loss_of(model, rank) for rank in range(2)]
        optimiser.zero_grad()
        (sum(losses) / 2).backward()
        optimiser.step()
    return losses[0].item()


trainer = TorchTrainer(
    learn,
    train_loop_config={"steps": int(sys.argv[1]), "lose_at": int(sys.argv[2])},
    scaling_config=ray.train.ScalingConfig(num_workers=2),
    run_config=ray.train.RunConfig(name="run", storage_path=str(place), failure_config=ray.train.FailureConfig(max_failures=0)),
)
result = trainer.fit()
print(
    f"ended at step {result.metrics['step']} with {result.metrics['loss']:.9f}, alone {alone(int(sys.argv[1])):.9f}", flush=True
)
