"""XGBoost's two formats, read here first: XGBoost follows children wherever the file says they are, and its reader of
UBJSON crashes on files that are damaged. What it gets to see is JSON with trees that are trees."""

import json
import struct
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from falaj.runtimes.errors import NotLoadable

_DEPTH: Final = 50
_MOST_OUTPUTS: Final = 100_000
_NO_PARENT: Final = 2**31 - 1
_PER_NODE: Final = (
    *("left_children", "right_children", "parents", "split_indices", "split_conditions", "split_type"),
    *("default_left", "base_weights", "loss_changes", "sum_hessian"),
)
Numbers = npt.NDArray[np.int64]
# UBJSON's marks of numbers; all are big-endian.
_FORMS: Final = {"i": "b", "U": "B", "I": "h", "l": "i", "L": "q", "d": "f", "D": "d"}
_FIXED: Final = {"Z": None, "T": True, "F": False}


def checked(content: bytes) -> bytes:
    """The model as JSON. Raises `NotLoadable` where it is damaged."""
    try:
        is_json = content[1:].lstrip()[:1] in (b'"', b"}")
        model = json.loads(content) if is_json else _Ubjson(content).read()
        booster = model["learner"]["gradient_booster"]
        if booster["name"] == "gblinear":
            raise NotLoadable("XGBoost's gblinear cannot answer in place: train trees, or convert the model to ONNX")
        inner = booster.get("gbtree", booster)["model"]
        about = model["learner"]["learner_model_param"]
        for number, tree in enumerate(inner.get("trees", ())):
            _check_tree(number, tree, int(about["num_feature"]))
        _check_rounds(inner, max(1, int(about["num_class"]), int(about.get("num_target", 1))))
        return json.dumps(model).encode()  # anew: two readers of one file may read two things
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, struct.error, RecursionError) as error:
        raise NotLoadable(f"the XGBoost model is damaged: {error!r}"[:300]) from error


def _check_rounds(inner: Mapping[str, Any], outputs: int) -> None:
    trees = len(inner.get("trees", ()))
    rounds, groups = inner.get("iteration_indptr", ()), inner.get("tree_info", ())
    if len(groups) != trees or (rounds and (rounds[0] != 0 or rounds[-1] != trees or sorted(rounds) != list(rounds))):
        raise NotLoadable("the XGBoost model is damaged: it says another number of trees than it has")
    if outputs > _MOST_OUTPUTS or any(not 0 <= group < outputs for group in groups):
        raise NotLoadable("the XGBoost model is damaged: it has trees for an output that does not exist")


class _Ubjson:
    """Reads one document. Arrays of numbers, which is nearly all of a model, are read by numpy."""

    def __init__(self, content: bytes) -> None:
        self._content, self._at = content, 0

    def read(self) -> Any:
        return self._value(self._mark(), 0)

    def _take(self, length: int) -> bytes:
        taken = self._content[self._at : self._at + length]
        if length < 0 or len(taken) != length:
            raise NotLoadable("the XGBoost model is cut short")
        self._at += length
        return taken

    def _mark(self) -> str:
        return self._take(1).decode("latin-1")

    def _next_is(self, mark: bytes) -> bool:
        found = self._content[self._at : self._at + 1] == mark
        self._at += found
        return found

    def _length(self) -> int:
        length = self._value(self._mark(), _DEPTH)
        if type(length) is not int or length < 0:
            raise NotLoadable(f"the XGBoost model is damaged: a length of {length!r}"[:200])
        return length

    def _value(self, mark: str, depth: int) -> Any:
        if mark in _FORMS:
            form = _FORMS[mark]
            return struct.unpack(">" + form, self._take(struct.calcsize(form)))[0]
        if mark in _FIXED:
            return _FIXED[mark]
        if mark in "SC":
            return self._take(1 if mark == "C" else self._length()).decode()
        if mark in "[{" and depth < _DEPTH:
            return self._array(depth + 1) if mark == "[" else self._object(depth + 1)
        raise NotLoadable(f"the XGBoost model is damaged: {mark!r} where a value was expected")

    def _array(self, depth: int) -> list[Any]:
        kind = self._mark() if self._next_is(b"$") else ""
        if self._next_is(b"#"):
            length = self._length()
            if kind in _FORMS:
                dtype = np.dtype(">" + _FORMS[kind])
                numbers: list[Any] = np.frombuffer(self._take(length * dtype.itemsize), dtype).tolist()
                return numbers
            if length > len(self._content):
                raise NotLoadable("the XGBoost model is cut short")
            return [self._value(kind or self._mark(), depth) for _ in range(length)]
        found = []
        while not self._next_is(b"]"):
            found.append(self._value(self._mark(), depth))
        return found

    def _object(self, depth: int) -> dict[str, Any]:
        found = {}
        while not self._next_is(b"}"):
            name = self._take(self._length()).decode()
            found[name] = self._value(self._mark(), depth)
        return found


