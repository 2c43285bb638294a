"""What kind of model this is: what `candidates` plans by, and what an export reports about operators and opsets."""

import collections
import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final, Literal, TypeAlias

from onnx import TensorProto

from falaj.base.values import value
from falaj.optimisation.making.onnx_graphs import all_nodes, constants, input_names, read_graph
from falaj.optimisation.making.values import CannotBeMade, Made
from falaj.optimisation.making.xgboost_ensembles import document_of

Family: TypeAlias = Literal["conv", "transformer", "mlp", "trees", "other"]
_TREES: Final = frozenset(["TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor"])
_CONVOLUTIONS: Final = frozenset(["Conv", "FusedConv", "ConvTranspose", "ConvInteger", "QLinearConv", "NhwcFusedConv"])
_ATTENTION: Final = frozenset(["Attention", "MultiHeadAttention", "GroupQueryAttention", "QAttention", "PackedAttention"])
_DENSE: Final = frozenset(
    ["MatMul", "Gemm", "FusedGemm", "FusedMatMul", "MatMulNBits", "MatMulInteger", "QLinearMatMul", "QGemm"]
)
_QUANTISED: Final = frozenset(["QuantizeLinear", "DynamicQuantizeLinear", "MatMulNBits", "QLinearConv", "QLinearMatMul"])
_FLOATS: Final = frozenset([TensorProto.FLOAT, TensorProto.DOUBLE])


@value
class Face:
    """An input or output: `axes` are lengths, or names where any length will do."""

    name: str
    datatype: str
    axes: tuple[int | str, ...]


@value
class Profile:
    """`parameters` are numbers that were learnt; `is_float` says that they are in float32 or wider still. `opsets` by domain,
    the standard one's name is empty. `trees` and `leaves` (of the largest) are for trees alone."""

    runtime: str
    family: Family
    size: int
    parameters: int = 0
    is_float: bool = False
    operators: Mapping[str, int] = field(default_factory=dict)
    opsets: Mapping[str, int] = field(default_factory=dict)
    inputs: tuple[Face, ...] = ()
    outputs: tuple[Face, ...] = ()
    trees: int = 0
    leaves: int = 0

    @property
    def is_quantised(self) -> bool:
        return bool(_QUANTISED & self.operators.keys())

    @property
    def has_free_rows(self) -> bool:
        """Whether any number of rows may be asked at once."""
        return bool(self.inputs) and all(face.axes and isinstance(face.axes[0], str) for face in self.inputs)


def profile_of(made: Made) -> Profile:
    """What can be read from the file; of forms that need their engine for that, no more than the size."""
    if made.runtime == "onnx":
        return _onnx_profile(made)
    if made.runtime == "lightgbm":
        return _lightgbm_profile(made)
    if made.runtime == "xgboost":
        return _xgboost_profile(made)
    return Profile(runtime=made.runtime, family="other", size=made.size)


def family_of(model: Any) -> Family:
    """Of an ONNX graph."""
    kinds = {node.op_type for node in all_nodes(model.graph)}
    if kinds & _TREES:
        return "trees"
    if kinds & _ATTENTION or _attends(model.graph):
        return "transformer"
    if kinds & _CONVOLUTIONS:
        return "conv"
    return "mlp" if kinds & _DENSE else "other"


def _attends(graph: Any) -> bool:
    """Whether weights that are found while it runs are laid over other such things: a product of two of them, and a softmax."""
    known = constants(graph)
    kinds = {node.op_type for node in graph.node}
    products = [node for node in graph.node if node.op_type in ("MatMul", "FusedMatMul", "QLinearMatMul", "Einsum")]
    made = {name for node in graph.node for name in node.output if node.op_type != "DequantizeLinear"} | set(input_names(graph))
    made |= {node.output[0] for node in graph.node if node.op_type == "DequantizeLinear" and node.input[0] not in known}
    softens = bool(kinds & {"Softmax", "QLinearSoftmax"})
    return softens and any(sum(name in made for name in node.input) >= 2 for node in products)


