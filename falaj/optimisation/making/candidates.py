"""What is worth trying with a model, for which machine, in which order: pure. `steps` makes it.

The order is what was measured on one thread with AVX-512 VNNI: what takes seconds and gains most comes first, what has to be
trained comes last.
"""

from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

from falaj.base.values import value
from falaj.optimisation.making.profiles import Profile
from falaj.optimisation.making.tree_masks import MOST_LEAVES
from falaj.runtimes.hosts import Host

Target: TypeAlias = Literal["cpu", "gpu", "edge"]
_LITERT: Final = frozenset({"litert", "litert-int8"})
TWO_THREADS: Final = "settings:threads=2"
_MANY: Final = 1_000_000  # parameters from which weights are worth making smaller by themselves


@value
class Candidate:
    """`why` is a sentence for people."""

    name: str
    steps: tuple[str, ...]
    why: str


@value
class Planned:
    """What is tried, in this order, and what is not, with the reason."""

    candidates: tuple[Candidate, ...]
    skipped: tuple[tuple[Candidate, str], ...] = ()


def planned(profile: Profile, *, target: Target, host: Host, available: frozenset[str]) -> Planned:
    """`available` are names of steps, without what stands behind the colon; `distil:given` where there is a student."""
    kept: list[Candidate] = []
    skipped: list[tuple[Candidate, str]] = []
    for candidate in (*_thought_of(profile, target), *_for_nothing(profile, available)):
        reason = _missing(candidate, available) or _cannot(candidate, profile, target, host)
        if reason:
            skipped.append((candidate, reason))
        else:
            kept.append(candidate)
    return Planned(candidates=tuple(kept), skipped=tuple(skipped))


def _missing(candidate: Candidate, available: frozenset[str]) -> str:
    missing = sorted({step.partition(":")[0] for step in candidate.steps} - available)
    if not missing:
        unknown = "distil:given" in candidate.steps and "distil:given" not in available
        return "Nobody gave a student to be taught." if unknown else ""
    extra = "train" if set(missing) & {"prune", "sparsify", "distil", "torch-program"} else "optimise"
    return f"There is no step {' nor '.join(missing)} here: pip install 'falaj[{extra}]'."


def _cannot(candidate: Candidate, profile: Profile, target: Target, host: Host) -> str:
    words = {step.partition(":")[0] for step in candidate.steps}
    if "distil" in words and profile.family == "trees":
        return "Trees teach no network: they are no graph that gradients flow through. `trees:N` makes an ensemble of fewer."
    if "openvino-bf16" in words and not host.multiplies_bf16:
        return "This processor does not multiply in bfloat16 (no avx512_bf16, amx_bf16 or bf16)."
    if TWO_THREADS in candidate.steps and host.cores < 2:
        return "The job has one core; --cpus 2 gives it another."
    if "torch-program" in words and target == "gpu" and not host.gpu:
        return "There is no GPU on this machine to make and measure it for."
    if profile.is_quantised and words & {"int8", "openvino-int8", "int8-weights", "int4-weights", "half", "fold", *_LITERT}:
        return "The model counts in few bits already."
    if words & {"int8", "openvino-int8", "litert-int8"} and not profile.is_float:
        return "Its weights are no floats that could be rounded."
    if "trees-masks" in words and profile.leaves > MOST_LEAVES:
        return f"Its largest tree has {profile.leaves} leaves; tables of bits take {MOST_LEAVES}."
    return ""


def _thought_of(profile: Profile, target: Target) -> Iterator[Candidate]:
    if profile.family == "trees":
        yield from _of_trees(profile)
    elif profile.runtime == "onnx":
        yield from {"cpu": _for_cpu, "gpu": _for_gpu, "edge": _for_edge}[target](profile)


def _for_nothing(profile: Profile, available: frozenset[str]) -> Iterator[Candidate]:
    """What was asked for and cannot be, so that its reason is told."""
    if profile.family == "trees" and "distil:given" in available:
        yield _one(("distil:given",), "The given student taught by the model.")


def _of_trees(profile: Profile) -> Iterator[Candidate]:
    native = profile.runtime != "onnx"
    onnx = ("trees-onnx",) if native else ()
    if native:
        yield _one(onnx, "The same trees in ONNX Runtime answer several rows at once faster than their own library.")
    yield _one(("trees-masks",), "The same trees as tables of bits: looked up, not walked; for many rows at once.")
    for share in (0.5, 1 / 3, 0.2, 0.12):
        keep = max(1, round(profile.trees * share))
        if keep < 10 or keep >= profile.trees:
            continue
        fewer = f"trees:{keep}"
        said = f"{keep} of {profile.trees} trees, their leaves fitted to what all of them say"
        yield _one((fewer, "trees-masks"), f"{said}, as tables of bits.")
        yield _one((fewer, *onnx), f"{said}{', in ONNX Runtime' if native else ''}.")
        if native:
            yield _one((fewer,), f"{said}: the fastest for one row at a time.")


