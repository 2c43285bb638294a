"""Ensembles of decision trees, whoever trained them: what `trees` makes smaller and `tree_masks` makes fast.

Every split is a question with two answers; libraries differ in what they ask about missing values, zeros and categories, and
`Tree.goes_left` is where that is written down. Reading and writing is in one file for each library.
"""

from typing import Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from falaj.base.values import value

Floats: TypeAlias = npt.NDArray[np.float64]
Whole: TypeAlias = npt.NDArray[np.int64]
Link: TypeAlias = Literal["identity", "logistic", "softmax", "exp", "largest"]
ZERO: Final = float(np.float32(1e-35))  # LightGBM takes what is nearer to zero for zero
_CHUNK: Final = 2048


@value
class Tree:
    """Inner nodes by number, the root first; a child below zero is a leaf, `~child` its number. A row goes left where its
    value is at most the threshold, where it is missing and `missing_left`, or, where `categories` has the node, where it is
    one of them. `zero_missing` nodes take zeros for missing. `leaves` has a column for each of the ensemble's outputs."""

    feature: Whole
    threshold: Floats
    left: Whole
    right: Whole
    missing_left: npt.NDArray[np.bool_]
    zero_missing: npt.NDArray[np.bool_]
    leaves: Floats
    categories: dict[int, frozenset[int]]

    def goes_left(self, node: int, values: Floats) -> npt.NDArray[np.bool_]:
        if node in self.categories:
            listed = np.array(sorted(self.categories[node]))
            whole = np.trunc(np.where(np.isnan(values), -1.0, np.clip(values, -2.0, 2.0**31)))
            return np.isin(whole, listed)
        missing = np.isnan(values)
        if self.zero_missing[node]:
            missing |= np.abs(values) <= ZERO
        left: npt.NDArray[np.bool_] = np.where(missing, self.missing_left[node], values <= self.threshold[node])
        return left

    def cuts(self, node: int, dtype: "np.dtype[np.generic]") -> list[float]:
        """Upper ends of ranges within which the node decides alike."""
        if node in self.categories:
            listed = self.categories[node]
            changes = [number for number in {number + step for number in listed for step in (-1, 0)} if number >= 0]
            return [-1.0, *(_below(number + 1.0, dtype) for number in changes)]
        ends = [float(self.threshold[node])]
        return [*ends, _below(-ZERO, dtype), ZERO] if self.zero_missing[node] else ends


@value
class Ensemble:
    """What it answers: `link` of `base` plus the leaves a row falls into, times `scale`, a column for each output; a single
    column is `flat` where the library gives no second axis. `slope` is what the logistic link multiplies by first; `largest`
    answers with the number of the largest column alone, and is flat."""

    datatype: Literal["FP32", "FP64"]
    features: int
    trees: tuple[Tree, ...]
    base: Floats
    link: Link = "identity"
    scale: float = 1.0
    slope: float = 1.0
    flat: bool = False

    @property
    def outputs(self) -> int:
        return len(self.base)

    @property
    def dtype(self) -> "np.dtype[np.generic]":
        return np.dtype(np.float64 if self.datatype == "FP64" else np.float32)


def leaves_of(trees: tuple[Tree, ...], rows: Floats) -> npt.NDArray[np.int32]:
    """The number of the leaf that each row falls into, by tree: walked level by level, all rows at once."""
    found = np.zeros((len(rows), len(trees)), dtype=np.int32)
    for number, tree in enumerate(trees):
        if not len(tree.left):
            continue
        plain = not tree.categories and not tree.zero_missing.any()
        for start in range(0, len(rows), _CHUNK):
            part = rows[start : start + _CHUNK]
            found[start : start + _CHUNK, number] = _walked(tree, part) if plain else _asked(tree, part)
    return found


def raw_answers(ensemble: Ensemble, leaves: npt.NDArray[np.int32]) -> Floats:
    """Before the link, without the base."""
    total = np.zeros((len(leaves), ensemble.outputs))
    for number, tree in enumerate(ensemble.trees):
        total += tree.leaves[leaves[:, number]]
    return total * ensemble.scale


def _walked(tree: Tree, rows: Floats) -> Whole:
    at = np.zeros(len(rows), dtype=np.int64)
    everywhere = np.arange(len(rows))
    while len(everywhere):
        node = at[everywhere]
        values = rows[everywhere, tree.feature[node]]
        left = np.where(np.isnan(values), tree.missing_left[node], values <= tree.threshold[node])
        at[everywhere] = np.where(left, tree.left[node], tree.right[node])
        everywhere = everywhere[at[everywhere] >= 0]
    return ~at


def _asked(tree: Tree, rows: Floats) -> Whole:
    """Node by node: splits of several kinds have to be asked one at a time."""
    found = np.zeros(len(rows), dtype=np.int64)
    waiting = [(0, np.arange(len(rows)))]
    while waiting:
        node, who = waiting.pop()
        if node < 0:
            found[who] = ~node
        elif len(who):
            left = tree.goes_left(node, rows[who, tree.feature[node]])
            waiting += [(int(tree.left[node]), who[left]), (int(tree.right[node]), who[~left])]
    return found


def _below(number: float, dtype: "np.dtype[np.generic]") -> float:
    return float(np.nextafter(dtype.type(number), dtype.type(-np.inf)))
