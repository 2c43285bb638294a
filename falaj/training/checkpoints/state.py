"""All that a training consists of at a step, taken apart for saving and put together again."""

import io
import pickle  # nosec B403 - its errors alone
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.nn import Module
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from falaj.base.values import value
from falaj.training.checkpoints import randomness
from falaj.training.checkpoints.errors import Mismatched, Unsaveable
from falaj.training.checkpoints.manifests import Entry
from falaj.training.checkpoints.optimisers import Optimisers
from falaj.training.checkpoints.sharing import share_of
from falaj.training.checkpoints.staging import local

_MODEL: Final = "model/"
COMMON: Final = "common"
_WRAPPINGS: Final = ("_orig_mod.", "_checkpoint_wrapped_module.")  # of compilation and of recomputed activations


class HasState(Protocol):
    """Schedulers, scalers, averages: what keeps its state as torch's parts do."""

    def state_dict(self) -> Any: ...

    def load_state_dict(self, state_dict: Any) -> Any: ...


@value
class Captured:
    """Of one process: its share of the tensors, and the rest as bytes. The tensors are the training's own."""

    tensors: Mapping[str, Tensor]
    blobs: Mapping[str, bytes]


class Saveable(Protocol):
    """What `Checkpoints` can save and load: a training's state taken apart, and put together again."""

    step: int

    def captured(self, rank: int, workers: int) -> Captured: ...

    def targets(self, entries: Mapping[str, Entry]) -> dict[str, Tensor]: ...

    def restore(self, loaded: Mapping[str, Tensor], common: bytes, process: bytes | None, rank: int) -> None: ...


class TrainingState:
    """The parts of a training and how many steps it has done.

    `loader` is a `ResumableLoader`. `others` has anything else that keeps its state, by a name, the same in every process.
    Random states are part of it: with as many processes as before, a training that was loaded goes on bit for bit.
    """

    def __init__(
        self,
        *,
        model: Module,
        optimisers: Optimizer | Sequence[Optimizer] = (),
        schedulers: HasState | Sequence[HasState] = (),
        scaler: HasState | None = None,
        loader: HasState | None = None,
        others: Mapping[str, HasState] | None = None,
    ) -> None:
        self.step = 0
        self._model = _bare(model)
        several = (optimisers,) if isinstance(optimisers, Optimizer) else optimisers
        self._optimisers = Optimisers(several, {one: clean(name) for name, one in self._model.named_parameters()})
        found = tuple(schedulers) if isinstance(schedulers, Sequence) else (schedulers,)
        named = {f"scheduler {at}": one for at, one in enumerate(found)} | {"scaler": scaler, "loader": loader}
        own = {f"other {name}": one for name, one in (others or {}).items()}
        self._parts: dict[str, HasState] = {name: one for name, one in (named | own).items() if one is not None}
        self._is_checked = False

    # 1. Saving

    def captured(self, rank: int, workers: int) -> Captured:
        """This process's share, at this moment. What every process holds alike is saved by one of them."""
        own, trained = self._model_tensors(), self._optimisers.shared()
        every = own | self._optimisers.tensors()
        # Buffers are the first process's: DDP gives it to the others before each step.
        first = {key for key in own if key.removeprefix(_MODEL) not in trained} if rank == 0 else set()
        alike = {key: one.nbytes for key, one in every.items() if key not in own or key.removeprefix(_MODEL) in trained}
        share = share_of(rank, workers, divisible={key: size for key, size in alike.items() if not _is_cut(every[key])})
        tensors = {key: one for key, one in every.items() if _is_cut(one) or key in share or key in first}
        blobs = {process_blob(rank): self._packed(randomness.captured())}
        if rank == 0:
            blobs[COMMON] = self._packed(self._common())
        self._is_checked = True
        return Captured(tensors=tensors, blobs=blobs)

    def _common(self) -> dict[str, Any]:
        return {
            "step": self.step,
            "optimisers": self._optimisers.values(),
            "parts": {name: one.state_dict() for name, one in self._parts.items()},
            "model": {clean(key): one for key, one in self._model.state_dict().items() if not isinstance(one, Tensor)},
        }

    def _packed(self, what: dict[str, Any]) -> bytes:
        return pack(what, checked=not self._is_checked)

    # 2. Loading

    def targets(self, entries: Mapping[str, Entry]) -> dict[str, Tensor]:
        """The tensors to load into, of the model and its optimisers. What does not fit is refused before anything changes."""
        whole = self._model_tensors(every=True)
        saved = {key: entry for key, entry in entries.items() if key.startswith(_MODEL)}
        held = {_place(whole[key]) for key in saved if key in whole}
        missing = [key for key, one in whole.items() if key not in saved and _place(one) not in held]
        surplus = [key for key in saved if key not in whole]
        other = [key for key, entry in saved.items() if key in whole and tuple(whole[key].shape) != entry.size]
        for keys, words in ((missing, "lacks"), (surplus, "has what the model lacks:"), (other, "has other sizes of")):
            if keys:
                names = ", ".join(key.removeprefix(_MODEL) for key in keys[:5])
                more = f" and {len(keys) - 5} more" if len(keys) > 5 else ""
                raise Mismatched(f"The checkpoint is of another model: it {words} {names}{more}.")
        return {key: whole[key] for key in saved} | self._optimisers.targets(entries)

    def restore(self, loaded: Mapping[str, Tensor], common: bytes, process: bytes | None, rank: int) -> None:
        """Once the tensors were loaded. Without a random state of this process's own, one is made of the step and its rank."""
        values = unpacked(common)
        self._restore_model(loaded, values["model"])
        self._optimisers.restore({key: one for key, one in loaded.items() if not key.startswith(_MODEL)}, values["optimisers"])
        if set(values["parts"]) != set(self._parts):
            raise Mismatched(
                f"The checkpoint has {', '.join(sorted(values['parts'])) or 'nothing'} besides model and optimisers; the "
                f"training has {', '.join(sorted(self._parts)) or 'nothing'}."
            )
        for name, one in self._parts.items():
            one.load_state_dict(values["parts"][name])
        self.step = values["step"]
        if process is not None:
            randomness.restore(unpacked(process))
        else:
            randomness.seed_all(self.step, rank)

    def _restore_model(self, loaded: Mapping[str, Tensor], rest: Mapping[str, Any]) -> None:
        """Tensors were loaded in place; the model is told all the same, for modules may do something with them."""
        state = dict(self._model.state_dict())
        for key, there in state.items():
            name = clean(key)
            state[key] = loaded.get(_MODEL + name, there) if isinstance(there, Tensor) else rest.get(name, there)
        self._model.load_state_dict(state)

    def _model_tensors(self, *, every: bool = False) -> dict[str, Tensor]:
        """By clean names; of tensors that are one and the same only the first, unless every name is wanted."""
        found, places = {}, set()
        for key, one in self._model.state_dict().items():
            if isinstance(one, Tensor):
                place = _place(one)
                if every or place not in places:
                    found[_MODEL + clean(key)] = one
                places.add(place)
        return found