def _for_cpu(profile: Profile) -> Iterator[Candidate]:
    transformer, conv = profile.family == "transformer", profile.family == "conv"
    eight = [("openvino", "openvino-int8")] if transformer else [("int8", "openvino"), ("int8",)] if conv else [("int8",)]
    yield _one(("fold",), "Constants folded and neighbours fused: costs nothing, and answers stay what they are.")
    yield from _in_eight_bits(profile)
    if conv or transformer:
        yield _one(("openvino-bf16",), "By OpenVINO in bfloat16: half the bits, the range of float32.")
        yield _one(("openvino",), "The same model by OpenVINO, whose kernels suit some networks better.")
    yield from _weights_alone(profile)
    for share in ("0.3", "0.5"):
        for steps in eight:
            yield _one((f"prune:{share}", *steps), f"{_percent(share)} of the units taken out, the rest trained on, then INT8.")
    for student in _students(profile):
        yield _one((f"distil:{student}",), f"A compact {student} taught by the model.")
        for steps in eight:
            yield _one((f"distil:{student}", *steps), f"A compact {student} taught by the model, then INT8.")
    yield _one(
        ("int8", "settings:arena=off"), "INT8 without a memory arena: gives memory back after each run, for small machines."
    )
    yield _one((*eight[-1], TWO_THREADS), "INT8 on two threads: a row sooner, at the price of a second core.")


def _in_eight_bits(profile: Profile) -> Iterator[Candidate]:
    by_nncf = _one(("openvino", "openvino-int8"), "Eight bits by NNCF for OpenVINO; sensitive layers in float.")
    by_ort = _one(
        ("int8",), "Eight bits for weights and what flows between layers, by ONNX Runtime; sensitive layers in float."
    )
    if profile.family == "transformer":
        yield by_nncf
    yield by_ort
    if profile.family == "conv":
        yield _one(("int8", "openvino"), "Eight bits by ONNX Runtime, run by OpenVINO, which is faster for many rows at once.")
        yield by_nncf


def _for_gpu(profile: Profile) -> Iterator[Candidate]:
    yield _one(("torch-program:bf16",), "A torch program in bfloat16, which tensor cores multiply several times faster.")
    yield _one(("torch-program:f32",), "A torch program in float32: captured once, run without Python.")
    yield _one(("half",), "Float16 throughout by ONNX Runtime, float32 at both ends.")
    yield _one(("fold",), "Constants folded and neighbours fused.")
    yield from _weights_alone(profile)
    yield _one(("prune:0.5", "half"), "Half of the units taken out and the rest trained on, then float16.")
    for student in _students(profile):
        yield _one((f"distil:{student}", "half"), f"A compact {student} taught by the model, then float16.")


def _for_edge(profile: Profile) -> Iterator[Candidate]:
    """Small first: what has to be sent to devices, and kept there."""
    yield _one(("int8",), "Eight bits for weights and what flows between layers: a quarter of the size.")
    yield _one(("litert-int8",), "For LiteRT, which phones and small boards run: weights in eight bits, a quarter of the size.")
    yield _one(("openvino", "openvino-int8"), "Eight bits by NNCF for OpenVINO; sensitive layers in float.")
    yield _one(("half",), "Float16 throughout: half of the size.")
    yield _one(("openvino-half",), "Weights in float16 for OpenVINO: half of the size, arithmetic in float32.")
    yield _one(("litert",), "The same model for LiteRT, which phones and small boards run.")
    yield from _weights_alone(profile)
    for share in ("0.5", "0.7"):
        yield _one((f"prune:{share}", "int8"), f"{_percent(share)} of the units taken out and the rest trained on, then INT8.")
    yield _one(("sparsify:0.8", "int8"), "Four of five weights zero: packs to a fraction, then INT8.")
    for student in _students(profile):
        yield _one((f"distil:{student}", "int8"), f"A compact {student} taught by the model, then INT8.")
    # What is trained once more for another engine comes when everything else has had its turn.
    yield _one(
        ("prune:0.5", "litert-int8"), "Half of the units taken out and the rest trained on, then LiteRT with INT8 weights."
    )
    for student in _students(profile):
        yield _one(
            (f"distil:{student}", "litert-int8"), f"A compact {student} taught by the model, then LiteRT with INT8 weights."
        )


def _weights_alone(profile: Profile) -> Iterator[Candidate]:
    """Worth it where weights are most of what there is."""
    if profile.family == "transformer" or (profile.family == "mlp" and profile.parameters >= _MANY):
        yield _one(("int8-weights",), "Weights alone in eight bits: a quarter of the size, nearly the same answers.")
        yield _one(("int4-weights",), "Weights alone in four bits: an eighth of the size.")
        yield _one(("openvino", "openvino-int8-weights"), "Weights alone in eight bits, for OpenVINO.")
        yield _one(("openvino", "openvino-int4-weights"), "Weights alone in four bits, for OpenVINO.")


def _students(profile: Profile) -> tuple[str, ...]:
    """What could learn from it, the one given by a person first."""
    proposed = {"conv": ("mobilenet", "efficientnet"), "transformer": ("transformer",), "mlp": ("mlp-large", "mlp")}
    return ("given", *proposed.get(profile.family, ()))


def _percent(share: str) -> str:
    return f"{round(float(share) * 100)} %"


def _one(steps: tuple[str, ...], why: str) -> Candidate:
    """Named after its steps; where one says it all, the others are left out."""
    told = [step for step in steps if not (step == "openvino" and any(one.startswith("openvino-") for one in steps))]
    name = "-".join(step.replace(":", "-").replace("=", "-") for step in told)
    return Candidate(name=name, steps=steps, why=why)
