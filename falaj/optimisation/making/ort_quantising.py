"""Fewer bits, by ONNX Runtime: whole layers in eight, found on calibration rows, or weights alone in eight or four.

Scales that are found while the model runs (its "dynamic" way) are not offered: they are taken over all rows that are asked
together, so that a row's answer would depend on its neighbours'.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import onnx
from onnx import helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantFormat, QuantType, quantize_static

from falaj.optimisation.making.folding import folded
from falaj.optimisation.making.onnx_graphs import array_of, check_operators, constants, input_names, read_graph, told, written
from falaj.optimisation.making.ort_tensors import tensor_values
from falaj.optimisation.making.profiles import family_of
from falaj.optimisation.making.quieting import quietly, silently
from falaj.optimisation.making.sensitivities import STEPS, Passage, first_fit, most_sensitive
from falaj.optimisation.making.values import CannotBeMade, Made, Material, Sample
from falaj.runtimes.hosts import this_host
from falaj.runtimes.settings import INT8

_LAYERS: Final = ("Conv", "MatMul", "Gemm")
# Operators between layers that go on in eight bits at no cost; of transformers the layers alone: sums and norms need more.
_BETWEEN: Final = ("Add", "AveragePool", "Clip", "Concat", "Flatten", "GlobalAveragePool", "MaxPool", "Mul", "Relu", "Reshape")
_CALIBRATED_ON: Final = 512
_LOOKED_AT: Final = 64
_BATCH: Final = 32
_BLOCK: Final = 32  # weights that share a scale
_PERCENTILE: Final = 99.99


def int8(made: Made, argument: str, material: Material) -> Made:
    """Weights and what flows between layers in eight bits; where that costs too much, the most sensitive layers in float."""
    model = folded(read_graph(made), level="basic")
    check_operators(model)
    layers = [node for node in model.graph.node if node.op_type in _LAYERS]
    if not layers:
        raise CannotBeMade(f"the model has no layer that could count in eight bits, only {told(model.graph.node)}")
    quantiser = _Quantiser(model, material.calibration.part(0, _CALIBRATED_ON), reduced=not this_host().multiplies_int8)
    with quantiser:
        form = first_fit(_tried(made, model, quantiser, material), made, material)
    return form if quantiser.reduced else replace(form, settings={**form.settings, "needs": INT8})


def _tried(made: Made, model: Any, quantiser: "_Quantiser", material: Material) -> Iterator[tuple[float, Made]]:
    """How much worse, and the form: all layers first; then without the rarest values; then ever fewer layers."""
    note = "INT8, calibrated, per channel" + (", weights in seven bits for want of VNNI" if quantiser.reduced else "")
    first = quantiser.quantised(CalibrationMethod.MinMax, ())
    form = written(made, first, note)
    yield material.drop(form), form
    form = written(made, quantiser.quantised(CalibrationMethod.Percentile, ()), f"{note}, rarest values cut off")
    yield material.drop(form), form
    ranked = _ranked(model, first, material.calibration.part(0, _LOOKED_AT))
    for count in (count for count in STEPS if count < len(ranked)):
        for left in (ranked[:count], _with_sources(model, ranked[:count])):
            layers = [node.name for node in model.graph.node if node.name in left and node.op_type in _LAYERS]
            smaller = quantiser.quantised(CalibrationMethod.MinMax, left)
            form = written(made, smaller, f"{note}; in float: {', '.join(layers)}")
            yield material.drop(form), form


def _with_sources(model: Any, names: Sequence[str]) -> list[str]:
    """Those, and what makes their inputs, up to the layers before: a layer that counts in eight bits answers in them too."""
    made_by = {name: node for node in model.graph.node for name in node.output}
    waiting = [node for node in model.graph.node if node.name in names]
    found = {node.name for node in waiting}
    while waiting:
        for name in waiting.pop().input:
            source = made_by.get(name)
            if source is None or source.name in found:
                continue
            found.add(source.name)
            if source.op_type not in _LAYERS:
                waiting.append(source)
    return sorted(found)


class _Quantiser:
    """ONNX Runtime's, with the ranges of the calibration kept between tries. A context: it needs files."""

    def __init__(self, model: Any, sample: Sample, *, reduced: bool) -> None:
        self.reduced = reduced
        self._sample = sample
        self._folder = TemporaryDirectory(prefix="falaj-making-")
        between = () if family_of(model) == "transformer" else _BETWEEN
        _flatten_biases(model)
        self._source = Path(self._folder.name) / "folded.onnx"  # the library changes what it is given in memory
        self._source.write_bytes(model.SerializeToString())
        self._names = input_names(model.graph)
        self._kinds = sorted({node.op_type for node in model.graph.node} & {*_LAYERS, *between})

    def __enter__(self) -> "_Quantiser":
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def quantised(self, method: CalibrationMethod, left: Sequence[str]) -> Any:
        folder = Path(self._folder.name)
        with silently("root"):
            try:
                quantize_static(
                    self._source,
                    folder / "quantised.onnx",
                    _Rows(self._names, self._sample),
                    quant_format=QuantFormat.QDQ,
                    op_types_to_quantize=self._kinds,
                    per_channel=True,
                    reduce_range=self.reduced,
                    activation_type=QuantType.QUInt8,
                    weight_type=QuantType.QInt8,
                    nodes_to_exclude=list(left),
                    calibrate_method=method,
                    extra_options={"WeightSymmetric": True, "MatMulConstBOnly": True, "CalibPercentile": _PERCENTILE},
                    calibration_cache_path=folder / f"{method.name}.json",
                )
            except (ValueError, RuntimeError, TypeError, KeyError, AttributeError, IndexError) as error:
                raise CannotBeMade(f"ONNX Runtime cannot quantise the model: {str(error)[:300]}") from error
        return onnx.load_model(folder / "quantised.onnx")


