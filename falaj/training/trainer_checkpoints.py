"""Sealed checkpoints of a Lightning Trainer, in the job's own folder: saved beside the training, resumed by themselves.

What Lightning itself would save is sealed as sessions' checkpoints are; its own callbacks' files are left to it.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import torch

from falaj.training import together
from falaj.training.checkpoints import folders, randomness
from falaj.training.checkpoints.loaders import has_known_order, resumable
from falaj.training.checkpoints.manifests import Entry
from falaj.training.checkpoints.preemption import GAVE_BACK, Preemption
from falaj.training.checkpoints.rhythm import Rhythm
from falaj.training.checkpoints.state import COMMON, Captured, pack, process_blob, unpacked
from falaj.training.checkpoints.workers import Workers
from falaj.training.saves import Saves

try:  # the two packages are one; which is there depends on who installed it
    from lightning.pytorch import Callback, Trainer
    from lightning.pytorch.plugins import TorchCheckpointIO
except ImportError:
    from pytorch_lightning import Callback, Trainer  # type: ignore[assignment,unused-ignore]
    from pytorch_lightning.plugins import TorchCheckpointIO  # type: ignore[assignment,unused-ignore]

HowFar = Callable[[], dict[str, Any] | None]
_SEALED: Final = "sealed"  # in place of a file's name: whichever is the newest
_TENSOR: Final = "falaj tensor"
_RANDOM: Final = "falaj_random"


class RecoveringTrainer(Trainer):  # type: ignore[misc,unused-ignore]
    """Goes on from the newest sealed checkpoint, unless it is told of another."""

    saves = Saves()
    read: Sequence[dict[str, Any]] = ()  # how far each loader was, in what was loaded

    def fit(
        self,
        model: Any,
        train_dataloaders: Any = None,
        val_dataloaders: Any = None,
        datamodule: Any = None,
        ckpt_path: Any = None,
        **more: Any,
    ) -> None:
        folder = Path(self.saves.place())
        if ckpt_path is None and folders.names(folder):
            ckpt_path = str(folder / _SEALED)
        if train_dataloaders is None:
            _count_what_is_given_by(datamodule or model, self._how_far)
        else:
            train_dataloaders = _Counted.of(train_dataloaders, self._how_far)
        super().fit(model, train_dataloaders, val_dataloaders, datamodule, ckpt_path, **more)

    def _how_far(self) -> dict[str, Any] | None:
        """Told once, to the first loader that is read; Lightning itself tells it in the midst of an epoch alone."""
        found, self.read = self.read, ()
        return found[0] if len(found) == 1 else None


class SealedFiles(TorchCheckpointIO):  # type: ignore[misc,unused-ignore]
    """Lightning's own files, and what is to be sealed in the job's folder."""

    def __init__(self, saves: Saves) -> None:
        super().__init__()
        self._place = Path(saves.place()) / _SEALED
        # One process writes what is the same in all of them, and each reads it for itself.
        self.store: Any = saves.open(workers=Workers(alone=True))

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        if Path(path) != self._place:
            super().save_checkpoint(checkpoint, path, storage_options)
            return
        state = TrainerState()
        state.step, state.checkpoint = checkpoint["global_step"], checkpoint
        self.store.save(state)

    def load_checkpoint(self, path: Any, *given: Any, **named: Any) -> dict[str, Any]:
        if Path(path) != self._place:
            loaded: dict[str, Any] = super().load_checkpoint(path, *given, **named)
            return loaded
        state = TrainerState()
        self.store.load(state)
        return state.checkpoint


class TrainerState:
    """What Lightning wants to save, taken apart into tensors and the rest, as `Checkpoints` writes them."""

    def __init__(self) -> None:
        self.step, self.checkpoint = 0, dict[str, Any]()

    def captured(self, rank: int, workers: int) -> Captured:
        tensors: dict[str, Any] = {}
        rest = _apart(self.checkpoint, "", tensors)
        return Captured(tensors=tensors, blobs={COMMON: pack(rest, checked=True), process_blob(rank): pack({}, checked=False)})

    def targets(self, entries: Mapping[str, Entry]) -> dict[str, Any]:
        return {key: torch.empty(one.size, dtype=getattr(torch, one.dtype)) for key, one in entries.items() if one.dtype}

    def restore(self, loaded: Mapping[str, Any], common: bytes, process: bytes | None, rank: int) -> None:
        self.checkpoint = _together(unpacked(common), loaded)


class SealedCheckpoints(Callback):  # type: ignore[misc,unused-ignore]
    """Saves when it is time, before the job must go, which it then leaves with code 143, and at the end. `look` raises at a
    loss that is bad."""

    def __init__(self, saves: Saves, files: SealedFiles, look: Any) -> None:
        self._saves, self._files, self._look = saves, files, look
        self._path = str(Path(saves.place()) / _SEALED)
        self._preemption = Preemption()
        self._workers: Any = None
        self._rhythm: Any = None
        self._random: list[dict[str, Any]] | None = None
        self._outputs: Any = None  # of the last step

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        self._workers = Workers()
        self._rhythm = Rhythm(
            self._workers, self._preemption, self._files.store, self._saves.every_seconds, self._saves.every_steps
        )

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self._preemption.__enter__()  # in place of Lightning's own, which leaves without a checkpoint

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        if self._random is not None and len(self._random) == self._workers.count:
            randomness.restore(self._random[self._workers.rank])
        self._random = None

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        self._outputs = outputs
        # Between the last batch of an epoch and the first of the next there is too much that has half happened.
        if not self._rhythm.is_time(trainer.global_step, may=not trainer.is_last_batch):
            return
        self._look(trainer.global_step, outputs)
        trainer.save_checkpoint(self._path)
        if self._rhythm.should_stop:
            self._files.store.wait()
            raise SystemExit(GAVE_BACK)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self._rhythm.conclude()
        self._look(trainer.global_step, self._outputs)
        trainer.save_checkpoint(self._path)
        self._files.store.wait()
        self._preemption.__exit__()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._files.store.wait()
        self._preemption.__exit__()

    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        if self._workers is not None:
            checkpoint[_RANDOM] = self._workers.all_say(randomness.captured(), self._workers.looping)

    def on_load_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        self._random = checkpoint.get(_RANDOM)
        loops = checkpoint.get("loops", {"fit_loop": {"state_dict": {}}})
        trainer.read = loops["fit_loop"]["state_dict"].get("combined_loader", ())


class _Counted:
    """A loader that knows how far it was read; made when the processes of the training have met, for each has its share."""

    def __init__(self, loader: Any, how_far: HowFar) -> None:
        self._loader, self._how_far = loader, how_far
        self._counted: Any = None

    @classmethod
    def of(cls, loader: Any, how_far: HowFar) -> Any:
        return cls(loader, how_far) if has_known_order(loader) else loader

    def _made(self) -> Any:
        if self._counted is None and (state := self._how_far()) is not None:
            self.load_state_dict(state)
        elif self._counted is None:
            # One order that all have their share of, whatever seeds they have for the rest.
            self._counted = resumable(self._loader, seed=together.first_says(torch.initial_seed() % (1 << 63)))
        return self._counted

    def __iter__(self) -> Any:
        self._made().turn()
        return iter(self._made())

    def __len__(self) -> int:
        return len(self._made())

    def state_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = self._made().state_dict()
        return found

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._counted = resumable(self._loader, seed=state["seed"])
        self._counted.load_state_dict(state)


def _count_what_is_given_by(source: Any, how_far: HowFar) -> None:
    given = source.train_dataloader
    source.train_dataloader = lambda: _Counted.of(given(), how_far)


def _apart(what: Any, path: str, tensors: dict[str, Any]) -> Any:
    """The same without its tensors, which are kept by where they were."""
    if isinstance(what, torch.Tensor):
        tensors[path] = what
        return (_TENSOR, path)
    if isinstance(what, Mapping):
        return {key: _apart(one, f"{path}/{number}", tensors) for number, (key, one) in enumerate(what.items())}
    if isinstance(what, list | tuple):
        inner = [_apart(one, f"{path}/{number}", tensors) for number, one in enumerate(what)]
        return inner if isinstance(what, list) else tuple(inner)
    return what


def _together(what: Any, tensors: Mapping[str, Any]) -> Any:
    if isinstance(what, tuple) and len(what) == 2 and what[0] == _TENSOR:
        return tensors[what[1]]
    if isinstance(what, dict):
        return {key: _together(one, tensors) for key, one in what.items()}
    if isinstance(what, list | tuple):
        return type(what)(_together(one, tensors) for one in what)
    return what
