"""The profile of a session or a Trainer: what needs torch to be found out or to be changed."""

import dataclasses
import logging
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, get_args

import torch
from torch.utils.flop_counter import FlopCounterMode

from falaj.base.errors import Invalid
from falaj.training.hardware import Hardware
from falaj.training.profiling import loaders
from falaj.training.profiling.changes import changes_in, in_words, keeper_from_environment
from falaj.training.profiling.clock import WARM_UP, NoClock, StepClock
from falaj.training.profiling.deep import OVER, DeepProfile
from falaj.training.profiling.devices import Devices, Gpu, Processes, cpus_here
from falaj.training.profiling.events import EventTimeline
from falaj.training.profiling.names import APPLY, VARIABLE
from falaj.training.profiling.profile import Onto, Profile
from falaj.training.profiling.verdicts import Setting
from falaj.training.recipes import Facts, ProfileMode, Recipe, Wishes
from falaj.training.telling import NoRun, is_first, run_from_environment
from falaj.training.together import on_this_machine

_LOG: Final = logging.getLogger("falaj.training")
_BACK_AND_FORTH: Final = 3  # backward takes twice what forward does


class SessionProfile(Profile):
    """A profile that counts the batches of torch's tensors, and changes torch's loaders."""

    _reading: loaders.Loading | None = None

    def wishes(self, wishes: Wishes) -> Wishes:
        """With what an earlier start found; what the author wishes stands above it."""
        for name in ("micro_batch", "loader_workers"):
            if getattr(wishes, name) is not None:
                self.taken.pop(name, None)
        if "micro_batch" not in self.taken:
            return wishes
        rows: dict[str, Any] = {"micro_batch": self.taken["micro_batch"]}
        return dataclasses.replace(wishes, **rows)  # type: ignore[type-var,unused-ignore]

    def tell_recipe(self, recipe: Recipe) -> None:
        for name in ("micro_batch", "loader_workers"):
            if name in self.taken:
                recipe = recipe.but(name, self.taken[name], "The profile of an earlier start asked for it.")
        super().tell_recipe(recipe)

    def trains(self, recipe: Recipe, facts: Facts, hardware: Hardware) -> None:
        self.peak = hardware.peaks.get(str(recipe.precision.value), 0.0)
        self.sees(parameters=facts.parameters, precision=str(recipe.precision.value))
        self.sees(processes=max(1, hardware.count), together=on_this_machine())
        self.begin(recipe)

    def batches(self, loader: Iterable[Any], onto: Onto, *, received: Onto = iter) -> Iterator[Any]:
        self.reads(loader)
        return super().batches(loader, onto, received=received)

    def reads(self, loader: Any) -> None:
        """Before its first iteration: it gets the processes that an earlier start found to be enough."""
        workers, pinned = self.taken.get("loader_workers"), self.taken.get("pin_memory")
        if workers is not None or pinned is not None:
            if (workers or 0) > self.setting.cpus:  # which wait more than they compute, as was measured: torch cannot know
                warnings.filterwarnings("ignore", message="This DataLoader will create", category=UserWarning)
            loaders.give(loader, workers=workers, pinned=None if pinned is None else bool(pinned))
        self._reading = loaders.seen(loader)

    def saw(self, batch: Any, micro: int = 0) -> None:
        """The batch of the step under way."""
        if self._reading is not None:
            self._trains_with(self._reading)
        first = _first_tensor(batch)
        if first is None:
            return
        rows = first.shape[0]
        words = first.numel() if first.dim() == 2 and not first.is_floating_point() else 0
        self.clock.saw(rows, words)
        if rows > self.setting.batch or micro != self.setting.micro:
            self.sees(batch=max(rows, self.setting.batch), micro=micro)

    def _trains_with(self, loading: loaders.Loading) -> None:
        if self.clock.steps and loading.workers != self.setting.workers:
            self.anew()
        self.sees(workers=loading.workers, stream=loading.stream, pinned=loading.pinned)
        self._reading = None

    @property
    def counts(self) -> bool:
        """Whether the work of a step is still to be counted; nobody needs it where no peak is known."""
        return bool(self.peak) and not self.flops_of_a_row

    def count(self, forward: Callable[[], Any], rows: int) -> None:
        """The work of one step, once, by running forward: kernels that nobody registered count for nothing."""
        counter = FlopCounterMode(display=False)
        try:
            with counter, torch.no_grad():
                forward()
        except Exception as error:  # noqa: BLE001 - whatever is wrong with the step itself, the step will say
            _LOG.debug("The work of a step could not be counted: %s", error)
            return
        self.flops_of_a_row = max(1.0, _BACK_AND_FORTH * float(counter.get_total_flops()) / max(1, rows))


