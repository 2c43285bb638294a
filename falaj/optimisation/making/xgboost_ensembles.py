"""Trees in XGBoost's JSON, read and written without the library: the document says everything."""

import json
import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from falaj.optimisation.making.ensembles import Ensemble, Floats, Link, Tree, Whole
from falaj.optimisation.making.values import CannotBeMade, Made
from falaj.runtimes.errors import NotLoadable
from falaj.runtimes.xgboost_files import checked

LARGEST: Final = "multi:softmax"  # answers with the number of the class, and says nothing of the others
_LINKS: Final[dict[str, Link]] = {
    **dict.fromkeys(("binary:logistic", "reg:logistic"), "logistic"),
    **dict.fromkeys(("count:poisson", "reg:gamma", "reg:tweedie"), "exp"),
    **dict.fromkeys(("binary:logitraw", "reg:squarederror", "reg:absoluteerror", "reg:quantileerror"), "identity"),
    **dict.fromkeys(("reg:pseudohubererror", "rank:ndcg", "rank:map", "rank:pairwise", "reg:squaredlogerror"), "identity"),
    "multi:softprob": "softmax",
    LARGEST: "largest",
}


def document_of(content: bytes) -> Any:
    """The model as JSON says it, from either format."""
    try:
        return json.loads(checked(content))
    except NotLoadable as error:
        raise CannotBeMade(str(error)) from error


def read_xgboost(made: Made) -> Ensemble:
    learner = document_of(made.content)["learner"]
    objective = learner["objective"]["name"]
    if objective not in _LINKS:
        raise CannotBeMade(f"the trees answer {objective!r}, of which only XGBoost knows how it is computed")
    about, link = learner["learner_model_param"], _LINKS[objective]
    outputs = max(1, int(about["num_class"]), int(about.get("num_target", 1)))
    inner, dropped = _inner(learner)
    groups = zip(inner["trees"], inner["tree_info"], dropped, strict=True)
    return Ensemble(
        datatype="FP32",
        features=int(about["num_feature"]),
        trees=tuple(_tree(tree, group, outputs, weight) for tree, group, weight in groups),
        base=_margin(about["base_score"], link, outputs),
        link=link,
        flat=outputs == 1 or link == "largest",
    )


def write_xgboost(made: Made, kept: Sequence[int], leaves: Sequence[Floats]) -> bytes:
    """The model with these trees of its own alone, in this order, and with other values in their leaves."""
    document = document_of(made.content)
    learner = document["learner"]
    inner, dropped = _inner(learner)
    each = max(1, len(set(inner["tree_info"])))
    trees, groups = [], []
    for number, (at, values) in enumerate(zip(kept, leaves, strict=True)):
        tree, group = inner["trees"][at], inner["tree_info"][at]
        leaf_nodes = _leaf_nodes(np.array(tree["left_children"]))
        for node, value in zip(leaf_nodes.tolist(), (values[:, group] / dropped[at]).tolist(), strict=True):
            tree["split_conditions"][node] = tree["base_weights"][node] = value
        trees.append({**tree, "id": number})
        groups.append(group)
    inner |= {"trees": trees, "tree_info": groups, "iteration_indptr": list(range(0, len(trees) + 1, each))}
    inner["gbtree_model_param"]["num_trees"] = str(len(trees))
    booster = learner["gradient_booster"]
    if "weight_drop" in booster:
        booster["weight_drop"] = [dropped[at] for at in kept]
    learner.get("attributes", {}).pop("best_iteration", None)  # it may be a round that is gone
    return checked(json.dumps(document).encode())


def _inner(learner: Any) -> tuple[Any, list[float]]:
    """The trees, and what each counts: less than one only where training dropped some of them (DART)."""
    booster = learner["gradient_booster"]
    inner = booster.get("gbtree", booster)["model"]
    return inner, booster.get("weight_drop") or [1.0] * len(inner["trees"])


def _tree(told: Any, output: int, outputs: int, weight: float) -> Tree:
    if any(told["split_type"]):
        raise CannotBeMade("the trees split by categories, which XGBoost keeps in a way of its own; encode them as numbers")
    children = {name: np.array(told[name], dtype=np.int64) for name in ("left_children", "right_children")}
    leaf_nodes = _leaf_nodes(children["left_children"])
    inner_nodes = np.flatnonzero(_met(children["left_children"], children["right_children"]) & (children["left_children"] >= 0))
    numbers = np.zeros(len(children["left_children"]), dtype=np.int64)
    numbers[inner_nodes] = np.arange(len(inner_nodes))
    numbers[leaf_nodes] = ~np.arange(len(leaf_nodes))
    conditions = np.array(told["split_conditions"], dtype=np.float32)
    leaves = np.zeros((len(leaf_nodes), outputs))
    leaves[:, output] = conditions[leaf_nodes].astype(np.float64) * weight
    return Tree(
        feature=np.array(told["split_indices"], dtype=np.int64)[inner_nodes],
        # XGBoost asks whether a value is below the condition: at most the number before it.
        threshold=np.nextafter(conditions[inner_nodes], np.float32(-np.inf)).astype(np.float64),
        left=numbers[children["left_children"][inner_nodes]],
        right=numbers[children["right_children"][inner_nodes]],
        missing_left=np.array(told["default_left"], dtype=bool)[inner_nodes],
        zero_missing=np.zeros(len(inner_nodes), dtype=bool),
        leaves=leaves,
        categories={},
    )


def _leaf_nodes(left: Whole) -> Whole:
    return np.flatnonzero(left < 0)


def _met(left: Whole, right: Whole) -> "np.ndarray[tuple[int, ...], np.dtype[np.bool_]]":
    """What pruning took out is still in the lists."""
    met, level = np.zeros(len(left), dtype=bool), np.zeros(1, dtype=np.int64)
    while len(level):
        met[level] = True
        inner = level[left[level] >= 0]
        level = np.concatenate([left[inner], right[inner]])
    return met


def _margin(told: Any, link: Link, outputs: int) -> Floats:
    """XGBoost keeps the base as it would be answered; newer versions one for each output, in brackets."""
    text = str(told).strip()
    given = np.array(json.loads(text.replace("E", "e")) if text.startswith("[") else [float(text)], dtype=np.float64)
    if link == "logistic":
        given = np.array([math.log(one / (1 - one)) for one in given.tolist()])
    elif link == "exp":
        given = np.log(given)
    return np.broadcast_to(given, (outputs,)).copy() if len(given) in (1, outputs) else np.zeros(outputs)