def _check_tree(number: int, tree: Mapping[str, Any], features: int) -> None:
    nodes = len(tree["left_children"])
    if not nodes or int(tree["tree_param"]["num_nodes"]) != nodes or any(len(tree[name]) != nodes for name in _PER_NODE):
        raise NotLoadable(f"the XGBoost model is damaged: tree {number} has lists of different lengths")
    if int(tree["tree_param"]["size_leaf_vector"]) > 1:
        raise NotLoadable("trees with several outputs each are not supported: train with multi_strategy='one_output_per_tree'")
    left, right, parents = (np.array(tree[name], dtype=np.int64) for name in ("left_children", "right_children", "parents"))
    splits, kinds = np.array(tree["split_indices"], dtype=np.int64), np.array(tree["split_type"], dtype=np.int64)
    met = _check_shape(number, left, right, parents)
    inner = met & (left != -1)  # what pruning took out is still in the lists, with whatever it held
    if np.any(inner & ((splits < 0) | (splits >= features) | (kinds < 0) | (kinds > 1))):
        raise NotLoadable(f"the XGBoost model is damaged: tree {number} splits on a feature that does not exist")
    starts, sizes, owners = (
        np.array(tree[name], dtype=np.int64) for name in ("categories_segments", "categories_sizes", "categories_nodes")
    )
    owned = np.flatnonzero(kinds != 0)
    fits = len(starts) == len(sizes) == len(owners) and set(owned.tolist()) == set(owners.tolist())
    if not fits or np.any((starts < 0) | (sizes < 0) | (starts + sizes > len(tree["categories"]))):
        raise NotLoadable(f"the XGBoost model is damaged: tree {number} has categories that do not fit")


def _check_shape(number: int, left: Numbers, right: Numbers, parents: Numbers) -> npt.NDArray[np.bool_]:
    """From the root down, level by level: a node that is met twice would make a walk that never ends. Gives which are met."""
    nodes = len(left)
    met, level = np.zeros(nodes, dtype=bool), np.zeros(1, dtype=np.int64)
    if np.any((left == -1) != (right == -1)):
        raise NotLoadable(f"the XGBoost model is damaged: tree {number} has a node with one child")
    if np.any((parents != _NO_PARENT) & ((parents < -1) | (parents >= nodes))):
        raise NotLoadable(f"the XGBoost model is damaged: tree {number} has a parent that does not exist")
    while len(level):
        met[level] = True
        inner = level[left[level] != -1]
        level = np.concatenate([left[inner], right[inner]])
        if np.any((level < 0) | (level >= nodes)) or len(np.unique(level)) != len(level) or met[level].any():
            raise NotLoadable(f"the XGBoost model is damaged: tree {number} has a child that does not exist, or one twice")
        if np.any(parents[level] != np.concatenate([inner, inner])):
            raise NotLoadable(f"the XGBoost model is damaged: tree {number} has a child of two minds about its parent")
    return met
