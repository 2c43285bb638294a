"""Ensembles of trees made smaller and faster: fewer trees with their leaves fitted anew, and forms for ONNX Runtime."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from onnx import helper, numpy_helper, version_converter

from falaj.base.values import value
from falaj.optimisation.making.ensembles import Ensemble, Floats, Tree, leaves_of, raw_answers
from falaj.optimisation.making.lightgbm_ensembles import read_lightgbm, write_lightgbm
from falaj.optimisation.making.onnx_ensembles import (
    OPSETS,
    TreeNode,
    find_trees,
    finishing,
    keep_trees,
    native_model,
    regressor,
    tree_attributes,
)
from falaj.optimisation.making.onnx_graphs import read_graph, written
from falaj.optimisation.making.ort_tensors import tensor_values
from falaj.optimisation.making.parity import parity
from falaj.optimisation.making.tree_masks import mask_nodes
from falaj.optimisation.making.values import CannotBeMade, Made, Material, Sample
from falaj.optimisation.making.xgboost_ensembles import read_xgboost, write_xgboost

_MOST_ROWS: Final = 20_000  # to fit leaves to; more hardly change them
_HELD_BACK: Final = 5  # every so-manyth row tells which choice of trees is better
_ROUNDS: Final = 30
_PULL: Final = 1.0  # towards what leaves were: rows that a leaf needs for it to be changed by half
_NATIVE: Final = {"lightgbm": (read_lightgbm, write_lightgbm), "xgboost": (read_xgboost, write_xgboost)}
_EQUAL: Final = 1e-4
Leaves = npt.NDArray[np.int32]


def fewer_trees(made: Made, argument: str, material: Material) -> Made:
    """The ensemble with so many trees alone, their leaves fitted to what all trees together say about the training rows."""
    sample = _some(material.training)
    if made.runtime in _NATIVE:
        read, write = _NATIVE[made.runtime]
        ensemble = read(made)
        kept, leaves = _chosen(ensemble, argument, np.asarray(sample.inputs[0], dtype=np.float64))
        changed = {made.file: write(made, kept, leaves)}
        notes = (*made.notes, _note(ensemble, kept))
        return Made(runtime=made.runtime, file=made.file, files=changed, settings=made.settings, notes=notes)
    model = read_graph(made)
    found = find_trees(model)
    kept, leaves = _chosen(found.ensemble, argument, _rows_at(model, found, sample))
    keep_trees(found, kept, leaves)
    return written(made, model, _note(found.ensemble, kept))


def as_onnx(made: Made, argument: str, material: Material) -> Made:
    """LightGBM's or XGBoost's trees as ONNX's, with the same inputs and outputs."""
    ensemble = _native(made)
    doubles = ensemble.datatype == "FP64"
    attributes = tree_attributes(ensemble.trees, doubles=doubles, outputs=ensemble.outputs, scale=ensemble.scale)
    nodes, tensors = finishing(ensemble, "raw", "predict")
    model = native_model(ensemble, [regressor("input", "raw", attributes), *nodes], tensors)
    return _checked(made, written(made, model, f"{len(ensemble.trees)} trees as an ONNX TreeEnsemble"), material)


def as_masks(made: Made, argument: str, material: Material) -> Made:
    """The trees as tables of bits, which ONNX Runtime looks up instead of walking. See `tree_masks`."""
    sample = _some(material.training)
    if made.runtime in _NATIVE:
        ensemble = _native(made)
        nodes, tensors = mask_nodes(ensemble, "input", "raw", np.asarray(sample.inputs[0], dtype=np.float64))
        finish, more = finishing(ensemble, "raw", "predict")
        model = native_model(ensemble, [*nodes, *finish], [*tensors, *more])
    else:
        model = _masks_in_place(_newer(read_graph(made)), sample)
    return _checked(made, written(made, model, "trees as tables of bits"), material)


def _native(made: Made) -> Ensemble:
    if made.runtime not in _NATIVE:
        raise CannotBeMade(f"this step takes trees by {' or '.join(_NATIVE)}, and was given a model for {made.runtime}")
    ensemble = _NATIVE[made.runtime][0](made)
    if not ensemble.trees:
        raise CannotBeMade("the model has no trees")
    return ensemble


def _checked(made: Made, form: Made, material: Material) -> Made:
    """Another form of the same trees has the same answers, or is none."""
    held = parity(made, form, material.calibration.part(0, 512), tolerance=_EQUAL)
    if not held.holds:
        raise CannotBeMade(f"the other form of the trees answers differently: {held}")
    return form


