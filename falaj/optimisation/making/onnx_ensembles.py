"""Trees as ONNX has them: read from the operators for trees, written from any ensemble, and made fewer in place."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from falaj.base.values import value
from falaj.optimisation.making.ensembles import Ensemble, Floats, Tree, Whole
from falaj.optimisation.making.onnx_graphs import array_of, told
from falaj.optimisation.making.values import CannotBeMade

OPSETS: Final = {"": 18, "ai.onnx.ml": 3}
IR_VERSION: Final = 9
_SIDES: Final = {"TreeEnsembleClassifier": "class", "TreeEnsembleRegressor": "target"}
_MODES: Final = {
    "BRANCH_LEQ": (False, False),
    "BRANCH_LT": (True, False),
    "BRANCH_GT": (False, True),
    "BRANCH_GTE": (True, True),
}
_LEAF: Final = "LEAF"
# Lists with an entry for each node, and those with one for each leaf and output.
_PER_NODE: Final = (
    *("nodes_treeids", "nodes_nodeids", "nodes_featureids", "nodes_modes", "nodes_truenodeids", "nodes_falsenodeids"),
    *(
        "nodes_values",
        "nodes_hitrates",
        "nodes_missing_value_tracks_true",
        "nodes_values_as_tensor",
        "nodes_hitrates_as_tensor",
    ),
)


@value
class TreeNode:
    """The operator that has the trees, and its trees by the numbers it knows them by."""

    node: Any
    numbers: tuple[int, ...]
    leaf_nodes: tuple[Whole, ...]
    ensemble: Ensemble
    post_transform: str


def find_trees(model: Any) -> TreeNode:
    found = [node for node in model.graph.node if node.op_type.startswith("TreeEnsemble")]
    if len(found) != 1 or found[0].op_type not in _SIDES:
        kinds = f"it has {told(found)}" if found else "it has none"
        raise CannotBeMade(f"the model must have one TreeEnsembleClassifier or TreeEnsembleRegressor; {kinds}")
    node, lists = found[0], _lists(found[0])
    if lists.get("aggregate_function", "SUM") not in ("SUM", "AVERAGE"):
        raise CannotBeMade(f"the trees are put together by {lists['aggregate_function']}, not by sum: {told([node])}")
    outputs = _outputs(node, lists)
    of = np.array(lists["nodes_treeids"], dtype=np.int64)
    numbers = tuple(dict.fromkeys(of.tolist()))
    doubles = "nodes_values_as_tensor" in lists
    read = [_read_tree(node, lists, number, np.flatnonzero(of == number), outputs) for number in numbers]
    base = np.array(lists.get("base_values", ()) or np.zeros(outputs), dtype=np.float64)
    ensemble = Ensemble(
        datatype="FP64" if doubles else "FP32",
        features=int(np.max(lists["nodes_featureids"], initial=0)) + 1,
        trees=tuple(tree for tree, _ in read),
        base=base if len(base) == outputs else np.resize(base, outputs),
        scale=1 / len(numbers) if lists.get("aggregate_function") == "AVERAGE" else 1.0,
    )
    post = str(lists.get("post_transform", "NONE"))
    return TreeNode(
        node=node, numbers=numbers, leaf_nodes=tuple(leaves for _, leaves in read), ensemble=ensemble, post_transform=post
    )


def keep_trees(found: TreeNode, kept: Sequence[int], leaves: Sequence[Floats]) -> None:
    """Changes the operator: these of its trees alone (by place), with other values in their leaves."""
    lists, side = _lists(found.node), _SIDES[found.node.op_type]
    order = {found.numbers[place]: number for number, place in enumerate(kept)}
    of = [int(tree) for tree in lists["nodes_treeids"]]
    rows = sorted((row for row, tree in enumerate(of) if tree in order), key=lambda row: (order[of[row]], row))
    changed: dict[str, Any] = {name: [lists[name][row] for row in rows] for name in _PER_NODE if name in lists}
    changed["nodes_treeids"] = [order[of[row]] for row in rows]
    entries = _entries(found, kept, leaves, np.array(_weights(lists, side)))
    changed |= {f"{side}_{name}": list(given) for name, given in zip(("treeids", "nodeids", "ids"), entries[:3], strict=True)}
    changed[f"{side}_weights_as_tensor" if f"{side}_weights_as_tensor" in lists else f"{side}_weights"] = list(entries[3])
    whole = {**lists, **changed}
    del found.node.attribute[:]
    found.node.attribute.extend(_attribute(name, given) for name, given in whole.items())


def tree_attributes(trees: Sequence[Tree], *, doubles: bool, outputs: int, scale: float = 1.0) -> dict[str, Any]:
    """Attributes of a TreeEnsembleRegressor with these trees."""
    lists: dict[str, list[Any]] = {name: [] for name in (*_PER_NODE[:7], "nodes_missing_value_tracks_true")}
    entries: list[tuple[int, int, int, float]] = []
    for number, tree in enumerate(trees):
        if tree.categories or tree.zero_missing.any():
            raise CannotBeMade("the trees split by categories, or take zeros for missing: ONNX's trees cannot say that")
        inner, count = len(tree.left), len(tree.left) + len(tree.leaves)
        children = [np.where(side < 0, inner + ~side, side).tolist() for side in (tree.left, tree.right)]
        none = [0] * len(tree.leaves)
        lists["nodes_treeids"] += [number] * count
        lists["nodes_nodeids"] += range(count)
        lists["nodes_featureids"] += [*tree.feature.tolist(), *none]
        lists["nodes_modes"] += ["BRANCH_LEQ"] * inner + [_LEAF] * len(tree.leaves)
        lists["nodes_truenodeids"] += [*children[0], *none]
        lists["nodes_falsenodeids"] += [*children[1], *none]
        lists["nodes_values"] += [*tree.threshold.tolist(), *none]
        lists["nodes_missing_value_tracks_true"] += [*tree.missing_left.astype(int).tolist(), *none]
        columns = np.flatnonzero(tree.leaves.any(axis=0)).tolist() or [0]  # every leaf says something, be it zero
        weights = (tree.leaves * scale).tolist()
        entries += [(number, inner + leaf, one, row[one]) for leaf, row in enumerate(weights) for one in columns]
    if not any(lists["nodes_missing_value_tracks_true"]):  # asking costs time at every node
        del lists["nodes_missing_value_tracks_true"]
    treeids, nodeids, ids, summands = (list(column) for column in zip(*entries, strict=True))
    made: dict[str, Any] = {**lists, "target_treeids": treeids, "target_nodeids": nodeids, "target_ids": ids}
    if doubles:
        made["nodes_values_as_tensor"] = made.pop("nodes_values")
        made["target_weights_as_tensor"] = summands
    else:
        made["nodes_values"] = np.float32(made["nodes_values"]).tolist()
        made["target_weights"] = summands
    return {**made, "n_targets": outputs, "post_transform": "NONE", "aggregate_function": "SUM"}


def regressor(given: str, made: str, attributes: Mapping[str, Any]) -> Any:
    node = helper.make_node("TreeEnsembleRegressor", [given], [made], domain="ai.onnx.ml", name=f"{made}_trees")
    node.attribute.extend(_attribute(name, listed) for name, listed in attributes.items())
    return node


def finishing(ensemble: Ensemble, raw: str, answer: str) -> tuple[list[Any], list[Any]]:
    """From sums of leaves, a column for each output, in float32, to what the ensemble answers: nodes and tensors."""
    kind = TensorProto.DOUBLE if ensemble.datatype == "FP64" else TensorProto.FLOAT
    nodes, tensors, at = [helper.make_node("Cast", [raw], ["finish_cast"], to=kind)], [], "finish_cast"
    if ensemble.base.any():
        tensors.append(numpy_helper.from_array(ensemble.base.astype(ensemble.dtype), "finish_base"))
        nodes.append(helper.make_node("Add", [at, "finish_base"], ["finish_based"]))
        at = "finish_based"
    if ensemble.link == "logistic" and ensemble.slope != 1:
        tensors.append(numpy_helper.from_array(np.array(ensemble.slope, ensemble.dtype), "finish_slope"))
        nodes.append(helper.make_node("Mul", [at, "finish_slope"], ["finish_sloped"]))
        at = "finish_sloped"
    if ensemble.link == "largest":
        nodes.append(helper.make_node("ArgMax", [at], ["finish_largest"], axis=1, keepdims=0))
        return [*nodes, helper.make_node("Cast", ["finish_largest"], [answer], to=kind)], tensors
    link = {"identity": "Identity", "logistic": "Sigmoid", "softmax": "Softmax", "exp": "Exp"}[ensemble.link]
    linked = "finish_linked" if ensemble.flat else answer
    nodes.append(helper.make_node(link, [at], [linked]))
    if ensemble.flat:
        tensors.append(numpy_helper.from_array(np.array([1], np.int64), "finish_axis"))
        nodes.append(helper.make_node("Squeeze", [linked, "finish_axis"], [answer]))
    return nodes, tensors


def native_model(ensemble: Ensemble, nodes: Sequence[Any], tensors: Sequence[Any]) -> Any:
    """A model that takes and gives what the library's own engine does: `input` and `predict`."""
    kind = TensorProto.DOUBLE if ensemble.datatype == "FP64" else TensorProto.FLOAT
    shape: list[str | int | None] = ["rows"] if ensemble.flat else ["rows", ensemble.outputs]
    given = helper.make_tensor_value_info("input", kind, ["rows", ensemble.features])
    answer = helper.make_tensor_value_info("predict", kind, shape)
    graph = helper.make_graph(list(nodes), "trees", [given], [answer], list(tensors))
    opsets = [helper.make_opsetid(domain, version) for domain, version in OPSETS.items()]
    return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="falaj")


