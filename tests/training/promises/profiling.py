"""Where the time of a real training goes. Loaders and losses take their time by sleeping: so does any machine."""

import gzip
import json
import multiprocessing.util
import os
import re
import threading
import time
import warnings

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset

from falaj.training import Session, Wishes, trainer_for
from falaj.training.profiling import loaders
from falaj.training.profiling.changes import Changes, keeper_from_environment
from falaj.training.telling import NoRun

KEY = "ab" * 32


class _Slow(Dataset):
    """Takes so many seconds for a batch."""

    def __init__(self, seconds):
        self.seconds = seconds

    def __len__(self):
        return 4096

    def __getitem__(self, index):
        return torch.ones(8)

    def __getitems__(self, indices):
        time.sleep(self.seconds)
        return [torch.ones(8) for _ in indices]


class _Told(NoRun):
    def __init__(self):
        self.measured, self.said, self.files = {}, {}, []

    def figures(self, figures, step=0):
        self.measured.update(figures)

    def words(self, words):
        self.said.update(words)

    def file(self, path, name):
        self.files.append(name)


def _trained(wishes, *, loading, computing, steps=20, workers=1):
    model = nn.Linear(8, 1)

    def loss_of(model, batch):
        time.sleep(computing)
        return model(batch).square().mean()

    session = Session(wishes, say=lambda _: None)
    session.profile.run = _Told()
    session.prepare(model, torch.optim.SGD(model.parameters(), lr=0.01))
    loader = DataLoader(_Slow(loading), batch_size=4, num_workers=workers)
    for _, batch in zip(range(steps), session.batches(loader), strict=False):
        session.step(loss_of, batch)
    session.finish()
    return session


def a_loader_that_does_not_keep_up_is_named_with_the_workers_it_needs_and_gets_them_at_the_next_start(folder):
    """A batch takes 60 ms to load and 20 ms to compute: three loader processes would just do."""
    os.environ |= {"FALAJ_CHECKPOINTS": str(folder), "FALAJ_CHECKPOINT_KEY": KEY}
    first = _trained(Wishes(), loading=0.06, computing=0.02)
    verdict = first.profile.verdicts[0]
    assert verdict.kind == "input-bound", first.profile.measured()
    asked = verdict.changes["loader_workers"]
    needed = re.search(r"1 loader worker, (\d) would hide it", verdict.says)
    assert 2 <= asked <= int(needed[1]) <= 5, verdict
    said = first.profile.run.said
    assert said["falaj.training.verdict"].splitlines()[0] == verdict.says
    assert "--apply-profile" in said["falaj.training.next"]
    assert keeper_from_environment().read().wanted == {"loader_workers": asked}

    os.environ["FALAJ_APPLY_PROFILE"] = "1"
    second = _trained(Wishes(), loading=0.06, computing=0.02, steps=30)
    assert second.profile.setting.workers == asked
    assert second.profile.measured().rows > 1.1 * first.profile.measured().rows
    assert keeper_from_environment().read().wanted["loader_workers"] >= asked


def what_another_training_found_is_taken_at_the_first_start_and_the_job_s_own_profile_from_then_on(folder):
    found = Changes(wanted={"loader_workers": 3}, rate=1.0)
    os.environ |= {"FALAJ_CHECKPOINTS": str(folder), "FALAJ_CHECKPOINT_KEY": KEY, "FALAJ_APPLY_PROFILE": found.text()}
    first = _trained(Wishes(), loading=0.0, computing=0.03)
    assert first.profile.setting.workers == 3
    assert first.profile.run.said["falaj.training.recipe.loader_workers"].startswith("3\n")
    keeper_from_environment().write(Changes(wanted={"loader_workers": 2}, rate=1.0))
    assert _trained(Wishes(), loading=0.0, computing=0.0, steps=2).profile.setting.workers == 2
    assert _trained(Wishes(loader_workers=1), loading=0.0, computing=0.0, steps=2).profile.setting.workers == 1


def a_gpu_of_the_job_that_nothing_computes_on_is_not_to_be_asked_for_again(folder):
    os.environ |= {"FALAJ_JOB": "a", "CUDA_VISIBLE_DEVICES": "GPU-1"}
    session = _trained(Wishes(), loading=0.0, computing=0.03, workers=0)
    assert session.hardware.kind == "cpu"
    assert session.profile.verdicts[0].kind == "gpu-not-used"
    assert session.profile.run.said["falaj.training.ask.gpus"].startswith("0\nGPU not used")


