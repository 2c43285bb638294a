"""`Session`: what a plain training loop needs to run close to the hardware's limit.

session = Session()
model, optimiser = session.prepare(model, optimiser)
for batch in session.batches(loader):
    loss = session.step(loss_of, batch)  # loss_of(model, batch) gives the mean loss of the batch's rows
"""

import contextlib
import logging
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import torch

from falaj.base.errors import Invalid
from falaj.training import attention, guard, layers, optimisers, together
from falaj.training.batches import ahead, on, parts_of, rows_of
from falaj.training.detection import detect, facts_of
from falaj.training.errors import DoesNotFit, LossNotFinite, NotPrepared
from falaj.training.hardware import Hardware
from falaj.training.probing import largest_batch
from falaj.training.programs import LossOf, Programs
from falaj.training.recipes import Facts, Recipe, Wishes, choose, safer

_LOG: Final = logging.getLogger("falaj.training")
_CUDA: Final[Any] = torch.cuda
_BEHIND: Final = 8  # steps that may be under way on a GPU before the first one's loss is awaited


class Session:
    """One model, one optimiser, one device. `notes` keeps what was said on the way. Not for several threads."""

    def __init__(
        self, wishes: Wishes | None = None, *, hardware: Hardware | None = None, say: Callable[[str], None] | None = None
    ) -> None:
        self.hardware = hardware or detect()
        self.device = together.place(self.hardware.kind)
        self.steps = 0
        self.notes: list[str] = []
        self.verdicts: list[guard.Verdict] = []
        self._wishes, self._say_on = wishes or Wishes(), say or _LOG.warning
        self._prepared: tuple[Any, Any, Facts, Recipe] | None = None
        self._programs: Any = None
        self._scaler: Any = None
        self._micro = 0
        self._together = False
        self._guarded = 0
        self._attention, self._looked = "", False
        self._under_way: deque[tuple[int, Any, Any]] = deque()

    @property
    def recipe(self) -> Recipe:
        return self._ready()[3]

    def prepare(self, model: Any, optimiser: Any) -> tuple[Any, Any]:
        """The same two, on the device and in the form that the recipe asks for."""
        model.to(self.device)
        facts = facts_of(model, optimiser)
        recipe = choose(self.hardware, facts, self._wishes)
        self._follow(model, optimiser, facts, recipe)
        self._together = recipe.strategy.value == "ddp"
        if recipe.strategy.value == "fsdp":
            raise Invalid(
                f"{recipe.strategy.why} A session keeps the model whole: make a Trainer by trainer_for(module) instead"
            )
        if self._together:
            together.join(self.hardware.kind)
            together.begin_alike(model)
        for name, choice in self.recipe:
            _LOG.info("%s: %s. %s", name, choice.value, choice.why)
        return model, optimiser

    def batches(self, loader: Iterable[Any]) -> Iterator[Any]:
        """The loader's batches on the device; on a GPU they are copied while it computes."""
        return ahead(loader, self.device, channels_last=self.recipe.channels_last.value)

    def step(self, loss_of: LossOf, *batch: Any) -> Any:
        """One step of the optimiser on `loss_of(model, *batch)`. Gives the loss, on the device."""
        loss = self.backward(loss_of, *batch)
        self.update(loss)
        return loss

    def backward(self, loss_of: LossOf, *batch: Any) -> Any:
        """Loss and gradients. For what comes between them and the step, such as clipping; `update` follows."""
        _, optimiser, _, recipe = self._ready()
        self._stop_at_bad_losses()
        batch = on(self.device, batch, channels_last=recipe.channels_last.value)
        if not self._looked:
            self._look(loss_of, batch)
        exact = self._exact(loss_of, batch) if self._guarded else None
        if self._guarded and not self._all(exact is not None):
            self._say("The guard could not compare with float32, which does not fit into memory here")
            exact, self._guarded = None, 0
        loss = self._within_memory(loss_of, batch)
        if self._scaler is not None:
            self._scaler.unscale_(optimiser)
        if exact is not None:
            loss = self._guard(loss, exact, loss_of, batch)
        if self._together:
            gradients = [parameter.grad for parameter in self._ready()[0].parameters() if parameter.grad is not None]
            together.averaged([loss, *gradients])  # a loss that is not finite is so for all: they stop at the same step
        return loss

    def update(self, loss: Any) -> None:
        """The optimiser's step, unless the loss is not finite."""
        _, optimiser, _, recipe = self._ready()
        self.steps += 1
        if self._scaler is not None:
            self._scaler.step(optimiser)  # leaves out steps whose gradients overflow, which float16's do now and then
            self._scaler.update()
            self._remember(loss)
        elif recipe.fused_optimiser.value and self.device.type == "cuda":
            optimisers.leave_out_when(optimiser, (~torch.isfinite(loss)).float())
            optimiser.step()
            self._remember(loss)
        else:
            if not math.isfinite(float(loss)):
                raise LossNotFinite(self.steps, float(loss))
            optimiser.step()
        optimiser.zero_grad(set_to_none=True)

    def largest_batch(self, loss_of: LossOf, batch_of: Callable[[int], Any], *, most: int = 1 << 16) -> int:
        """How many rows fit into memory; `batch_of(rows)` makes the arguments of a step. Tried uncompiled, which takes more."""
        model, _, _, recipe = self._ready()

        def fits(rows: int) -> bool:
            try:
                batch = on(self.device, batch_of(rows), channels_last=recipe.channels_last.value)
                with guard.unnoticed(model, self.device):
                    self._programs.plain(loss_of, batch).backward()
            except torch.OutOfMemoryError:
                return False
            finally:
                self._give_back_memory()
            return True

        return largest_batch(fits, most=most)

    def state_dict(self) -> dict[str, Any]:
        """What a session that goes on elsewhere has to know beside the model and the optimiser."""
        scaler = {} if self._scaler is None else self._scaler.state_dict()
        return {"steps": self.steps, "micro_batch": self._micro, "precision": self.recipe.precision.value, "scaler": scaler}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """After `prepare`. What the guard took back stays taken back."""
        model, optimiser, facts, recipe = self._ready()
        if state["precision"] == "float32" != recipe.precision.value:
            slower = safer(recipe, "The training had departed from float32 before it was resumed.")
            self._follow(model, optimiser, facts, slower or recipe)
        self.steps, self._micro, self._guarded = state["steps"], state["micro_batch"], 0
        if self._scaler is not None and state["scaler"]:
            self._scaler.load_state_dict(state["scaler"])

    def finish(self) -> None:
        """Waits for what is under way; raises what a step that nobody looked at yet should have."""
        self._stop_at_bad_losses(all_of_them=True)

    def _ready(self) -> tuple[Any, Any, Facts, Recipe]:
        if self._prepared is None:
            raise NotPrepared("the session has no model yet: call prepare(model, optimiser) before the first step")
        return self._prepared

    def _follow(self, model: Any, optimiser: Any, facts: Facts, recipe: Recipe) -> None:
        """From now on this recipe."""
        self._prepared = (model, optimiser, facts, recipe)
        if self.device.type == "cuda":
            torch.set_float32_matmul_precision("highest" if recipe.precision.value == "float32" else "high")
            torch.backends.cudnn.benchmark = torch.backends.cudnn.benchmark or facts.convolutions
        if recipe.channels_last.value:
            model.to(memory_format=torch.channels_last)
        if recipe.fused_optimiser.value:
            optimisers.fuse(optimiser)
        if recipe.checkpointing.value:
            layers.compute_twice(model)
        self._scaler = torch.amp.GradScaler(self.device.type) if recipe.precision.value == "float16" else None
        self._programs = Programs(model, recipe, self.device, self._say)
        self._micro, self._guarded = recipe.micro_batch.value, recipe.guarded_steps.value

    def _all(self, fine: bool) -> bool:
        """Whether it is so in every process of the training: they must take the same way."""
        return together.agreed(fine, self.device) if self._together else fine

    def _give_back_memory(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def _say(self, sentence: str) -> None:
        self.notes.append(f"step {self.steps + 1}: {sentence}")
        self._say_on(self.notes[-1])

    def _change(self, name: str, new: Any, why: str) -> None:
        model, optimiser, facts, recipe = self._ready()
        self._prepared = (model, optimiser, facts, recipe.but(name, new, why))

    def _look(self, loss_of: LossOf, batch: Any) -> None:
        """At the attention that the model asks for: which kernel is fastest for it."""
        model, _, _, recipe = self._ready()
        self._attention, self._looked = str(recipe.attention.value), True
        if self._attention != "measured":
            return
        self._attention = ""
        seen = attention.Seen()
        with guard.unnoticed(model, self.device), torch.no_grad(), seen, contextlib.suppress(torch.OutOfMemoryError):
            self._programs.plain(loss_of, batch)  # what does not fit is seen up to there
        self._give_back_memory()
        if not seen.calls:
            self._change("attention", "none", "The model calls none of torch's attention kernels.")
            return
        found = attention.times(seen.calls.most_common(1)[0][0], self.device)
        if found:
            self._attention = min(found, key=lambda name: found[name])
            told = ", ".join(f"{name} {taken:.2f} ms" for name, taken in sorted(found.items(), key=lambda one: one[1]))
            self._change("attention", self._attention, f"Timed on the model's own shapes, forward and back: {told}.")

    def _exact(self, loss_of: LossOf, batch: Any) -> guard.Reading | None:
        model, _, facts, _ = self._ready()
        parameters = list(model.parameters())

        def run(most: int) -> float:
            for parameter in parameters:
                parameter.grad = None
            total = 0.0
            for part, share in parts_of(batch, most):
                loss = loss_of(model, *part)
                (loss * share).backward()
                total += float(loss.detach()) * share
            return total

        def gradients() -> tuple[Any, ...]:
            return tuple(parameter.grad for parameter in parameters)

        with guard.unnoticed(model, self.device), guard.exactly():
            return guard.read_exactly(run, gradients, self._micro or rows_of(batch), whole=facts.batch_norms)

    def _within_memory(self, loss_of: LossOf, batch: Any) -> Any:
        """Loss and gradients, in as many pieces as memory asks for."""
        _, optimiser, _, _ = self._ready()
        while True:
            most = self._micro or rows_of(batch)
            try:
                return self._in_pieces(loss_of, batch, most)
            except torch.OutOfMemoryError as error:
                if min(most, rows_of(batch)) < 2:
                    raise DoesNotFit(
                        "one row of the batch does not fit into the device's memory: make the model or the row smaller"
                    ) from error
            optimiser.zero_grad(set_to_none=True)
            self._give_back_memory()
            self._programs.forget_shapes()
            self._micro = -(-min(most, rows_of(batch)) // 2)
            why = f"{most} rows did not fit into memory: gradients of {self._micro} at a time are added up to the same step."
            self._change("micro_batch", self._micro, why)
            self._say(why)

    def _in_pieces(self, loss_of: LossOf, batch: Any, most: int) -> Any:
        total = None
        for part, share in parts_of(batch, most):

            def weigh(loss: Any, share: float = share) -> Any:
                weighed = loss if share == 1.0 else loss * share
                return weighed if self._scaler is None else self._scaler.scale(weighed)

            with attention.preferring(self._attention):
                loss = self._programs.gradients(loss_of, part, weigh)
            weighed = loss if share == 1.0 else loss * share
            total = weighed if total is None else total + weighed
        return total

    def _guard(self, loss: Any, exact: guard.Reading, loss_of: LossOf, batch: Any) -> Any:
        model, optimiser, facts, recipe = self._ready()

        def on_rounded() -> guard.Reading | None:
            with guard.rounded(model, torch.float16 if recipe.precision.value == "float16" else torch.bfloat16):
                return self._exact(loss_of, batch)

        fast = guard.Reading(loss=float(loss), gradients=tuple(parameter.grad for parameter in model.parameters()))
        if self._scaler is not None and not math.isfinite(guard.likeness(fast.gradients, exact.gradients)[1]):
            why = "the loss's scale is still being found: the step is left out"
            verdict = guard.Verdict(passed=True, why=why, loss=fast.loss, exact_loss=exact.loss)
        else:
            verdict = guard.compare(fast, exact, random=facts.random, on_rounded=on_rounded)
        self.verdicts.append(verdict)
        self._guarded -= 1
        self._give_back_memory()  # float32 took more than will be needed
        slower = (
            None if self._all(verdict.passed) else safer(recipe, f"Step {self.steps + 1} departed from float32: {verdict.why}.")
        )
        if slower is None:
            return loss
        self._say(f"The recipe departs from float32 ({verdict.why}); it goes on in {slower.precision.value}")
        self._follow(model, optimiser, facts, slower)
        for parameter, gradient in zip(model.parameters(), exact.gradients, strict=True):
            parameter.grad = gradient  # this step is float32's already
        return torch.full_like(loss, exact.loss)

    def _remember(self, loss: Any) -> None:
        host = torch.empty((), dtype=torch.float32, pin_memory=True)
        host.copy_(loss.detach(), non_blocking=True)
        copied = _CUDA.Event()
        copied.record()
        self._under_way.append((self.steps, host, copied))

    def _stop_at_bad_losses(self, *, all_of_them: bool = False) -> None:
        while self._under_way:
            step, host, copied = self._under_way[0]
            if not (all_of_them or len(self._under_way) > _BEHIND or copied.query()):
                return
            copied.synchronize()
            self._under_way.popleft()
            if not math.isfinite(float(host)):
                self._under_way.clear()
                raise LossNotFinite(step, float(host))
