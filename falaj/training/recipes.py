"""From hardware, model and wishes to a recipe: how a training runs, each choice with the sentence that explains it. Pure."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, get_args

from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.training.hardware import GIB, Hardware

Precision = Literal["float32", "tf32", "bfloat16", "float16"]
Strategy = Literal["single", "ddp", "fsdp", "tensor"]
ProfileMode = Literal["off", "on", "deep"]

_NAMED: Final[Mapping[str, tuple[str, ...]]] = {  # wishes that are one of some words
    "precision": get_args(Precision),
    "strategy": get_args(Strategy),
    "attention": ("measured", "cudnn", "flash", "efficient", "math"),
}
_LEAST: Final[Mapping[str, tuple[int, str]]] = {  # wishes that are a count, and what to give instead of less
    "micro_batch": (0, "a number of rows, or 0 for whole batches"),
    "guarded_steps": (0, "a number of steps, or 0 for none"),
    "loader_workers": (0, "a number of processes, or 0 for none"),
    "padded_outputs": (1, "what outputs become a multiple of, or 1 to leave them"),
}
_WORTH_COMPILING: Final = 1_000_000  # parameters; a smaller network is trained before it would be compiled
WORTH_PADDING: Final = 1024  # outputs; of a narrower layer the product takes no time
_PADDED_TO: Final = 128
_STATE_BYTES: Final = 16  # of a parameter: itself, its gradient and two moments, each four bytes
_GATHERED_BYTES: Final = 8  # of a parameter while its block is computed: itself and its gradient
_SHARE_FOR_STATE: Final = 0.6  # of a device's memory; the rest is for activations
_GUARDED_STEPS: Final = 3


@value
class Facts:
    """What of a model and its optimiser decides."""

    parameters: int
    convolutions: bool = False
    batch_norms: bool = False
    embeddings: bool = False
    random: bool = False  # something drops out: two runs of one step differ
    largest_block: int = 0  # parameters of the largest of the blocks that repeat
    widest_output: int = 0
    odd_outputs: tuple[int, ...] = ()  # widths of large last layers that matrix units take in a slower way
    fusible: bool = True  # the optimiser has a fused form


@value
class Wishes:
    """What the author decides; None leaves a choice to Falaj."""

    precision: Precision | None = None
    compiled: bool | None = None
    attention: str | None = None
    fused_optimiser: bool | None = None
    channels_last: bool | None = None
    fused_loss: bool | None = None
    padded_outputs: int | None = None
    lean_residuals: bool | None = None
    micro_batch: int | None = None
    checkpointing: bool | None = None
    strategy: Strategy | None = None
    tensor_plan: Mapping[str, Any] | None = None  # by names of layers: "columns", "rows", "gathered" or a style of torch's
    guarded_steps: int | None = None
    loader_workers: int | None = None
    patience: float = 600.0  # seconds that a process waits for the others of its training before it ends
    profile: ProfileMode | None = None  # FALAJ_PROFILE where nobody wishes
    apply_profile: bool | None = None  # FALAJ_APPLY_PROFILE where nobody wishes


@value
class Choice:
    """What was chosen, and why."""

    value: Any
    why: str


@value
class Recipe:
    """How a training runs. `session.recipe.explain()` tells why."""

    precision: Choice
    compiled: Choice
    attention: Choice  # "measured", or the name of a kernel
    fused_optimiser: Choice
    channels_last: Choice
    fused_loss: Choice  # a wide last layer and its cross-entropy are one operation
    padded_outputs: Choice  # outputs are computed in multiples of so many; 1 leaves them
    lean_residuals: Choice  # what embeddings give is in half precision too, and with it the sums from layer to layer
    micro_batch: Choice  # rows; 0 takes a batch whole
    checkpointing: Choice
    strategy: Choice
    guarded_steps: Choice
    loader_workers: Choice

    def __iter__(self) -> Iterator[tuple[str, Choice]]:
        for field in dataclasses.fields(self):  # type: ignore[arg-type,unused-ignore]
            yield field.name, getattr(self, field.name)

    def explain(self) -> str:
        """One line for each choice."""
        return "\n".join(f"{name.replace('_', ' ')}: {choice.value}. {choice.why}" for name, choice in self)

    def but(self, name: str, new: Any, why: str) -> "Recipe":
        """The same with another choice."""
        changed: dict[str, Any] = {name: Choice(value=new, why=why)}
        return dataclasses.replace(self, **changed)  # type: ignore[type-var,unused-ignore]

    @property
    def halves(self) -> bool:
        return self.precision.value in ("bfloat16", "float16")


def choose(hardware: Hardware, facts: Facts, wishes: Wishes | None = None) -> Recipe:
    """The recipe for this model on this hardware; what is wished stands, where it can be done."""
    wishes = wishes or Wishes()
    for name, known in _NAMED.items():
        if (wish := getattr(wishes, name)) not in (None, *known):
            raise Invalid(f"{name} {wish!r} was asked for, and there is none: ask for {', '.join(known)}")
    for name, (least, instead) in _LEAST.items():
        if (count := getattr(wishes, name)) is not None and count < least:
            raise Invalid(f"{name.replace('_', ' ')} {count} was asked for: give {instead}")
    if not wishes.patience > 0:
        raise Invalid(f"a patience of {wishes.patience} seconds was asked for: give a time above 0 that others may take")
    precision = _wished(wishes, "precision") or _precision(hardware)
    _refuse_impossible(hardware, str(precision.value))
    halves = precision.value in ("bfloat16", "float16")
    strategy = _wished(wishes, "strategy") or _strategy(hardware, facts)
    cut = strategy.value in ("fsdp", "tensor")
    compiled = _wished(wishes, "compiled") or _compiled(hardware, facts, cut=cut)
    rewritten = halves and bool(compiled.value) and hardware.kind == "cuda"
    chosen = {
        "attention": _attention(hardware),
        "fused_optimiser": _fused(hardware, facts, mixed=strategy.value == "tensor"),
        "channels_last": _channels_last(hardware, facts, cut=cut),
        "fused_loss": _fused_loss(facts, rewritten=rewritten),
        "padded_outputs": _padded(facts, rewritten=rewritten),
        "lean_residuals": _lean(facts, rewritten=rewritten),
        "micro_batch": Choice(
            value=0, why="A batch is taken whole; when memory does not suffice it is halved, and halved again."
        ),
        "checkpointing": _checkpointing(hardware, facts),
        "strategy": strategy,
        "guarded_steps": _guarded(str(precision.value), facts, cut=cut),
        "loader_workers": Choice(
            value=0, why="A loader that has none is given as many as its first batches show to be needed."
        ),
    }
    each = {name: _wished(wishes, name) or choice for name, choice in chosen.items()}
    return Recipe(precision=precision, compiled=compiled, **each)


def safer(recipe: Recipe, why: str) -> Recipe | None:
    """The next recipe to trust when numbers depart from float32; None where there is none safer."""
    if recipe.precision.value == "float32":
        return None
    plain = {"precision": "float32", "compiled": False, "fused_loss": False, "padded_outputs": 1, "lean_residuals": False}
    for name, value_of in {**plain, "guarded_steps": 0}.items():
        recipe = recipe.but(name, value_of, why)
    return recipe


def _wished(wishes: Wishes, name: str) -> Choice | None:
    wish = getattr(wishes, name)
    return None if wish is None else Choice(value=wish, why="You asked for it.")


def _refuse_impossible(hardware: Hardware, precision: str) -> None:
    here = hardware.name or hardware.kind
    if precision == "float16" and hardware.kind != "cuda":
        raise Invalid(
            f"float16 was asked for on {here}: its gradients vanish without a GPU's loss scaling. Ask for bfloat16 or float32"
        )
    if precision == "tf32" and not hardware.tf32:
        raise Invalid(f"tf32 was asked for on {here}, which does not have it: it came with NVIDIA's Ampere. Ask for float32")


def _precision(hardware: Hardware) -> Choice:
    if hardware.kind == "cuda" and hardware.bfloat16:
        rate = hardware.peaks.get("bfloat16", 0) / hardware.peaks.get("float32", 1)
        much = f" {rate:.0f} times as fast as in float32" if rate else " many times as fast as in float32"
        return Choice(
            value="bfloat16",
            why=f"{hardware.name or 'This GPU'} multiplies{much}; weights, optimiser and sums of products stay in float32.",
        )
    if hardware.kind == "cuda":
        return Choice(
            value="float16", why="This GPU has no bfloat16; the loss is scaled so that small gradients do not vanish."
        )
    if hardware.bfloat16:
        return Choice(
            value="bfloat16", why="This CPU multiplies bfloat16 in its matrix units; weights and optimiser stay in float32."
        )
    return Choice(value="float32", why="There are no units for half precision here: it would only be converted back and forth.")


def _compiled(hardware: Hardware, facts: Facts, *, cut: bool) -> Choice:
    if cut:
        return Choice(value=False, why="Layers are fetched from other processes while the model runs, which is no one program.")
    if not hardware.compiler:
        return Choice(value=False, why="There is no code generator for this device here.")
    if hardware.kind != "cuda":
        return Choice(value=False, why="On a CPU the time to compile is rarely won back; ask for it when a run takes hours.")
    if facts.parameters < _WORTH_COMPILING:
        return Choice(value=False, why=f"{facts.parameters:,} parameters are trained sooner than compiled.")
    return Choice(
        value=True,
        why="Model and loss become one program, whose steps between products are fused: less passes through memory.",
    )


def _attention(hardware: Hardware) -> Choice:
    if hardware.kind != "cuda":
        return Choice(value="torch's own", why="There is one kernel for this device.")
    return Choice(value="measured", why="The kernels are timed at the first step, on its shapes; the fastest is taken.")


def _fused(hardware: Hardware, facts: Facts, *, mixed: bool) -> Choice:
    if mixed:
        return Choice(value=False, why="Some layers are cut and some are whole: no kernel takes both at once.")
    if not facts.fusible:
        return Choice(value=False, why="This optimiser has no fused form.")
    if hardware.kind != "cuda":
        return Choice(value=False, why="On this device a fused optimiser gains nothing that would show.")
    return Choice(
        value=True, why="One kernel updates all weights, in one pass through memory; steps with a bad loss are left out there."
    )


def _channels_last(hardware: Hardware, facts: Facts, *, cut: bool) -> Choice:
    if cut:
        return Choice(value=False, why="What is shared out among processes lies in the usual order.")
    if not facts.convolutions:
        return Choice(value=False, why="There are no convolutions over images.")
    if hardware.kind != "cuda":
        return Choice(value=False, why="Convolutions on this device choose their own order.")
    return Choice(
        value=True, why="Matrix units read images with the channels last; else each convolution would turn them around."
    )


def _fused_loss(facts: Facts, *, rewritten: bool) -> Choice:
    if rewritten and facts.widest_output >= WORTH_PADDING:
        return Choice(
            value=True,
            why=f"{facts.widest_output:,} scores of a row and their gradients are read and written once, and never in float32.",
        )
    return Choice(value=False, why="No last layer is wide enough, or the program is not compiled for a GPU.")


def _padded(facts: Facts, *, rewritten: bool) -> Choice:
    wide = [width for width in facts.odd_outputs if width >= WORTH_PADDING]
    if not wide or not rewritten:
        return Choice(value=1, why="No wide layer has an odd number of outputs, or the program is not compiled for a GPU.")
    named = ", ".join(f"{width:,} as {-(-width // _PADDED_TO) * _PADDED_TO:,}" for width in wide)
    return Choice(
        value=_PADDED_TO,
        why=f"Rows of odd length lie across the memory's lanes: {named}. What is added nobody sees.",
    )


def _lean(facts: Facts, *, rewritten: bool) -> Choice:
    if facts.embeddings and rewritten:
        return Choice(
            value=True, why="What embeddings give, and the sums from layer to layer, are in half precision: half the bytes."
        )
    return Choice(value=False, why="There are no embeddings, or the program is not compiled for a GPU.")


def _checkpointing(hardware: Hardware, facts: Facts) -> Choice:
    state = facts.parameters * _STATE_BYTES
    if hardware.memory and state > 0.8 * hardware.memory * hardware.count:
        return Choice(
            value=True, why=f"Weights and optimiser take {state / GIB:.0f} GiB: activations are computed twice, not kept."
        )
    return Choice(value=False, why="Activations are kept: to compute them again would cost a third more.")


def _strategy(hardware: Hardware, facts: Facts) -> Choice:
    state = facts.parameters * _STATE_BYTES
    if hardware.count < 2:
        return Choice(value="single", why="There is one device.")
    block = facts.largest_block * _GATHERED_BYTES
    if block > _SHARE_FOR_STATE * hardware.memory:
        return Choice(
            value="tensor",
            why=f"One block takes {block / GIB:.0f} GiB while it is computed, too much for one device: all compute it.",
        )
    if state > _SHARE_FOR_STATE * hardware.memory:
        return Choice(
            value="fsdp",
            why=f"Weights and optimiser take {state / GIB:.0f} GiB, too much for one device: they are shared out.",
        )
    return Choice(value="ddp", why="The model fits one device: each has a whole copy and a part of the batch.")


def _guarded(precision: str, facts: Facts, *, cut: bool) -> Choice:
    if precision == "float32":
        return Choice(value=0, why="The recipe is float32 itself.")
    if cut:
        return Choice(value=0, why="float32 takes memory that a model which is shared out may not have; ask for it if it has.")
    rest = "; dropped values differ by chance, so that only the loss is compared, and widely" if facts.random else ""
    return Choice(
        value=_GUARDED_STEPS,
        why=f"Loss and gradients of the first steps are compared with float32{rest}; when they depart, float32 takes over.",
    )
