"""Graphs made simpler before anything else is done to them: constants folded, neighbours fused, floats halved.

By ONNX Runtime, offline. What it would fuse while loading is fused once and for every host; layouts that suit one processor
only are left to the loading.
"""

from collections.abc import Sequence
from typing import Any, Final

import onnx
import onnxruntime
from onnx import helper, shape_inference
from onnxruntime.transformers import float16, optimizer
from onnxruntime.transformers.fusion_options import FusionOptions

from falaj.optimisation.making.onnx_graphs import AsFile, array_of, check_operators, constants, read_graph, told, written
from falaj.optimisation.making.parity import answering_alike
from falaj.optimisation.making.profiles import family_of
from falaj.optimisation.making.quieting import quietly
from falaj.optimisation.making.values import CannotBeMade, Made, Material

_LEVELS: Final = {
    "basic": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "extended": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
}
# The fusions for transformers expect certain graphs, and fall over others in many ways: those stay as they are.
_FALLS_OVER: Final = (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
_HALVED_TO: Final = (6e-8, 65504.0)  # what float16 can hold


def fold(made: Made, argument: str, material: Material) -> Made:
    """Constants folded, neighbours fused, attention and norms of transformers too."""
    model = read_graph(made)
    check_operators(model)
    before = len(model.graph.node)
    fused = folded(_with_attention_fused(model) if family_of(model) == "transformer" else model, level="extended")
    form = written(made, fused, f"folded {before} operators into {len(fused.graph.node)}")
    return answering_alike(made, form, material)


def half(made: Made, argument: str, material: Material) -> Made:
    """Weights and arithmetic in float16; what goes in and comes out stays as it was."""
    model = folded(read_graph(made), level="basic")
    with quietly("root"):
        halved = float16.convert_float_to_float16(
            model, keep_io_types=True, min_positive_val=_HALVED_TO[0], max_finite_val=_HALVED_TO[1], disable_shape_infer=False
        )
    return written(made, halved, "float16 throughout, float32 at both ends")


def folded(model: Any, *, level: str, without: Sequence[str] = ()) -> Any:
    """By ONNX Runtime's own passes, but for those named; `basic` leaves standard operators alone, which quantisers know."""
    pool_means(model)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = _LEVELS[level]
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    with AsFile(model) as (path, folder):
        options.optimized_model_filepath = str(folder / "folded.onnx")
        try:
            onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"], disabled_optimizers=list(without))
        except Exception as error:  # its errors have no class of their own
            raise CannotBeMade(f"ONNX Runtime cannot take the model: {_blamed(model, error)}") from error
        made = onnx.load_model(options.optimized_model_filepath)
    # Every operator that fusing could have left is listed, used or not; those of engines that are not here confuse others.
    used = {node.domain or "" for node in made.graph.node} | {""}
    kept = [one for one in made.opset_import if (one.domain if one.domain != "ai.onnx" else "") in used]
    del made.opset_import[:]
    made.opset_import.extend(kept)
    return made


def pool_means(model: Any) -> None:
    """Means over whole pictures as the pooling they are: torch writes them as sums over axes, which engines add up slowly and
    not in eight bits."""
    if not any(node.op_type == "ReduceMean" for node in model.graph.node):
        return
    known = constants(model.graph)
    try:
        inferred = shape_inference.infer_shapes(model).graph
    except shape_inference.InferenceError:  # of a graph that somebody else has fused before
        return
    ranks = {one.name: len(one.type.tensor_type.shape.dim) for one in (*inferred.value_info, *inferred.input)}
    nodes: list[Any] = []
    for node in model.graph.node:
        settings = {one.name: helper.get_attribute_value(one) for one in node.attribute}
        listed = (
            array_of(known[node.input[1]]).tolist() if len(node.input) > 1 and node.input[1] in known else settings.get("axes")
        )
        picture = node.op_type == "ReduceMean" and ranks.get(node.input[0]) == 4 and listed is not None
        if not picture or sorted(axis % 4 for axis in listed or ()) != [2, 3]:
            nodes.append(node)
            continue
        flat = not settings.get("keepdims", 1)
        pooled = f"{node.output[0]}_pooled" if flat else node.output[0]
        nodes.append(helper.make_node("GlobalAveragePool", [node.input[0]], [pooled], name=node.name))
        if flat:
            nodes.append(helper.make_node("Flatten", [pooled], [node.output[0]], name=f"{node.name}_flat"))
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def _with_attention_fused(model: Any) -> Any:
    options = FusionOptions("bert")
    options.enable_embed_layer_norm = False  # it would make inputs into int32
    with AsFile(model) as (path, _), quietly("root"):
        try:
            fused = optimizer.optimize_model(path, "bert", 0, 0, optimization_options=options, opt_level=0)
        except _FALLS_OVER:
            return model
    made = fused.model
    kept = [one.name for one in made.graph.input] == [one.name for one in model.graph.input]
    return made if kept else model


def _blamed(model: Any, error: Exception) -> str:
    """The error, and the nodes that it names."""
    text = str(error).strip().partition("\n")[0][:300]
    nodes = [node for node in model.graph.node if node.name and node.name in text] or [
        node for node in model.graph.node if f"{node.op_type}(" in text or f":{node.op_type}" in text
    ]
    return f"{text}; by {told(nodes)}" if nodes else text
