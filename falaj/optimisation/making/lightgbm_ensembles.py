"""Trees in LightGBM's text format, read and written without the library: the text says everything."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from falaj.optimisation.making.ensembles import Ensemble, Floats, Link, Tree
from falaj.optimisation.making.values import CannotBeMade, Made
from falaj.runtimes.errors import NotLoadable
from falaj.runtimes.lightgbm_files import checked

_LINKS: Final[dict[str, Link]] = {
    **dict.fromkeys(("binary", "cross_entropy", "multiclassova"), "logistic"),
    **dict.fromkeys(("poisson", "gamma", "tweedie"), "exp"),
    "multiclass": "softmax",
}
_PLAIN: Final = frozenset(
    ["", "regression", "regression_l1", "huber", "fair", "quantile", "mape", "lambdarank", "rank_xendcg", "none", "custom"]
)
_CATEGORY, _LEFT, _ZERO, _NAN = 1, 2, 1, 2  # bits of decision_type, and kinds of what is missing in its upper two


def read_lightgbm(made: Made) -> Ensemble:
    head, blocks = _parts(made)
    header = dict(line.split("=", 1) for line in head.splitlines() if "=" in line)
    each = int(header["num_tree_per_iteration"])
    link, slope = _link(header.get("objective", ""))
    trees = tuple(_tree(_settings(block), number % each, each) for number, block in enumerate(blocks))
    averaged = "average_output" in head.splitlines()
    return Ensemble(
        datatype="FP64",
        features=int(header["max_feature_idx"]) + 1,
        trees=trees,
        base=np.zeros(each),
        link=link,
        slope=slope,
        scale=each / len(trees) if averaged and trees else 1.0,
        flat=each == 1,
    )


def write_lightgbm(made: Made, kept: Sequence[int], leaves: Sequence[Floats]) -> bytes:
    """The model with these trees of its own alone, in this order, and with other values in their leaves."""
    head, blocks = _parts(made)
    each = int(dict(line.split("=", 1) for line in head.splitlines() if "=" in line)["num_tree_per_iteration"])
    written = []
    for number, (tree, values) in enumerate(zip(kept, leaves, strict=True)):
        lines = blocks[tree].rstrip("\n").split("\n")
        column = values[:, tree % each].tolist()
        told = ["leaf_value=" + " ".join(map(repr, column)) if line.startswith("leaf_value=") else line for line in lines[1:]]
        written.append("\n".join([f"Tree={number}", *told, "", "", ""]))
    sizes = " ".join(str(len(text)) for text in written)
    top = [f"tree_sizes={sizes}" if line.startswith("tree_sizes=") else line for line in head.split("\n")]
    text, _ = checked("\n".join([*top, ""]) + "".join(written) + "end of trees\n")
    return text.encode()


def _parts(made: Made) -> tuple[str, list[str]]:
    """The header, and the trees without the word before their numbers."""
    try:
        text, _ = checked(made.content.decode())
    except (NotLoadable, UnicodeDecodeError) as error:
        raise CannotBeMade(f"{made.file} cannot be read: {error}") from error
    head, first, rest = text.partition("\nTree=")
    body = rest.partition("\nend of trees")[0]
    return head + ("\n" if first else ""), body.split("\nTree=") if first else []


def _settings(block: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in block.splitlines() if "=" in line)


def _link(objective: str) -> tuple[Link, float]:
    name, *words = objective.split(" ")
    told = dict(word.split(":", 1) for word in words if ":" in word)
    if name in _LINKS:
        return _LINKS[name], float(told.get("sigmoid", 1.0))
    if name not in _PLAIN or "sqrt" in words:
        raise CannotBeMade(f"the trees answer {objective!r}, of which only LightGBM knows how it is computed")
    return "identity", 1.0


def _tree(told: dict[str, str], output: int, outputs: int) -> Tree:
    if told.get("is_linear", "0") != "0":
        raise CannotBeMade("the trees have linear models in their leaves (linear_tree), which cannot be made smaller here")
    kinds, features = _whole(told, "decision_type"), _whole(told, "split_feature")
    thresholds = np.array(told.get("threshold", "").split(), dtype=np.float64)
    missing = (kinds >> 2) & 3
    values = np.array(told["leaf_value"].split(), dtype=np.float64)
    leaves = np.zeros((len(values), outputs))
    leaves[:, output] = values
    return Tree(
        feature=features,
        threshold=thresholds,
        left=_whole(told, "left_child"),
        right=_whole(told, "right_child"),
        # What is missing where nobody expected it counts as zero.
        missing_left=np.where(missing == 0, thresholds >= 0, (kinds & _LEFT) != 0),
        zero_missing=missing == _ZERO,
        leaves=leaves,
        categories={node: _categories(told, int(thresholds[node])) for node in np.flatnonzero(kinds & _CATEGORY).tolist()},
    )


def _whole(told: dict[str, str], name: str) -> "np.ndarray[tuple[int, ...], np.dtype[np.int64]]":
    return np.array(told.get(name, "").split(), dtype=np.int64)


def _categories(told: dict[str, str], number: int) -> frozenset[int]:
    """Bits of the words of set `number`."""
    bounds, words = _whole(told, "cat_boundaries"), _whole(told, "cat_threshold")
    own = words[bounds[number] : bounds[number + 1]].tolist()
    return frozenset(32 * place + bit for place, word in enumerate(own) for bit in range(32) if word >> bit & 1)
