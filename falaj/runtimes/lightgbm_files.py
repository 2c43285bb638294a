"""Whether a LightGBM model file is what LightGBM believes it is.

LightGBM follows the numbers in the file without looking: a child that does not exist is a read anywhere in memory, a child
that is its own ancestor a prediction that never ends. So every tree is checked before the library sees it.
"""

import re
from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from falaj.runtimes.errors import NotLoadable

_MOST: Final = 1_000_000  # features or classes
_END: Final = "\nend of trees"
# What training leaves behind the trees tells nothing about predictions, and a damaged end crashes LightGBM.
_TAIL: Final = "end of trees\n\nparameters:\n[boosting: gbdt]\nend of parameters\n\npandas_categorical:null\n"
# Everything a tree may say: the lists of its leaves, those of its splits, and the rest. LightGBM ends the process over a word
# among numbers, so that all of them are read here first.
_OF_LEAVES: Final = frozenset(["leaf_value", "leaf_weight", "leaf_count", "leaf_const", "num_features"])
_OF_SPLITS: Final = frozenset(
    [
        *("split_feature", "split_gain", "threshold", "decision_type", "left_child", "right_child"),
        *("internal_value", "internal_weight", "internal_count"),
    ]
)
_OTHERS: Final = frozenset(
    ["num_leaves", "num_cat", "cat_boundaries", "cat_threshold", "is_linear", "shrinkage", "leaf_features", "leaf_coeff"]
)
_WHOLE: Final = frozenset(["leaf_count", "internal_count", "cat_threshold", "num_leaves", "num_cat", "is_linear"])
_TOKEN: Final = re.compile(r"[-+0-9.einfa \t]*")
Numbers = npt.NDArray[np.float64]


def checked(text: str) -> tuple[str, int]:
    """The header and the trees, and the number of features. Raises `NotLoadable` unless every tree is whole."""
    head, first, _ = text.partition("\nTree=0\n")
    if not head.startswith("tree\n") or "\0" in text:
        raise NotLoadable("this is not a LightGBM model: those begin with 'tree'; save one by booster.save_model()")
    header = _settings(head)
    features = _count(header, "max_feature_idx") + 1
    classes, each = _count(header, "num_class"), _count(header, "num_tree_per_iteration")
    if not 1 <= features <= _MOST or not 1 <= each <= _MOST or not 1 <= classes <= _MOST:
        raise NotLoadable(f"a LightGBM model of {features} features and {classes} classes cannot be")
    for list_name in ("feature_names", "feature_infos"):
        if len(header.get(list_name, "").split(" ")) != features:
            raise NotLoadable(f"the LightGBM model has {features} features, and another number of {list_name}")
    if not first:
        if "tree_sizes" in header and header["tree_sizes"].strip():
            raise NotLoadable("the LightGBM model is cut short: it has no tree")
        return f"{head}\n\n{_TAIL}", features
    end = text.find(_END, len(head))
    if end < 0:
        raise NotLoadable("the LightGBM model is cut short: the end of the trees is missing")
    _check_trees(text[len(head) + 1 : end + 1], header, features)
    return text[: end + 1] + _TAIL, features


def _check_trees(body: str, header: Mapping[str, str], features: int) -> None:
    if not body.isascii():
        raise NotLoadable("the LightGBM model has trees with signs that are no numbers")
    blocks = body.split("\nTree=")
    # LightGBM goes from tree to tree by these sizes; "\nTree=" was taken out of the blocks by splitting.
    told = _numbers(header.get("tree_sizes", ""), "tree_sizes")
    _need(_within(told, 1, len(body) + 1), "the LightGBM model is damaged: tree_sizes are no sizes")
    sizes, at = told.astype(np.int64).tolist(), 0
    for number, size in enumerate(sizes):
        if not body.startswith(f"Tree={number}\n", at):
            raise NotLoadable(f"the LightGBM model is damaged: tree {number} is not where tree_sizes says")
        at += size
    if len(sizes) != len(blocks) or at > len(body) + 1:
        raise NotLoadable(f"the LightGBM model is damaged: {len(blocks)} trees, and {len(sizes)} by tree_sizes")
    for number, block in enumerate(blocks):
        try:
            # A block's first line is the tree's number.
            _check_tree(_settings(block.partition("\n")[2]), features)
        except (KeyError, IndexError, OverflowError) as error:
            raise NotLoadable(f"the LightGBM model is damaged in tree {number}: {error}") from error
        except NotLoadable as error:
            raise NotLoadable(f"the LightGBM model is damaged in tree {number}: {error}") from None


