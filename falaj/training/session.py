"""`Session`: what a plain training loop needs to run close to the hardware's limit.

session = Session()
model, optimiser = session.prepare(model, optimiser)
for epoch in session.epochs(3):
    for batch in session.batches(loader):
        loss = session.step(loss_of, batch)  # loss_of(model, batch) gives the mean loss of the batch's rows
session.finish()
"""

import contextlib
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NoReturn

import torch

from falaj.training import applying, attention, guard, optimisers, pieces, strategies, together
from falaj.training.awaited import Awaited
from falaj.training.batches import ahead, on, rows_of
from falaj.training.detection import detect, facts_of
from falaj.training.errors import LossNotFinite, NotPrepared
from falaj.training.feeding import Feed
from falaj.training.guarding import Beside
from falaj.training.hardware import Hardware
from falaj.training.probing import LoaderSearch, Loading
from falaj.training.profiling.clock import COMMUNICATION, COMPUTE, OPTIMISER, TRANSFER
from falaj.training.profiling.sessions import profile_for
from falaj.training.programs import LossOf, Programs
from falaj.training.receiving import received
from falaj.training.recipes import Facts, Recipe, Wishes, choose, safer
from falaj.training.recovering import Recovering
from falaj.training.saves import Saves
from falaj.training.watching import Watch

_LOG: Final = logging.getLogger("falaj.training")