def _flatten_biases(model: Any) -> None:
    """Those that are a row of a table, as scikit-learn's are: the library expects plain rows, and adds them all the same."""
    biases = {node.input[2] for node in model.graph.node if node.op_type == "Gemm" and len(node.input) > 2}
    for tensor in model.graph.initializer:
        if tensor.name in biases and len(tensor.dims) == 2 and tensor.dims[0] == 1:
            del tensor.dims[0]


class _Rows(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, names: Sequence[str], sample: Sample) -> None:
        starts = range(0, sample.rows - sample.rows % _BATCH or sample.rows, _BATCH)
        parts = (sample.part(start, start + _BATCH).inputs for start in starts)
        self._batches = (dict(zip(names, part, strict=True)) for part in parts)

    def get_next(self) -> Mapping[str, Any] | None:
        return next(self._batches, None)


def _ranked(model: Any, quantised: Any, sample: Sample) -> list[str]:
    """Names of layers, the most sensitive first."""
    there = {name for node in quantised.graph.node for name in node.output} | set(input_names(quantised.graph))
    ends = {node.name: _ends(node, model, there) for node in model.graph.node if node.op_type in _LAYERS}
    found = {name: pair for name, pair in ends.items() if pair is not None}
    names = list(dict.fromkeys(name for pair in found.values() for name in pair))
    before, after = (dict(zip(names, tensor_values(one, names, sample), strict=True)) for one in (model, quantised))
    passages = {
        name: Passage(given=before[given], made=before[made], rounded_given=after[given], rounded_made=after[made])
        for name, (given, made) in found.items()
    }
    return most_sensitive(passages)


def _ends(layer: Any, model: Any, there: Collection[str]) -> tuple[str, str] | None:
    """The tensors that the layer is given and makes. A ReLU behind it may have become part of its rounding."""
    made = layer.output[0]
    if made not in there:
        made = next((node.output[0] for node in model.graph.node if made in node.input), made)
    return (layer.input[0], made) if {layer.input[0], made} <= set(there) else None


def int8_weights(made: Made, argument: str, material: Material) -> Made:
    return _weights(made, 8)


def int4_weights(made: Made, argument: str, material: Material) -> Made:
    return _weights(made, 4)


def _weights(made: Made, bits: int) -> Made:
    """Weights alone, in blocks with a scale each; what flows between layers stays in float."""
    # It alone needs onnx_ir: eight bits throughout are to be had without.
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    model = folded(read_graph(made), level="basic")
    check_operators(model)
    _products(model)
    with quietly("root"):
        quantiser = MatMulNBitsQuantizer(model, bits=bits, block_size=_BLOCK, is_symmetric=True, accuracy_level=4)
        quantiser.process()
    small = quantiser.model.model
    count = sum(node.op_type == "MatMulNBits" for node in small.graph.node)
    if not count:
        raise CannotBeMade(f"no layer multiplies by weights of its own that could take {bits} bits")
    return written(made, small, f"weights of {count} layers in INT{bits}, in blocks of {_BLOCK}")


def _products(model: Any) -> None:
    """Gemm as MatMul and Add: of weights alone, only products are made smaller."""
    graph, known = model.graph, constants(model.graph)
    nodes = []
    for node in graph.node:
        settings = {one.name: helper.get_attribute_value(one) for one in node.attribute}
        plain = settings.get("alpha", 1.0) == settings.get("beta", 1.0) == 1.0 and not settings.get("transA", 0)
        if node.op_type != "Gemm" or not plain or node.input[1] not in known:
            nodes.append(node)
            continue
        weights = array_of(known[node.input[1]])
        name = f"{node.name}_weights"
        graph.initializer.append(numpy_helper.from_array((weights.T if settings.get("transB", 0) else weights).copy(), name))
        biased = len(node.input) > 2 and bool(node.input[2])
        product = f"{node.name}_product" if biased else node.output[0]
        nodes.append(helper.make_node("MatMul", [node.input[0], name], [product], name=node.name))
        if biased:
            nodes.append(helper.make_node("Add", [product, node.input[2]], [node.output[0]], name=f"{node.name}_bias"))
    del graph.node[:]
    graph.node.extend(nodes)
    used = {name for node in graph.node for name in node.input} | {one.name for one in graph.output}
    kept = [tensor for tensor in graph.initializer if tensor.name in used]
    del graph.initializer[:]
    graph.initializer.extend(kept)