def _onnx_profile(made: Made) -> Profile:
    model = read_graph(made)
    graph = model.graph
    learnt = [tensor for tensor in constants(graph).values() if len(tensor.dims) > 0]
    large = [tensor.data_type for tensor in learnt if _count(tensor) >= 16]
    trees, leaves, numbers = _trees_in(graph)
    weights = set(input_names(graph))
    return Profile(
        runtime="onnx",
        family=family_of(model),
        size=made.size,
        parameters=sum(map(_count, learnt)) + numbers,
        is_float=bool(trees) or (bool(large) and all(kind in _FLOATS or kind == TensorProto.INT64 for kind in large)),
        operators=dict(collections.Counter(str(node.op_type) for node in all_nodes(graph)).most_common()),
        opsets={one.domain if one.domain != "ai.onnx" else "": one.version for one in model.opset_import},
        inputs=tuple(_face(one) for one in graph.input if one.name in weights),
        outputs=tuple(_face(one) for one in graph.output),
        trees=trees,
        leaves=leaves,
    )


def _count(tensor: Any) -> int:
    count = 1
    for length in tensor.dims:
        count *= length
    return count


def _face(described: Any) -> Face:
    kind = described.type.tensor_type
    axes: list[int | str] = []
    for number, axis in enumerate(kind.shape.dim):
        axes.append(axis.dim_value if axis.HasField("dim_value") else axis.dim_param or f"axis{number}")
    datatype = TensorProto.DataType.Name(kind.elem_type) if kind.elem_type else described.type.WhichOneof("value")
    return Face(name=described.name, datatype=datatype, axes=tuple(axes))


def _trees_in(graph: Any) -> tuple[int, int, int]:
    """How many trees there are, how many leaves the largest has, and how many numbers were learnt for them all."""
    for node in graph.node:
        if node.op_type not in _TREES:
            continue
        lists = {one.name: one for one in node.attribute}
        if "nodes_treeids" not in lists:  # the newer operator, in which a tree is where its root is
            return len(lists["tree_roots"].ints), 0, len(lists["nodes_featureids"].ints)
        modes = [mode.decode() for mode in lists["nodes_modes"].strings]
        of = list(lists["nodes_treeids"].ints)
        leaves = collections.Counter(tree for tree, mode in zip(of, modes, strict=True) if mode == "LEAF")
        return len(set(of)), max(leaves.values(), default=0), len(of)
    return 0, 0, 0


def _lightgbm_profile(made: Made) -> Profile:
    text = made.content.decode("utf-8", "replace")
    leaves = [int(count) for count in re.findall(r"^num_leaves=(\d+)$", text, re.MULTILINE)]
    features = re.search(r"^max_feature_idx=(\d+)$", text, re.MULTILINE)
    if features is None:
        raise CannotBeMade(f"{made.file} is no LightGBM model")
    return _native_profile(made, leaves, int(features[1]) + 1, "DOUBLE")


def _xgboost_profile(made: Made) -> Profile:
    learner = document_of(made.content)["learner"]
    booster = learner["gradient_booster"]
    trees = booster.get("gbtree", booster)["model"]["trees"]
    leaves = [sum(child < 0 for child in tree["left_children"]) for tree in trees]
    return _native_profile(made, leaves, int(learner["learner_model_param"]["num_feature"]), "FLOAT")


def _native_profile(made: Made, leaves: list[int], features: int, datatype: str) -> Profile:
    return Profile(
        runtime=made.runtime,
        family="trees",
        size=made.size,
        parameters=sum(2 * count - 1 for count in leaves),
        is_float=True,
        inputs=(Face(name="input", datatype=datatype, axes=("rows", features)),),
        trees=len(leaves),
        leaves=max(leaves, default=0),
    )
