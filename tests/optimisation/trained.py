"""Small models that were really trained, with the rows they learnt from and others: one of each kind that a search is about."""

import functools
import pickle
import warnings

import lightgbm
import numpy as np
import pyarrow as pa
from skl2onnx import to_onnx
from sklearn.datasets import make_classification, make_friedman1
from sklearn.linear_model import Ridge
from sklearn.neural_network import MLPClassifier, MLPRegressor
from threadpoolctl import threadpool_limits

from tests.optimisation.making.models import (
    FLOAT,
    INT64,
    LENGTH,
    WORDS,
    conv,
    digits,
    graph,
    node,
    slow,
    slow_rows,
    transformer,
)

Columns = dict[str, np.ndarray]
MILLIVOLTS, VOLTS = 0, 1
RARE = 0.01  # of all readings, those in volts


def table(columns: Columns) -> pa.Table:
    """Pictures and readings as vectors."""
    return pa.table({name: _column(values) for name, values in columns.items()})


def _column(values: np.ndarray) -> pa.Array:
    flat = pa.array(np.ascontiguousarray(values).reshape(-1))
    return flat if values.ndim == 1 else pa.FixedSizeListArray.from_arrays(flat, values[0].size)


def part(columns: Columns, first: int, last: int) -> Columns:
    return {name: values[first:last] for name, values in columns.items()}


@functools.cache
def meters() -> Columns:
    """Readings in thousandths of a volt, and a few in volts; `unit` says in which."""
    rows, fails = make_classification(
        n_samples=11_000, n_features=8, n_informative=6, class_sep=1.8, flip_y=0.01, random_state=6
    )
    unit = (np.random.default_rng(7).random(len(rows)) < RARE).astype(np.int64)
    readings = rows * np.where(unit == VOLTS, 1.0, 1000.0)[:, None]
    return {"readings": readings.astype(np.float32), "unit": unit, "fails": fails}


@functools.cache
def meter_model() -> bytes:
    """Of two inputs. It weighs the readings first and takes the unit away then: eight bits for both leave nothing of volts."""
    known = part(meters(), 0, 5000)
    volts = known["readings"] / np.where(known["unit"] == VOLTS, 1.0, 1000.0)[:, None]
    learnt = _fitted(MLPClassifier(hidden_layer_sizes=(64, 32), max_iter=25, random_state=0), volts, known["fails"])
    (first, second, last), (first_bias, second_bias, last_bias) = learnt.coefs_, learnt.intercepts_
    weights = {
        "units": np.array([1000.0, 1.0], np.float32),
        "first": first,
        "first_bias": first_bias,
        "second": second,
        "second_bias": second_bias,
        "last": np.column_stack([np.zeros(len(last)), last[:, 0]]),
        "last_bias": np.array([0.0, last_bias[0]]),
    }
    nodes = [
        node("MatMul", ["readings", "first"], "weighed"),
        node("Gather", ["units", "unit"], "unit_of_row"),
        node("Div", ["weighed", "unit_of_row"], "in_volts"),
        node("Add", ["in_volts", "first_bias"], "one"),
        node("Relu", ["one"], "one_up"),
        node("Gemm", ["one_up", "second", "second_bias"], "two"),
        node("Relu", ["two"], "two_up"),
        node("Gemm", ["two_up", "last", "last_bias"], "scores"),
        node("Softmax", ["scores"], "shares", axis=1),
    ]
    given = [("readings", FLOAT, ["rows", 8]), ("unit", INT64, ["rows", 1])]
    single = {name: array.astype(np.float32) for name, array in weights.items()}
    return bytes(graph(nodes, given, [("shares", FLOAT, ["rows", 2])], single).SerializeToString())


FEATURES = tuple(f"x{number}" for number in range(10))


@functools.cache
def amounts() -> Columns:
    rows, amount = make_friedman1(n_samples=5000, noise=2.5, random_state=8)
    return {name: rows[:, at] for at, name in enumerate(FEATURES)} | {"amount": amount}


def amount_model(*widths: int, epochs: int) -> bytes:
    known = part(amounts(), 0, 3000)
    rows = np.column_stack([known[name] for name in FEATURES]).astype(np.float32)
    learnt = _fitted(
        MLPRegressor(hidden_layer_sizes=widths, max_iter=epochs, learning_rate_init=0.003, random_state=0),
        rows,
        known["amount"],
    )
    return bytes(to_onnx(learnt, rows[:1]).SerializeToString())


@functools.cache
def pickled_model() -> bytes:
    """scikit-learn's, as it is logged."""
    known = part(amounts(), 0, 3000)
    return pickle.dumps(Ridge().fit(np.column_stack([known[name] for name in FEATURES]), known["amount"]))


def orders() -> Columns:
    rows, late = make_classification(n_samples=6000, n_features=10, n_informative=8, class_sep=1.5, flip_y=0.01, random_state=9)
    return {name: rows[:, at].astype(np.float32).astype(np.float64) for at, name in enumerate(FEATURES)} | {"late": late}


def order_model() -> bytes:
    """LightGBM's text."""
    known = part(orders(), 0, 3000)
    rows = np.column_stack([known[name] for name in FEATURES])
    wished = {"objective": "binary", "num_leaves": 31, "verbose": -1, "seed": 0, "deterministic": True, "num_threads": 1}
    learnt = lightgbm.train(wished, lightgbm.Dataset(rows, known["late"], feature_name=list(FEATURES)), num_boost_round=100)
    return learnt.model_to_string().encode()


def pictures() -> Columns:
    """Handwritten digits."""
    learnt, others, _ = digits()
    drawn = np.concatenate([learnt.inputs[0], others.inputs[0]])
    return {"pictures": drawn, "digit": np.concatenate([learnt.truth, others.truth])}


def picture_model() -> bytes:
    return conv().content


def scans() -> Columns:
    """Of which a model makes much work."""
    rows = slow_rows(400)
    assert rows.truth is not None
    return {"features": rows.inputs[0], "sound": rows.truth}


def scan_model() -> bytes:
    return slow(turns=250).content


def sentences() -> Columns:
    """Words by number; the class is which of three kinds is there most often."""
    rows = np.random.default_rng(11).integers(0, WORDS, (4000, LENGTH))
    counts = np.stack([(rows % 3 == kind).sum(axis=1) for kind in range(3)], axis=1)
    return {"tokens": rows, "kind": counts.argmax(axis=1)}


def sentence_model() -> bytes:
    return transformer().content


def _fitted(model, rows, truth):
    with threadpool_limits(1), warnings.catch_warnings():  # several threads wait for each other where others work, too
        warnings.simplefilter("ignore")  # few rounds do not converge, nor need they
        return model.fit(rows, truth)