def _lists(node: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for one in node.attribute:
        given = helper.get_attribute_value(one)
        if one.name.endswith("_as_tensor"):
            found[one.name] = array_of(given)
        elif isinstance(given, bytes):
            found[one.name] = given.decode()
        else:
            found[one.name] = [text.decode() for text in given] if one.strings else given
    return found


def _attribute(name: str, given: Any) -> Any:
    if name.endswith("_as_tensor"):
        return helper.make_attribute(name, numpy_helper.from_array(np.array(given, np.float64), name))
    if name.endswith(("_values", "_weights", "_hitrates")):
        return helper.make_attribute(name, [float(one) for one in given])
    return helper.make_attribute(name, given)


def _weights(lists: Mapping[str, Any], side: str) -> Any:
    return lists.get(f"{side}_weights_as_tensor", lists.get(f"{side}_weights"))


def _outputs(node: Any, lists: Mapping[str, Any]) -> int:
    if node.op_type == "TreeEnsembleRegressor":
        return int(lists.get("n_targets", 1))
    return int(max(lists["class_ids"], default=0)) + 1


def _read_tree(node: Any, lists: Mapping[str, Any], number: int, rows: Whole, outputs: int) -> tuple[Tree, Whole]:
    modes = [lists["nodes_modes"][row] for row in rows.tolist()]
    strange = sorted({mode for mode in modes if mode != _LEAF and mode not in _MODES})
    if strange:
        raise CannotBeMade(f"the trees have splits of kind {', '.join(strange)}, which are not known here: {told([node])}")
    ids = [int(lists["nodes_nodeids"][row]) for row in rows.tolist()]
    yes, no = ([int(lists[name][row]) for row in rows.tolist()] for name in ("nodes_truenodeids", "nodes_falsenodeids"))
    inner = [place for place, mode in enumerate(modes) if mode != _LEAF]
    children = {one for place in inner for one in (yes[place], no[place])}
    inner.sort(key=lambda place: ids[place] in children)  # the root first: it is nobody's child
    leaves = [place for place, mode in enumerate(modes) if mode == _LEAF]
    number_of = {ids[place]: at for at, place in enumerate(inner)} | {ids[place]: ~at for at, place in enumerate(leaves)}
    values = lists.get("nodes_values_as_tensor", lists.get("nodes_values"))
    thresholds = np.array([values[rows[place]] for place in inner], dtype=np.float64)
    strict = np.array([_MODES[modes[place]][0] for place in inner], dtype=bool)
    if strict.any():
        kind = np.float64 if "nodes_values_as_tensor" in lists else np.float32
        thresholds = np.where(strict, np.nextafter(thresholds.astype(kind), kind(-np.inf)).astype(np.float64), thresholds)
    swapped = np.array([_MODES[modes[place]][1] for place in inner], dtype=bool)
    tracks = lists.get("nodes_missing_value_tracks_true")
    missing_true = np.array([bool(tracks[rows[place]]) if tracks else False for place in inner], dtype=bool)
    true_child = np.array([number_of[yes[place]] for place in inner], dtype=np.int64)
    false_child = np.array([number_of[no[place]] for place in inner], dtype=np.int64)
    tree = Tree(
        feature=np.array([lists["nodes_featureids"][rows[place]] for place in inner], dtype=np.int64),
        threshold=thresholds,
        left=np.where(swapped, false_child, true_child),
        right=np.where(swapped, true_child, false_child),
        missing_left=missing_true ^ swapped,
        zero_missing=np.zeros(len(inner), dtype=bool),
        leaves=_leaf_values(node, lists, number, {ids[place]: at for at, place in enumerate(leaves)}, outputs),
        categories={},
    )
    return tree, np.array([ids[place] for place in leaves], dtype=np.int64)


def _leaf_values(node: Any, lists: Mapping[str, Any], number: int, places: Mapping[int, int], outputs: int) -> Floats:
    side = _SIDES[node.op_type]
    found = np.zeros((len(places), outputs))
    of = np.array(lists[f"{side}_treeids"])
    weights = _weights(lists, side)
    for entry in np.flatnonzero(of == number).tolist():
        place = places[int(lists[f"{side}_nodeids"][entry])]
        found[place, int(lists[f"{side}_ids"][entry])] += float(weights[entry])
    return found


def _entries(found: TreeNode, kept: Sequence[int], leaves: Sequence[Floats], before: Floats) -> tuple[list[Any], ...]:
    """Tree, node, output and weight for each leaf and output of the trees that are kept."""
    # ONNX Runtime reads the labels of two classes in another way where no weight is below zero.
    least = 0.0 if len(before) and before.min() >= 0 else -np.inf
    rows = []
    for number, (place, values) in enumerate(zip(kept, leaves, strict=True)):
        columns = np.flatnonzero(found.ensemble.trees[place].leaves.any(axis=0)).tolist() or [0]
        for leaf, node in enumerate(found.leaf_nodes[place].tolist()):
            rows += [(number, node, column, float(max(values[leaf, column], least))) for column in columns]
    return tuple(list(column) for column in zip(*rows, strict=True))