def _check_tree(tree: Mapping[str, str], features: int) -> None:
    leaves, categories = _count(tree, "num_leaves"), _count(tree, "num_cat")
    inner = leaves - 1
    _need(leaves >= 1 and categories >= 0, "it has no leaf")
    for name, text in tree.items():
        numbers = _numbers(text, name)
        _need(name in _OF_LEAVES or name in _OF_SPLITS or name in _OTHERS, f"{name[:40]!r} is not known")
        _need(name not in _OF_LEAVES or len(numbers) in (0, leaves), f"{name} has another length than it has leaves")
        _need(name not in _OF_SPLITS or len(numbers) in (0, inner), f"{name} has another length than it has splits")
        _need(name not in _WHOLE or _within(numbers, 0, 2**32 - 1), f"{name} is not a list of counts")
    _need(len(tree["leaf_value"].split()) == leaves, "leaf_value has another length than it has leaves")
    if inner:
        split = {name: _numbers(tree[name], name) for name in ("split_feature", "threshold", "decision_type")}
        children = [_numbers(tree[name], name) for name in ("left_child", "right_child")]
        _need(all(len(numbers) == inner for numbers in (*split.values(), *children)), "it has lists of different lengths")
        _need(_within(split["split_feature"], 0, features - 1), "it splits on a feature that does not exist")
        for side in children:
            # A leaf is -1 - its index; a node was made by splitting one before it.
            _need(_within(side, -leaves, inner - 1), "it has a child that does not exist")
            _need(bool(np.all((side < 0) | (side > np.arange(inner)))), "it has a child that is its own ancestor")
        _need(_within(split["decision_type"], 0, 15), "it has a decision of an unknown type")
        chosen = split["threshold"][split["decision_type"].astype(np.int64) & 1 == 1]
        _need(_within(chosen, 0, categories - 1), "it splits on categories that do not exist")
    if categories:
        bounds, bits = _numbers(tree["cat_boundaries"], "cat_boundaries"), _numbers(tree["cat_threshold"], "cat_threshold")
        _need(len(bounds) == categories + 1 and bounds[0] == 0 and bounds[-1] == len(bits), "its categories do not fit")
        _need(bool(np.all(np.diff(bounds) >= 0)), "its categories do not fit")
    if tree.get("is_linear", "0").strip() != "0":
        _check_linear(tree, leaves, features)


def _check_linear(tree: Mapping[str, str], leaves: int, features: int) -> None:
    counts = _numbers(tree["num_features"], "num_features")
    used, factors = _numbers(tree["leaf_features"], "leaf_features"), _numbers(tree["leaf_coeff"], "leaf_coeff")
    _need(len(counts) == leaves == len(_numbers(tree["leaf_const"], "leaf_const")), "its linear leaves do not fit")
    _need(_within(counts, 0, features) and counts.sum() == len(used) == len(factors), "its linear leaves do not fit")
    _need(_within(used, 0, features - 1), "its linear leaves use a feature that does not exist")


def _settings(block: str) -> dict[str, str]:
    found = {}
    for line in block.split("\n"):
        name, equals, text = line.partition("=")
        if equals and name in found:
            raise NotLoadable(f"{name} is there twice")
        if equals:
            found[name] = text
    return found


def _count(settings: Mapping[str, str], name: str) -> int:
    text = settings.get(name, "").strip()
    if not text.removeprefix("-").isdecimal() or len(text) > 9:
        raise NotLoadable(f"the LightGBM model is damaged: {name} is {text[:40]!r}, a whole number was expected")
    return int(text)


def _numbers(text: str, name: str) -> Numbers:
    try:
        if _TOKEN.fullmatch(text):
            return np.array(text.split(), dtype=np.float64)
    except ValueError:
        pass
    raise NotLoadable(f"{name[:40]} is not a list of numbers")


def _within(numbers: Numbers, least: int, most: int) -> bool:
    """Whether all are whole and between the two."""
    return bool(np.all((numbers >= least) & (numbers <= most) & (numbers == np.floor(numbers))))


def _need(held: bool, otherwise: str) -> None:
    if not held:
        raise NotLoadable(otherwise)