def _some(sample: Sample) -> Sample:
    """Evenly over all rows: they may come in an order."""
    step = max(1, -(-sample.rows // _MOST_ROWS))
    return Sample(inputs=tuple(one[::step] for one in sample.inputs))


def _note(ensemble: Ensemble, kept: Sequence[int]) -> str:
    which = "the first" if list(kept) == list(range(len(kept))) else "some of all"
    return f"{len(kept)} of {len(ensemble.trees)} trees ({which}), their leaves fitted to what all of them answered"


@value
class _Rounds:
    """Trees come in rounds, one for each output that has trees of its own; whole rounds are kept or left out."""

    each: int
    count: int

    def trees(self, rounds: Sequence[int]) -> list[int]:
        return [number * self.each + place for number in rounds for place in range(self.each)]


def _chosen(ensemble: Ensemble, argument: str, rows: Floats) -> tuple[list[int], list[Floats]]:
    """Which trees, and what their leaves say now: the first ones, or some from everywhere, whichever comes nearer."""
    total = len(ensemble.trees)
    wanted = int(argument) if argument.isdecimal() else 0
    if not 1 <= wanted < total:
        raise CannotBeMade(f"trees:{argument} of a model of {total} trees: give a number from 1 to {total - 1}")
    each = _trees_of_a_round(ensemble)
    rounds = _Rounds(each=each, count=total // each)
    keep = max(1, min(wanted // each, rounds.count - 1))
    # Averages count every tree alike; what remains is averaged over fewer.
    scale = ensemble.scale * total / (keep * each) if ensemble.scale != 1 else 1.0
    leaves = leaves_of(ensemble.trees, rows)
    aims = raw_answers(ensemble, leaves)
    weights = _doubt(ensemble, aims + ensemble.base)
    told = np.arange(len(rows)) % _HELD_BACK == 0
    choices: list[tuple[float, list[int], list[Floats]]] = []
    for places in {tuple(range(keep)), tuple(np.linspace(0, rounds.count - 1, keep).astype(int).tolist())}:
        kept = rounds.trees(places)
        trees = [ensemble.trees[number] for number in kept]
        fitted = _fitted(trees, leaves[~told][:, kept], aims[~told], weights[~told], scale)
        said = sum(values[leaves[told][:, number]] for values, number in zip(fitted, kept, strict=True)) * scale
        choices.append((float((weights[told] * (said - aims[told]) ** 2).mean()), kept, fitted))
    _, kept, fitted = min(choices, key=lambda choice: choice[0])
    return kept, fitted


def _trees_of_a_round(ensemble: Ensemble) -> int:
    alone = all(np.count_nonzero(tree.leaves.any(axis=0)) <= 1 for tree in ensemble.trees)
    return ensemble.outputs if alone and len(ensemble.trees) % ensemble.outputs == 0 else 1


def _doubt(ensemble: Ensemble, raw: Floats) -> Floats:
    """How much a row matters: where classes are close, a small change of the sum is another answer."""
    share: Floats
    if ensemble.link in ("softmax", "largest"):
        powers = np.exp(raw - raw.max(axis=1, keepdims=True))
        share = powers / powers.sum(axis=1, keepdims=True)
    elif ensemble.link == "logistic":
        share = 1 / (1 + np.exp(-np.clip(raw * ensemble.slope, -40, 40)))
    else:
        return np.ones_like(raw)
    return 4 * share * (1 - share) + 0.02


def _fitted(trees: Sequence[Tree], leaves: Leaves, aims: Floats, weights: Floats, scale: float) -> list[Floats]:
    """The leaves' values for which the trees' sums come nearest to the aims, output by output."""
    made = [tree.leaves.copy() for tree in trees]
    for output in range(aims.shape[1]):
        having = [number for number, tree in enumerate(trees) if tree.leaves[:, output].any()]
        if not having:
            continue
        sizes = [len(made[number]) for number in having]
        starts = np.cumsum([0, *sizes])
        places = leaves[:, having].astype(np.int64) + starts[:-1]
        before = np.concatenate([made[number][:, output] for number in having])
        after = before + _solved(
            places, int(starts[-1]), aims[:, output] / scale - before[places].sum(axis=1), weights[:, output]
        )
        for number, start, size in zip(having, starts.tolist(), sizes, strict=False):
            made[number][:, output] = after[start : start + size]
    return made


def _solved(places: npt.NDArray[np.int64], count: int, missing: Floats, weights: Floats) -> Floats:
    """Changes of the leaves that make up for what is missing, by weighted least squares, in rounds of conjugate gradients."""
    each, flat = places.shape[1], places.ravel()

    def gathered(rows: Floats) -> Floats:
        return np.bincount(flat, weights=np.repeat(rows * weights, each), minlength=count).astype(np.float64)

    change, left = np.zeros(count), gathered(missing)
    way, size = left.copy(), float(left @ left)
    for _ in range(_ROUNDS):
        if size < 1e-12:
            break
        seen = gathered(way[places].sum(axis=1)) + _PULL * way
        step = size / float(way @ seen)
        change += step * way
        left -= step * seen
        size, before = float(left @ left), size
        way = left + size / before * way
    return change


def _rows_at(model: Any, found: TreeNode, sample: Sample) -> Floats:
    """What the operator is given for these rows: something may be done to them before."""
    return np.asarray(tensor_values(model, [found.node.input[0]], sample)[0], dtype=np.float64)


def _newer(model: Any) -> Any:
    """With an opset that has operators for bits."""
    own = [one for one in model.opset_import if one.domain in ("", "ai.onnx")]
    if own and own[0].version >= OPSETS[""]:
        return model
    if all(node.domain not in ("", "ai.onnx") for node in model.graph.node):  # nothing to convert
        kept = [one for one in model.opset_import if one not in own]
        del model.opset_import[:]
        model.opset_import.extend([*kept, helper.make_opsetid("", OPSETS[""])])
        return model
    try:
        return version_converter.convert_version(model, OPSETS[""])
    except RuntimeError as error:
        raise CannotBeMade(f"the model cannot be brought to opset {OPSETS['']}: {error}") from error


def _masks_in_place(model: Any, sample: Sample) -> Any:
    found = find_trees(model)
    node, given = found.node, found.node.input[0]
    nodes, tensors = mask_nodes(found.ensemble, given, "masks_raw", _rows_at(model, found, sample))
    after, more = _classes(found) if node.op_type == "TreeEnsembleClassifier" else _numbers(found)
    place = next(number for number, one in enumerate(model.graph.node) if one is node or one == node)
    rest = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend([*rest[:place], *nodes, *after, *rest[place + 1 :]])
    model.graph.initializer.extend([*tensors, *more])
    return model


def _based(found: TreeNode) -> tuple[list[Any], list[Any]]:
    base = numpy_helper.from_array(found.ensemble.base.astype(np.float32), "masks_base")
    return [helper.make_node("Add", ["masks_raw", "masks_base"], ["masks_based"])], [base]


def _numbers(found: TreeNode) -> tuple[list[Any], list[Any]]:
    nodes, tensors = _based(found)
    return [*nodes, *_post(found, "masks_based", found.node.output[0])], tensors


def _classes(found: TreeNode) -> tuple[list[Any], list[Any]]:
    """Labels and scores, as ONNX Runtime makes them of sums."""
    labels = next((list(one.ints) for one in found.node.attribute if one.name == "classlabels_int64s"), [])
    if not labels:
        raise CannotBeMade("the trees answer in texts; export the model with whole numbers for classes")
    label, scores = found.node.output
    nodes, tensors = _based(found)
    single = [
        number for number in range(found.ensemble.outputs) if any(tree.leaves[:, number].any() for tree in found.ensemble.trees)
    ]
    if len(labels) == 2 and len(single) == 1:
        if min(float(tree.leaves.min()) for tree in found.ensemble.trees) >= 0:
            raise CannotBeMade("the trees add up shares of one of two classes, which ONNX Runtime reads in a way of its own")
        tensors += [
            numpy_helper.from_array(np.array(single, np.int64), "masks_class"),
            numpy_helper.from_array(np.array([-1, 1], np.float32), "masks_signs"),
        ]
        nodes += [
            helper.make_node("Gather", ["masks_based", "masks_class"], ["masks_class_sum"], axis=1),
            helper.make_node("Mul", ["masks_class_sum", "masks_signs"], ["masks_scores"]),
        ]
    elif len(labels) == found.ensemble.outputs:
        nodes.append(helper.make_node("Identity", ["masks_based"], ["masks_scores"]))
    else:
        raise CannotBeMade(f"the trees have sums for {found.ensemble.outputs} of {len(labels)} classes")
    tensors.append(numpy_helper.from_array(np.array(labels, np.int64), "masks_labels"))
    nodes += [
        helper.make_node("ArgMax", ["masks_scores"], ["masks_best"], axis=1, keepdims=0),
        helper.make_node("Gather", ["masks_labels", "masks_best"], [label], axis=0),
        *_post(found, "masks_scores", scores),
    ]
    return nodes, tensors


def _post(found: TreeNode, given: str, made: str) -> list[Any]:
    operators = {"NONE": "Identity", "LOGISTIC": "Sigmoid", "SOFTMAX": "Softmax"}
    if found.post_transform not in operators:
        raise CannotBeMade(f"the trees' sums are put through {found.post_transform}, which is not known here")
    operator = operators[found.post_transform]
    return [helper.make_node(operator, [given], [made])]