def process_blob(rank: int) -> str:
    return f"process/{rank}"


def pack(what: dict[str, Any], *, checked: bool) -> bytes:
    """What could not be read back is found when it is saved for the first time, not when it is needed."""
    stream = io.BytesIO()
    try:
        torch.save(what, stream)
        if checked:
            unpacked(stream.getvalue())
    except (pickle.PickleError, AttributeError, TypeError) as error:
        raise Unsaveable(
            "The training's state holds something that is no tensor, number, text or collection of them and could only be "
            f"read by running code from the file ({_reason(error)}). Keep plain values in `state_dict`."
        ) from None
    return stream.getvalue()


def unpacked(packed: bytes) -> dict[str, Any]:
    found: dict[str, Any] = torch.load(io.BytesIO(packed), map_location="cpu", weights_only=True)
    return found


def _reason(error: Exception) -> str:
    """Torch's words are a page; the object's name is what helps."""
    named = re.search(r"GLOBAL (\S+)", str(error))
    return named.group(1) if named else str(error).splitlines()[0][:200]


def clean(name: str) -> str:
    """A parameter's name in the model as its author wrote it."""
    for wrapping in _WRAPPINGS:
        name = name.replace(wrapping, "")
    return name


def _bare(model: Module) -> Module:
    """Without the wrappers of DDP and of compilation."""
    while True:
        if isinstance(model, DistributedDataParallel):
            model = model.module
        elif isinstance(inner := getattr(model, "_orig_mod", None), Module):
            model = inner
        else:
            return model


def _is_cut(tensor: Tensor) -> bool:
    return isinstance(tensor, DTensor)


def _place(tensor: Tensor) -> tuple[Any, ...]:
    """Tensors of one place are one and the same, as tied embeddings are; those without content are never."""
    own = local(tensor)
    return (own.data_ptr() or id(tensor), tuple(tensor.shape), own.stride(), own.device)