def profile_for(hardware: Hardware, wishes: Wishes, variables: Mapping[str, str] = os.environ) -> SessionProfile:
    """As it was wished, or else as FALAJ_PROFILE says: on, off or deep."""
    mode = wishes.profile or variables.get(VARIABLE, "on")
    if mode not in get_args(ProfileMode):
        raise Invalid(f"profile {mode!r} was asked for, and there is none: ask for {', '.join(get_args(ProfileMode))}")
    allowed = variables.get(APPLY, "0")
    apply = allowed != "0" if wishes.apply_profile is None else wishes.apply_profile
    first = is_first(variables)
    follows = first and mode != "off"
    timeline = EventTimeline() if hardware.kind == "cuda" and follows else None
    profile = SessionProfile(
        StepClock(timeline=timeline, warm_up=OVER if mode == "deep" else WARM_UP) if follows else NoClock(),
        _setting(hardware, variables),
        run=run_from_environment(variables),
        devices=Devices(_gpu() if hardware.kind == "cuda" else None, Processes()) if follows else None,
        keeper=keeper_from_environment(variables) if mode != "off" else None,
        apply=apply,
        found=changes_in(allowed),
    )
    if profile.taken:
        _LOG.info("As the profile of an earlier start asks for: %s", in_words(profile.taken))
    if "threads" in profile.taken:
        torch.set_num_threads(profile.taken["threads"])
        profile.sees(threads=profile.taken["threads"])
    if mode == "deep" and first:
        _record(profile)
    return profile


def _setting(hardware: Hardware, variables: Mapping[str, str]) -> Setting:
    given = "FALAJ_JOB" in variables and bool(variables.get("CUDA_VISIBLE_DEVICES"))
    return Setting(
        kind=hardware.kind,
        cpus=min(hardware.cores, cpus_here(variables)),
        threads=torch.get_num_threads(),
        idle_gpu=given and hardware.kind != "cuda",
    )


def _first_tensor(batch: Any) -> Any:
    """The first that has rows; asked at every step, so that no other is looked at."""
    if isinstance(batch, torch.Tensor):
        return batch if batch.dim() else None
    parts = batch.values() if isinstance(batch, dict) else batch if isinstance(batch, list | tuple) else ()
    for part in parts:
        if (found := _first_tensor(part)) is not None:
            return found
    return None


def _gpu() -> Gpu:
    found: Any = torch.cuda.get_device_properties(torch.cuda.current_device())
    return Gpu(f"GPU-{getattr(found, 'uuid', '')}")


def _record(profile: SessionProfile) -> None:
    """Into the run, or where there is none into the working folder."""
    folder = Path.cwd()
    if not isinstance(profile.run, NoRun):
        folder = Path(tempfile.mkdtemp(prefix="falaj-profile-"))
        profile.after_closing(lambda: shutil.rmtree(folder, ignore_errors=True))
    deep, clock = DeepProfile(folder, profile.run.file), profile.clock

    def stepped() -> None:
        clock.stepped()
        deep.stepped()

    profile.stepped = stepped
    profile.before_closing(deep.close)