def a_training_that_computes_is_not_called_input_bound(folder):
    session = _trained(Wishes(loader_workers=0), loading=0.0, computing=0.15, workers=0, steps=14)
    assert [one.kind for one in session.profile.verdicts][:1] == ["compute-bound"], session.profile.measured()
    assert session.profile.measured().shares["compute"] > 0.6
    told = session.profile.run.measured
    assert told["falaj.training/rows_per_second"] > 0
    assert {f"falaj.training/{phase}_share" for phase in ("data", "compute", "optimiser", "other")} <= told.keys()


def every_choice_of_the_recipe_is_told_with_its_reason(folder):
    session = _trained(Wishes(precision="float32"), loading=0.0, computing=0.0, steps=1, workers=0)
    said = session.profile.run.said
    assert said["falaj.training.recipe.precision"] == "float32\nYou asked for it."
    assert all(f"falaj.training.recipe.{name}" in said for name, _ in session.recipe)


def a_deep_profile_leaves_a_trace_and_a_table(folder):
    os.chdir(folder)
    _trained(Wishes(profile="deep"), loading=0.0, computing=0.001, steps=17, workers=0)
    trace = json.loads(gzip.decompress((folder / "profile" / "trace.json.gz").read_bytes()))
    names = {event.get("name") for event in trace["traceEvents"]}
    assert "aten::addmm" in names
    assert "aten::addmm" in (folder / "profile" / "kernels.txt").read_text()
    assert not (folder / "trace.json").exists()


def who_wants_no_profile_has_none(folder):
    session = _trained(Wishes(profile="off"), loading=0.0, computing=0.0, workers=0)
    assert (session.profile.measured(), session.profile.verdicts, session.profile.run.measured) == (None, [], {})
    assert "falaj-profile" not in {thread.name for thread in threading.enumerate()}


def a_lightning_training_is_split_as_well(folder):
    from lightning.pytorch import LightningModule

    class Module(LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 1)

        def training_step(self, batch, index):
            time.sleep(0.005)
            return self.layer(batch).square().mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.01)

    os.environ["FALAJ_PROFILE"] = "on"
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
    module = Module()
    trainer = trainer_for(module, max_steps=15, default_root_dir=str(folder), **quiet)
    profile = next(one.profile for one in trainer.callbacks if hasattr(one, "profile"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Lightning's own, about loaders without processes
        trainer.fit(module, DataLoader(_Slow(0.02), batch_size=4))
    assert profile.verdicts[0].kind == "input-bound", profile.measured()
    assert profile.setting.workers == 0
    assert profile.setting.batch == 4


def a_stream_keeps_the_processes_it_has(folder):
    class Stream(IterableDataset):
        def __iter__(self):
            return iter([torch.ones(8)] * 8)

    loader = DataLoader(Stream(), batch_size=4)
    assert not loaders.give(loader, workers=4)
    assert loaders.seen(loader) == loaders.Loading(workers=0, stream=True)
    assert not loaders.give([1, 2, 3], workers=4)
    assert loaders.seen([1, 2, 3]) == loaders.Loading()


def a_loader_that_is_given_processes_gives_the_same_batches(folder):
    loader = DataLoader(_Slow(0.0), batch_size=512)
    assert loaders.give(loader, workers=2, pinned=False)
    assert loaders.seen(loader).workers == 2
    assert sum(len(batch) for batch in loader) == 4096


def a_program_that_ends_in_the_middle_waits_for_no_loader_process(folder):
    """Loader processes do not heed a job's signal to go, but the training's own, by which Python ends its children."""
    session = Session(Wishes(loader_workers=1), say=lambda _: None)
    model = nn.Linear(8, 1)
    session.prepare(model, torch.optim.SGD(model.parameters(), lr=0.01))
    batches = session.batches(DataLoader(_Slow(0.0), batch_size=4))
    session.step(lambda model, batch: model(batch).square().mean(), next(batches))
    assert multiprocessing.active_children()
    multiprocessing.util._exit_function()
    assert not multiprocessing.active_children()
