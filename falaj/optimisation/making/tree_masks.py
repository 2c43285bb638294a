"""Trees without walking: every row's leaf in every tree at once, by tables of bits. For ONNX Runtime, in standard operators.

A processor that walks a tree guesses each turn, and is wrong every other time. Here a value is looked up instead: its range
among all thresholds of its feature leads to a row of words, one for each tree, whose bits are the leaves that this value leaves
possible. What all features leave possible is one bit for each tree. (QuickScorer's idea; with both sides of a split in the
tables there is nothing left to search for.) Answers are those of the trees, missing values included. For one row it is slower
than walking; from some dozen on, several times faster. `tree_lookups` makes the tables.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from falaj.optimisation.making.ensembles import Ensemble, Floats, Tree
from falaj.optimisation.making.onnx_ensembles import regressor, tree_attributes
from falaj.optimisation.making.tree_lookups import Lookups, Table, lookups_of
from falaj.optimisation.making.values import CannotBeMade

MOST_LEAVES: Final = 64
_NARROW: Final = 32
_MOST_BYTES: Final = 128 << 20
# A power of two times one of these has its exponent in the upper bits, mixed up: de Bruijn's sequences.
_SEQUENCES: Final = {32: 0x077CB531, 64: 0x03F79D71B4CB0A89}
_EXPONENT: Final = {32: 5, 64: 6}


def mask_nodes(ensemble: Ensemble, given: str, raw: str, sample: Floats) -> tuple[list[Any], list[Any]]:
    """Nodes and tensors that make sums of leaves (float32, a column for each output) from rows of features. `sample` are
    such rows: what they never have together need not be in the tables."""
    # Trees of one output stand together, so that they can be added up together.
    trees = sorted(ensemble.trees, key=lambda tree: tuple(np.flatnonzero(tree.leaves.any(axis=0))))
    most = max((len(tree.leaves) for tree in trees), default=0)
    if most > MOST_LEAVES:
        raise CannotBeMade(f"a tree has {most} leaves, and words have {MOST_LEAVES} bits: train with fewer leaves")
    if most < 2:
        raise CannotBeMade("no tree has a split: there is nothing to make faster")
    # Rows that break a bundle are walked, by trees as ONNX has them.
    walks = not any(tree.categories or tree.zero_missing.any() for tree in trees)
    lookups = lookups_of(trees, ensemble.dtype, sample, bundled=walks)
    if sum(lookups.sizes()) * len(trees) * 8 > _MOST_BYTES:
        raise CannotBeMade("the tables of bits would take more than 128 MiB: make the ensemble smaller first")
    width = _NARROW if most <= _NARROW else MOST_LEAVES
    tensors = [
        _whole("masks_axis", [1]),
        numpy_helper.from_array(_packed(lookups.table(), width).view(np.int64), "masks_table"),
    ]
    before = _searched(ensemble, lookups, sample.shape[1], given, tensors)
    masks = [
        *_anded(len(lookups.groups)),
        *_exponents(width, tensors),
        *_summed(ensemble, trees, width, "masks_sums" if lookups.shared else raw, tensors),
    ]
    if not lookups.shared:
        return [*before, helper.make_node("Cast", ["masks_found"], ["masks_rows"], to=TensorProto.INT32), *masks], tensors
    doubles = ensemble.datatype == "FP64"
    walked = tree_attributes(ensemble.trees, doubles=doubles, outputs=ensemble.outputs, scale=ensemble.scale)
    return [*before, *_either(lookups, masks, regressor(given, "masks_walked", walked), raw, tensors)], tensors


def _searched(ensemble: Ensemble, lookups: Lookups, columns: int, given: str, tensors: list[Any]) -> list[Any]:
    """`masks_found`: the rows of the tables, and what is counted of bundles. Single steps of many features are taken at once
    by comparing and multiplying; a walk through a tree each would take longer than all the rest."""
    search = lookups.search()
    outputs, doubles = len(search.offsets), ensemble.datatype == "FP64"
    nodes, walked, parts = [], search.trees, []
    offsets = search.offsets
    if search.steps:
        borders = np.full(columns, np.inf)
        worth = np.zeros((columns, outputs))
        for feature, (border, numbers) in search.steps.items():
            borders[feature], worth[feature] = border, numbers
        tensors += [
            numpy_helper.from_array(borders.astype(ensemble.dtype), "masks_borders"),
            numpy_helper.from_array(worth.astype(np.float32), "masks_worth"),
            numpy_helper.from_array(offsets.astype(np.float32), "masks_offsets"),
        ]
        parts.append("masks_stepped")
        nodes += [
            helper.make_node("Greater", [given, "masks_borders"], ["masks_above"]),
            helper.make_node("Cast", ["masks_above"], ["masks_ones"], to=TensorProto.FLOAT),
            helper.make_node("Gemm", ["masks_ones", "masks_worth", "masks_offsets"], ["masks_stepped"]),
        ]
        offsets = np.zeros(outputs)
    if walked:
        attributes = tree_attributes(walked, doubles=doubles, outputs=outputs)
        if offsets.any():
            attributes["base_values_as_tensor" if doubles else "base_values"] = offsets.tolist()
        parts.append("masks_searched")
        nodes.append(regressor(given, "masks_searched", attributes))
    joined = helper.make_node("Add" if len(parts) == 2 else "Identity", parts, ["masks_found"])
    return [*nodes, joined]


def _either(lookups: Lookups, masks: Sequence[Any], walked: Any, raw: str, tensors: list[Any]) -> list[Any]:
    """The tables, unless a row has two of a bundle set: then all rows that came with it are walked."""
    groups, width = len(lookups.groups), len(lookups.groups) + lookups.shared
    tensors += [
        _whole("masks_zero", [0]),
        _whole("masks_groups", [groups]),
        _whole("masks_width", [width]),
        numpy_helper.from_array(np.array(1.5, np.float32), "masks_one"),
    ]
    branches = {
        "then_branch": helper.make_graph([walked], "walked", [], [_floats(walked.output[0])]),
        "else_branch": helper.make_graph(list(masks), "masks", [], [_floats("masks_sums")]),
    }
    return [
        helper.make_node("Slice", ["masks_found", "masks_groups", "masks_width", "masks_axis"], ["masks_counts"]),
        helper.make_node("ReduceMax", ["masks_counts"], ["masks_most"], keepdims=0),
        helper.make_node("Greater", ["masks_most", "masks_one"], ["masks_several"]),
        helper.make_node("Slice", ["masks_found", "masks_zero", "masks_groups", "masks_axis"], ["masks_places"]),
        helper.make_node("Cast", ["masks_places"], ["masks_rows"], to=TensorProto.INT32),
        helper.make_node("If", ["masks_several"], [raw], **branches),
    ]


def _floats(name: str) -> Any:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, None)


def _whole(name: str, numbers: Sequence[int]) -> Any:
    return numpy_helper.from_array(np.array(numbers, np.int64), name)


def _packed(table: Table, width: int) -> Table:
    """Two trees to a word where they fit: the first half in the lower bits, the second half in the upper."""
    if width == MOST_LEAVES:
        return table
    half = (table.shape[1] + 1) // 2
    upper = np.zeros((len(table), half), dtype=np.uint64)
    upper[:, : table.shape[1] - half] = table[:, half:] << np.uint64(_NARROW)
    return upper | table[:, :half]


def _anded(groups: int) -> list[Any]:
    columns = [f"masks_row{number}" for number in range(groups)]
    nodes = [helper.make_node("Split", ["masks_rows"], columns, axis=1, num_outputs=groups)]
    at = ""
    for number, column in enumerate(columns):
        nodes.append(helper.make_node("Gather", ["masks_table", column], [f"masks_words{number}"], axis=0))
        if at:
            nodes.append(helper.make_node("BitwiseAnd", [at, f"masks_words{number}"], [f"masks_and{number}"]))
        at = f"masks_and{number}" if at else f"masks_words{number}"
    return [*nodes, helper.make_node("Squeeze", [at, "masks_axis"], ["masks_left"])]


def _exponents(width: int, tensors: list[Any]) -> list[Any]:
    """Which bit is left, mixed up by the sequence: `masks_bits`, a column for each tree."""
    nodes, words = [], "masks_left"
    dtype: np.dtype[Any] = np.dtype(np.int64)
    unsigned: np.dtype[Any] = np.dtype(np.uint64)
    signed_kind, plain_kind = TensorProto.INT64, TensorProto.UINT64
    if width == _NARROW:
        tensors.append(numpy_helper.from_array(np.array(_NARROW, np.uint64), "masks_half"))
        nodes = [
            helper.make_node("Cast", ["masks_left"], ["masks_both"], to=TensorProto.UINT64),
            helper.make_node("BitShift", ["masks_both", "masks_half"], ["masks_upper"], direction="RIGHT"),
            helper.make_node("Cast", ["masks_both"], ["masks_first"], to=TensorProto.INT32),
            helper.make_node("Cast", ["masks_upper"], ["masks_second"], to=TensorProto.INT32),
            helper.make_node("Concat", ["masks_first", "masks_second"], ["masks_words"], axis=1),
        ]
        words, dtype, unsigned = "masks_words", np.dtype(np.int32), np.dtype(np.uint32)
        signed_kind, plain_kind = TensorProto.INT32, TensorProto.UINT32
    tensors += [
        numpy_helper.from_array(np.array(_SEQUENCES[width]).astype(dtype), "masks_sequence"),
        numpy_helper.from_array(np.array(width - _EXPONENT[width]).astype(unsigned), "masks_shift"),
    ]
    return [
        *nodes,
        helper.make_node("Mul", [words, "masks_sequence"], ["masks_mixed"]),
        helper.make_node("Cast", ["masks_mixed"], ["masks_plain"], to=plain_kind),
        helper.make_node("BitShift", ["masks_plain", "masks_shift"], ["masks_shifted"], direction="RIGHT"),
        helper.make_node("Cast", ["masks_shifted"], ["masks_bits"], to=signed_kind),
    ]


def _summed(ensemble: Ensemble, trees: Sequence[Tree], width: int, raw: str, tensors: list[Any]) -> list[Any]:
    """The values of the leaves, added up for each output over the trees that have any for it."""
    padded = len(trees) + (len(trees) % 2 if width == _NARROW else 0)
    nodes: list[Any] = []
    sums = [f"masks_sum{output}" if ensemble.outputs > 1 else raw for output in range(ensemble.outputs)]
    for output in range(ensemble.outputs):
        having = [number for number, tree in enumerate(trees) if tree.leaves[:, output].any()] or [0]
        first, last = having[0], having[-1] + 1 if having[-1] + 1 < len(trees) else padded
        bits = "masks_bits"
        if (first, last) != (0, padded):
            bits = f"masks_bits{output}"
            tensors += [_whole(f"masks_from{output}", [first]), _whole(f"masks_to{output}", [last])]
            ends = [f"masks_from{output}", f"masks_to{output}", "masks_axis"]
            nodes.append(helper.make_node("Slice", ["masks_bits", *ends], [bits]))
        values = _leaf_table(trees[first:last], output, last - first, width) * ensemble.scale
        tensors.append(numpy_helper.from_array(values.astype(np.float32), f"masks_values{output}"))
        nodes += [
            helper.make_node("GatherElements", [f"masks_values{output}", bits], [f"masks_leaves{output}"], axis=0),
            helper.make_node("ReduceSum", [f"masks_leaves{output}", "masks_axis"], [sums[output]], keepdims=1),
        ]
    return [*nodes, helper.make_node("Concat", sums, [raw], axis=1)] if ensemble.outputs > 1 else nodes


def _leaf_table(trees: Sequence[Tree], output: int, columns: int, width: int) -> Floats:
    """A column for each tree, the leaves where the sequence mixes their bits to."""
    table = np.zeros((width, columns))
    for place, tree in enumerate(trees):
        mixed = [(_SEQUENCES[width] << leaf) & ((1 << width) - 1) for leaf in range(len(tree.leaves))]
        table[[one >> (width - _EXPONENT[width]) for one in mixed], place] = tree.leaves[:, output]
    return table
