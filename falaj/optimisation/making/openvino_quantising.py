"""Fewer bits, by NNCF for OpenVINO: whole layers in eight, found on calibration rows, or weights alone in eight or four."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import nncf
import numpy as np
import openvino

from falaj.optimisation.making.openvino_forms import from_model, read_model
from falaj.optimisation.making.parity import with_same_face
from falaj.optimisation.making.quieting import silently
from falaj.optimisation.making.sensitivities import STEPS, Passage, first_fit, most_sensitive
from falaj.optimisation.making.values import Array, CannotBeMade, Made, Material, Sample
from falaj.runtimes.hosts import this_host
from falaj.runtimes.settings import INT8

_LAYERS: Final = ("Convolution", "GroupConvolution", "MatMul")
_CALIBRATED_ON: Final = 300
_LOOKED_AT: Final = 32
_BATCH: Final = 8
_GROUP: Final = 64  # weights that share a scale, in four bits
_PRESETS: Final = {
    "symmetric": nncf.QuantizationPreset.PERFORMANCE,
    "asymmetric where values are": nncf.QuantizationPreset.MIXED,
}


def int8(made: Made, argument: str, material: Material) -> Made:
    """Weights and what flows between layers in eight bits; where that costs too much, the most sensitive layers in float."""
    model = read_model(made)
    layers = [node for node in model.get_ops() if node.get_type_name() in _LAYERS]
    if not layers:
        raise CannotBeMade("the model has no layer that could count in eight bits")
    form = with_same_face(made, first_fit(_tried(made, model, material), made, material))
    return replace(form, settings={**form.settings, "needs": INT8}) if this_host().multiplies_int8 else form


def int8_weights(made: Made, argument: str, material: Material) -> Made:
    """Weights alone."""
    return _weights(made, "weights in INT8", mode=nncf.CompressWeightsMode.INT8_ASYM)


def int4_weights(made: Made, argument: str, material: Material) -> Made:
    """Weights alone, in groups with a scale each; groups are smaller where a layer has too few."""
    adjusted = nncf.AdvancedCompressionParameters(group_size_fallback_mode=nncf.GroupSizeFallbackMode.ADJUST)
    return _weights(
        made, "weights in INT4", mode=nncf.CompressWeightsMode.INT4_SYM, group_size=_GROUP, advanced_parameters=adjusted
    )


def _weights(made: Made, note: str, **settings: Any) -> Made:
    model = read_model(made)
    with silently("nncf"):
        try:
            small = nncf.compress_weights(model, **settings)
        except Exception as error:  # its own, OpenVINO's, and what odd graphs bring about
            raise CannotBeMade(f"NNCF cannot compress the weights: {_reason(error)}") from error
    return with_same_face(made, from_model(made, small, note))


def _tried(made: Made, model: Any, material: Material) -> Iterator[tuple[float, Made]]:
    """How much worse, and the form: by each preset first, then with ever fewer layers."""
    sample = material.calibration.part(0, _CALIBRATED_ON)
    quantised = None
    for said, preset in _PRESETS.items():
        quantised = _quantised(model, sample, preset, ())
        form = from_model(made, quantised, f"INT8, calibrated, per channel, {said}")
        yield material.drop(form), form
    ranked = _ranked(model, quantised, sample.part(0, _LOOKED_AT))
    for count in (count for count in STEPS if count < len(ranked)):
        left = ranked[:count]
        smaller = _quantised(model, sample, nncf.QuantizationPreset.MIXED, left)
        form = from_model(made, smaller, f"INT8, calibrated, per channel; in float: {', '.join(left)}")
        yield material.drop(form), form


def _quantised(model: Any, sample: Sample, preset: Any, left: Sequence[str]) -> Any:
    rows = [_feed(sample, start, start + _BATCH) for start in range(0, sample.rows, _BATCH)]
    kinds = {node.get_type_name() for node in model.get_ops()}
    attends = "ScaledDotProductAttention" in kinds or {"Softmax", "MatMul"} <= kinds
    with silently("nncf"):
        try:
            return nncf.quantize(
                model.clone(),
                nncf.Dataset(rows),
                preset=preset,
                subset_size=len(rows),
                # For transformers it evens out activations between channels first (SmoothQuant), and keeps softmax in float.
                model_type=nncf.ModelType.TRANSFORMER if attends else None,
                ignored_scope=nncf.IgnoredScope(names=list(left), validate=False) if left else None,
            )
        except Exception as error:  # its own, OpenVINO's, and what odd graphs bring about
            raise CannotBeMade(f"NNCF cannot quantise the model: {_reason(error)}") from error


def _feed(sample: Sample, start: int, end: int) -> list[Array]:
    return [np.ascontiguousarray(one[start:end]) for one in sample.inputs]


def _ranked(model: Any, quantised: Any, sample: Sample) -> list[str]:
    """Names of layers, the most sensitive first."""
    there = {node.get_friendly_name() for node in quantised.get_ops() if node.get_type_name() in _LAYERS}
    named = [node.get_friendly_name() for node in model.get_ops() if node.get_type_name() in _LAYERS]
    names = [name for name in named if name in there]
    before, after = _passed(model, names, sample), _passed(quantised, names, sample)
    passages = {
        name: Passage(given=before[name][0], made=before[name][1], rounded_given=after[name][0], rounded_made=after[name][1])
        for name in names
    }
    return most_sensitive(passages)


def _passed(model: Any, names: Sequence[str], sample: Sample) -> dict[str, tuple[Array, Array]]:
    """What each of these layers was given and gave."""
    asked = model.clone()
    nodes = {node.get_friendly_name(): node for node in asked.get_ops()}
    for number, name in enumerate(names):
        given = nodes[name].input(0).get_source_output()
        if given.get_node().get_type_name() == "FakeQuantize":
            given = given.get_node().input(0).get_source_output()
        for side, port in (("given", given), ("made", nodes[name].output(0))):
            port.get_tensor().add_names({f"{side} {number}"})  # one port may be looked at by several names
    asked.add_outputs([f"{side} {number}" for number in range(len(names)) for side in ("given", "made")])
    compiled = openvino.Core().compile_model(asked, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    answered = compiled(_feed(sample, 0, sample.rows))
    return {
        name: (np.array(answered[f"given {number}"]), np.array(answered[f"made {number}"])) for number, name in enumerate(names)
    }


def _reason(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip() and not line.startswith("Exception from")]
    return "; ".join(lines)[:300] or type(error).__name__