class Session:
    """One model, one optimiser, one device. `notes` keeps what was said on the way. Not for several threads."""

    def __init__(
        self,
        wishes: Wishes | None = None,
        *,
        saves: Saves | None = None,
        hardware: Hardware | None = None,
        say: Callable[[str], None] | None = None,
    ) -> None:
        self.hardware = hardware or detect()
        self.device = together.place(self.hardware.kind)
        self.steps = 0
        self.notes: list[str] = []
        self.verdicts: list[guard.Verdict] = []
        self._wishes, self._say_on = wishes or Wishes(), say or _LOG.warning
        self.profile = profile_for(self.hardware, self._wishes)
        self.clock, self._wishes = self.profile.clock, self.profile.wishes(self._wishes)
        self._prepared: tuple[Any, Any, Facts, Recipe] | None = None
        self._programs: Any = None
        self._scaler: Any = None
        self._pieces: Any = None
        self._together: together.Together = together.Alone()
        self._watch: Watch | None = None
        self._guarded = 0
        self._attention, self._looked = "", False
        self._awaited = Awaited()
        self._saves = saves or Saves()
        self._feed: Any = None
        self._recovering: Any = None
        self._saved_at = 0

    @property
    def recipe(self) -> Recipe:
        return self._ready()[3]

    def prepare(
        self, model: Any, optimiser: Any, *, scheduler: Any = (), others: Mapping[str, Any] | None = None
    ) -> tuple[Any, Any]:
        """The same two, on the device and in the form that the recipe asks for; as they were in the last checkpoint, if there
        is one. `scheduler`, or several, and `others` by name are what has a `state_dict` to be saved as well."""
        facts = facts_of(model, optimiser)
        recipe = choose(self.hardware, facts, self._wishes)
        self._together = strategies.named(recipe.strategy.value, self._wishes)
        if self._together.several:
            patience = self._wishes.patience
            together.join(self.hardware.kind, 1.1 * patience + 5)  # who waits in vain is heard first
            self._watch = Watch(patience, lambda said: self.profile.run.words({"falaj.training.stopped": said}))
        with self._waiting("prepare"):
            self._together.take(model, optimiser, self.device)
            self._follow(model, optimiser, facts, recipe)
            self._feed = self._feed_for(together.first_says(torch.initial_seed() % (1 << 63)))
            parts = {"session": self, "data": self._feed} | {f"own {name}": one for name, one in (others or {}).items()}
            self._recovering = Recovering(self._saves, model=model, optimiser=optimiser, schedulers=scheduler, parts=parts)
            self._saved_at = self.steps
        _LOG.info("The recipe:\n%s", self.recipe.explain())
        self.profile.trains(self.recipe, facts, self.hardware)
        return model, optimiser

    def epochs(self, count: int) -> Iterator[int]:
        """Numbers from 0 to `count`; after a restart from the one that the training was in."""
        self._ready()
        for epoch in range(self._feed.epoch, count):
            self._feed.begin(epoch)
            yield epoch
        self._feed.begin(max(count, self._feed.epoch))

    def batches(self, loader: Iterable[Any]) -> Iterator[Any]:
        """The loader's batches on the device; on a GPU they are copied while it computes. After a restart, those that are left.

        When the next one is asked for and a step was taken with the last one, a checkpoint that is due is saved. Where the job
        must go, an evaluation is left, too: among several processes all of them have to take part in it.
        """
        self._ready()
        self._recovering.settle()
        batches: Iterator[Any] = self._feed.over(loader)
        return batches

    def checkpoint(self, *, now: bool = False, metric: float | None = None) -> None:
        """Saves, if it is time or to be `now`; where the job must go, saves and leaves with code 143. `batches` does it after
        each step. `metric` is what the best checkpoints are chosen by. Without a folder for them it does nothing."""
        self._ready()
        self._saved_at = self.steps
        with self._waiting("a checkpoint"):
            leaving = self._recovering.stepped(self.steps, lambda: self._look_at_losses(at_all=True), now=now, metric=metric)
        if leaving:
            self.profile.close()
            self._recovering.leave()

    def step(self, loss_of: LossOf, *batch: Any) -> Any:
        """One step of the optimiser on `loss_of(model, *batch)`. Gives the loss, on the device."""
        loss = self.backward(loss_of, *batch)
        self.update(loss)
        return loss

    def backward(self, loss_of: LossOf, *batch: Any) -> Any:
        """Loss and gradients. For what comes between them and the step, such as clipping; `update` follows."""
        self._look_at_losses()
        self.clock.turn(TRANSFER)
        batch = on(self.device, batch, channels_last=self.recipe.channels_last.value)
        self.clock.turn(COMPUTE)
        self.profile.saw(batch, self._pieces.rows)
        if not self._looked:
            self._look(loss_of, batch)
            self._count(loss_of, batch)
        with self._waiting(f"step {self.steps + 1}"):
            loss = self._gradients(loss_of, batch)
            if self._together.several:
                self.clock.turn(COMMUNICATION)
                self._together.settle(loss, self._ready()[0].parameters())
                if self._scaler is not None:
                    together.overflow_alike(self._scaler, self._ready()[1])
        self.clock.turn(OPTIMISER)
        return loss

    def update(self, loss: Any) -> None:
        """The optimiser's step, unless the loss is not finite."""
        _, optimiser, _, recipe = self._ready()
        self.steps += 1
        if self._scaler is not None:
            self._scaler.step(optimiser)  # leaves out steps whose gradients overflow, which float16's do now and then
            self._scaler.update()
            self._awaited.add(self.steps, loss)
        elif recipe.fused_optimiser.value and self.device.type == "cuda" and self._together.whole:
            optimisers.leave_out_when(optimiser, (~torch.isfinite(loss)).float())
            optimiser.step()
            self._awaited.add(self.steps, loss)
        else:
            if not math.isfinite(float(loss)):
                self._stop(LossNotFinite(self.steps, float(loss)))
            optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        self.profile.stepped()

    def largest_batch(self, loss_of: LossOf, batch_of: Callable[[int], Any], *, most: int = 1 << 16) -> int:
        """How many rows fit into memory; `batch_of(rows)` makes the arguments of a step. Tried uncompiled, which takes more."""
        images = self.recipe.channels_last.value
        return pieces.largest(self._programs, self._ready()[0], self.device, loss_of, batch_of, images=images, most=most)

    def state_dict(self) -> dict[str, Any]:
        """What a session that goes on elsewhere has to know beside the model and the optimiser."""
        return {
            "steps": self.steps,
            "micro_batch": self._pieces.rows,
            "precision": self.recipe.precision.value,
            "attention": self._attention if self._looked else None,
            "scaler": {} if self._scaler is None else self._scaler.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """After `prepare`. What the guard took back stays taken back."""
        model, optimiser, facts, recipe = self._ready()
        if state["precision"] == "float32" != recipe.precision.value:
            slower = safer(recipe, "The training had departed from float32 before it was resumed.")
            self._follow(model, optimiser, facts, slower or recipe)
        self.steps, self._pieces.rows, self._guarded = state["steps"], state["micro_batch"], 0
        if state["attention"] is not None:
            self._attention, self._looked = state["attention"], True
            self._change("attention", self._attention, "As it was found before the training was resumed.")
        if self._scaler is not None and state["scaler"]:
            self._scaler.load_state_dict(state["scaler"])

    def finish(self) -> None:
        """Waits for what is under way, and saves the end; raises what a step that nobody looked at yet should have."""
        self._look_at_losses(at_all=True)
        if self._recovering is not None:
            with self._waiting("the last checkpoint"):
                self._recovering.finish(self.steps)
            self._recovering.close()
            self._feed.close()
        self.profile.close()

    def _ready(self) -> tuple[Any, Any, Facts, Recipe]:
        if self._prepared is None:
            raise NotPrepared("the session has no model yet: call prepare(model, optimiser) before the first step")
        return self._prepared

    def _follow(self, model: Any, optimiser: Any, facts: Facts, recipe: Recipe) -> None:
        """From now on this recipe."""
        self._prepared = (model, optimiser, facts, recipe)
        applying.apply(recipe, facts, model, self.device.type)
        if recipe.fused_optimiser.value:
            optimisers.fuse(optimiser)
        self._scaler = torch.amp.GradScaler(self.device.type) if recipe.precision.value == "float16" else None
        self._programs = Programs(model, recipe, self.device, self._say)
        rows, whole = recipe.micro_batch.value, self._together.whole
        self._pieces = pieces.Pieces(self._programs, optimiser, self.device, rows=rows, whole=whole, halved=self._halved)
        self._guarded = recipe.guarded_steps.value

    def _feed_for(self, seed: int) -> Feed:
        searching = self._wishes.loader_workers is None and "loader_workers" not in self.profile.taken
        cores = max(1, self.hardware.cores // together.on_this_machine())
        return Feed(
            _Between(self),
            self._onto_device,
            seed=seed,
            dealt=self._together.dealt,
            counted=bool(self._saves.place()),
            workers=self._wishes.loader_workers,
            search=(lambda: LoaderSearch(cores)) if searching else None,
        )

    def _onto_device(self, loader: Iterable[Any]) -> Iterator[Any]:
        images = self.recipe.channels_last.value
        return self.profile.batches(
            loader,
            lambda awaited: ahead(awaited, self.device, channels_last=images),
            received=lambda sent: received(sent, self.device),
        )

    def _between_batches(self, *, known: bool) -> None:
        """After each batch. If a step was taken with it, it is time to think of a checkpoint; else of going alone. Loaders
        whose order is not `known` may have more batches in one process than in another."""
        if self.steps != self._saved_at:
            self.checkpoint()
        elif known or not self._together.several:
            with self._waiting("an evaluation, which all have to take part in"):
                leaving = self._recovering.must_go()
            if leaving:
                self.checkpoint(now=True)

    def _waiting(self, what: str) -> contextlib.AbstractContextManager[None]:
        """Around what needs the other processes of the training."""
        return contextlib.nullcontext() if self._watch is None else self._watch.over(what)

    def _all(self, fine: bool) -> bool:
        """Whether it is so in every process of the training: they must take the same way."""
        return self._together.agreed(fine, self.device)

    def _gradients(self, loss_of: LossOf, batch: Any) -> Any:
        beside = self._beside(loss_of, batch)
        loss = self._pieces.gradients(loss_of, batch, scaler=self._scaler, kernel=self._attention)
        if self._scaler is not None:
            self._scaler.unscale_(self._ready()[1])
        return loss if beside is None else self._guard(loss, beside)

    def _say(self, sentence: str) -> None:
        self.notes.append(f"step {self.steps + 1}: {sentence}")
        self._say_on(self.notes[-1])

    def _change(self, name: str, new: Any, why: str) -> None:
        model, optimiser, facts, recipe = self._ready()
        self._prepared = (model, optimiser, facts, recipe.but(name, new, why))
        self.profile.tell_recipe(self.recipe)

    def _look(self, loss_of: LossOf, batch: Any) -> None:
        """At the attention that the model asks for: which kernel is fastest for it."""
        model = self._ready()[0]
        self._attention, self._looked = str(self.recipe.attention.value), True
        if self._attention != "measured":
            return
        self._attention = ""
        seen = attention.Seen()
        with guard.unnoticed(model), torch.no_grad(), seen, contextlib.suppress(torch.OutOfMemoryError):
            self._programs.plain(loss_of, batch)  # what does not fit is seen up to there
        together.give_back_memory(self.device)
        if (found := seen.fastest(self.device)) is not None:
            self._attention = found[0]
            self._change("attention", *found)

    def _count(self, loss_of: LossOf, batch: Any) -> None:
        """The work of a step, for the share of the device's peak."""
        if self.profile.counts:
            with guard.unnoticed(self._ready()[0]):
                self.profile.count(lambda: self._programs.plain(loss_of, batch), rows_of(batch))
            together.give_back_memory(self.device)

    def _halved(self, why: str) -> None:
        self._change("micro_batch", self._pieces.rows, why)
        self._say(why)

    def _beside(self, loss_of: LossOf, batch: Any) -> Beside | None:
        """The step in float32, as long as the guard looks."""
        if not self._guarded:
            return None
        model, _, facts, _ = self._ready()
        whole = facts.batch_norms or not self._together.whole
        beside = Beside(model, loss_of, batch, self._pieces.rows or rows_of(batch), whole=whole)
        if self._all(beside.exact is not None):
            return beside
        self._say("The guard could not compare with float32, which does not fit into memory here")
        self._guarded = 0
        return None

    def _guard(self, loss: Any, beside: Beside) -> Any:
        model, optimiser, facts, recipe = self._ready()
        products, scaled = self._together.products, self._scaler is not None
        verdict = beside.verdict(loss, recipe=recipe, random=facts.random, scaled=scaled, products=products)
        self.verdicts.append(verdict)
        self._guarded -= 1
        together.give_back_memory(self.device)  # float32 took more than will be needed
        if self._all(verdict.passed):
            return loss
        slower = safer(recipe, f"Step {self.steps + 1} departed from float32: {verdict.why}.")
        if slower is None:
            return loss
        self._say(f"The recipe departs from float32 ({verdict.why}); it goes on in {slower.precision.value}")
        self._follow(model, optimiser, facts, slower)
        self.profile.tell_recipe(slower)
        return beside.take_over(loss)

    def _look_at_losses(self, *, at_all: bool = False) -> None:
        try:
            self._awaited.look(at_all=at_all)
        except LossNotFinite as bad:
            self._stop(bad)

    def _stop(self, bad: LossNotFinite) -> NoReturn:
        """What was saved before stays; the run says at which step."""
        self.profile.run.words({"falaj.training.stopped_at": str(bad.step), "falaj.training.stopped": str(bad)})
        self.profile.close()
        self._recovering.close()
        raise bad


class _Between:
    """What a session does between two batches, for its feed."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def steps(self) -> int:
        return self._session.steps

    def given(self, *, known: bool) -> None:
        self._session._between_batches(known=known)

    def chosen(self, found: Loading) -> None:
        self._session._change("loader_workers", found.workers, found.why)

    def read_through(self) -> None:
        self._session._recovering.read_through()

    def moved_on(self) -> bool:
        return bool(self._session._recovering.moved_on())
