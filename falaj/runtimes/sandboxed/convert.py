"""Make a checked format of a model that only Python can load: files come in by a tar on standard input, a tar goes out.

Runs in a sandbox, by an interpreter that has the model's libraries. Loading the model may run any code; it can reach neither
network nor disk, and what it writes is held against the formats afterwards like any other upload.
"""

import io
import json
import os
import sys
import tarfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

HERE = Path("/tmp/model")
ROWS = 64
TOLERANCE = 1e-3
Convert = Callable[[dict[str, Any], Any], tuple[str, str, bytes, str, float]]


class CannotConvert(Exception):
    """Told to whoever wanted to deploy the model."""


def main() -> None:
    # What the model prints must not get among the answer.
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    warnings.filterwarnings("ignore")
    try:
        report, files = converted()
    except CannotConvert as error:
        report, files = {"error": str(error)}, {}
    except ModuleNotFoundError as error:
        needed = f"the library {error.name!r} is not installed where models are converted"
        report, files = {"error": f"{needed}: add it there, or see [serving] converter in the settings"}, {}
    except Exception as error:  # noqa: BLE001 - whatever a user's model raises is the answer
        report, files = {"error": f"{type(error).__name__}: {str(error)[:1000]}"}, {}
    with tarfile.open(fileobj=answer, mode="w|") as tar:
        for name, content in {"report.json": json.dumps(report).encode(), **files}.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    answer.close()


def converted() -> tuple[dict[str, Any], dict[str, bytes]]:
    with tarfile.open(fileobj=sys.stdin.buffer, mode="r|") as tar:
        tar.extractall(HERE, filter="data")
    said = json.loads((HERE / "falaj-request.json").read_text())
    flavours = said["flavours"]
    for name, convert in CONVERTERS.items():
        if name in flavours:
            runtime, file, content, made_from, apart = convert(flavours[name], said)
            if not apart <= TOLERANCE:
                refuse(f"the converted model's answers are up to {apart:.3g} away from the original's on {ROWS} sample rows")
            return {"runtime": runtime, "file": file, "made_from": made_from, "apart": apart, "rows": ROWS}, {file: content}
    raise CannotConvert(f"no way is known to convert a model of flavour {', '.join(sorted(flavours)) or 'none'}")


def refuse(why: str) -> NoReturn:
    raise CannotConvert(why)


# What came in


def loaded(file: str) -> Any:
    """The object in a file, by whatever wrote it."""
    path = HERE / file
    if path.suffix == ".skops":
        from skops.io import get_untrusted_types, load

        return load(path, trusted=get_untrusted_types(file=path))
    try:
        import cloudpickle as pickle
    except ModuleNotFoundError:
        import pickle
    with path.open("rb") as stream:
        return pickle.load(stream)


def table(said: dict[str, Any], width: int) -> Any:
    """Sample rows: the example that was logged with the model, filled up by random ones; a frame where columns have names."""
    import numpy as np

    random = np.random.default_rng(0)
    columns = [column["name"] for column in said["columns"]]
    example = _example(columns)
    if not columns:
        if example is not None:
            width = example.shape[1]
        rows = random.standard_normal((ROWS, width))
        if example is not None:
            rows[: len(example[:ROWS])] = example[:ROWS]
        return rows
    import pandas

    def filled(column: dict[str, Any]) -> Any:
        kind, known = column["type"], None if example is None else example.get(column["name"])
        if known is not None and len(known):
            return random.choice(list(known), ROWS)
        if kind == "string":
            return np.array([f"s{number % 3}" for number in range(ROWS)], dtype=object)
        if kind == "boolean":
            return random.integers(0, 2, ROWS).astype(bool)
        return random.integers(0, 10, ROWS) if kind in ("integer", "long") else random.standard_normal(ROWS)

    return pandas.DataFrame({column["name"]: filled(column) for column in said["columns"]})


def _example(columns: list[str]) -> Any:
    path = HERE / "input_example.json"
    if not path.exists():
        return None
    found = json.loads(path.read_text())
    if isinstance(found, dict) and "data" in found and columns:
        return dict(zip(found.get("columns", columns), zip(*found["data"], strict=True), strict=False))
    if isinstance(found, dict) and "inputs" in found:
        found = found["inputs"]
    if columns or not isinstance(found, list):
        return None
    import numpy as np

    rows = np.asarray(found, dtype=np.float64)
    return rows if rows.ndim == 2 else None


# Ways


def from_sklearn(flavour: dict[str, Any], said: dict[str, Any]) -> tuple[str, str, bytes, str, float]:
    file = flavour.get("pickled_model", "model.pkl")
    return onnx_of_sklearn(loaded(file), said, file)


def onnx_of_sklearn(model: Any, said: dict[str, Any], file: str) -> tuple[str, str, bytes, str, float]:
    import numpy as np
    import onnxruntime
    from skl2onnx import to_onnx

    _learn_boosters()
    sample = table(said, int(getattr(model, "n_features_in_", 0)))
    whole = type(model).__name__
    options = {id(model): {"zipmap": False}} if hasattr(model, "predict_proba") else None
    mixed = hasattr(sample, "dtypes") and any(kind.kind == "O" for kind in sample.dtypes)
    rows = sample if mixed else np.asarray(sample, dtype=np.float32)
    try:
        made = to_onnx(model, rows[:1], options=options)
    except Exception as error:  # noqa: BLE001 - the converter has errors of many kinds
        refuse(f"skl2onnx cannot convert this {whole}: {str(error)[:600]}")
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    inputs = session.get_inputs()
    feeds = {one.name: _column(sample, one) for one in inputs} if mixed else {inputs[0].name: rows}
    answers = session.run(None, feeds)
    asked = sample if mixed or not hasattr(sample, "columns") else sample.astype(np.float32)
    apart = _apart(model.predict(asked), answers[0])
    if hasattr(model, "predict_proba") and len(answers) > 1:
        apart = max(apart, _apart(model.predict_proba(asked), answers[1]))
    return "onnx", "model.onnx", made.SerializeToString(), f"scikit-learn {whole} ({file})", apart


def _column(sample: Any, wanted: Any) -> Any:
    import numpy as np

    kind = {"tensor(string)": object, "tensor(int64)": np.int64, "tensor(float)": np.float32, "tensor(double)": np.float64}
    return sample[wanted.name].to_numpy().astype(kind.get(wanted.type, np.float32)).reshape(-1, 1)


def _learn_boosters() -> None:
    """Boosters inside scikit-learn pipelines, where they and their converters are installed."""
    try:
        from lightgbm import LGBMClassifier, LGBMRegressor
        from onnxmltools.convert.lightgbm.operator_converters.LightGbm import convert_lightgbm
        from skl2onnx import update_registered_converter
        from skl2onnx.common.shape_calculator import (
            calculate_linear_classifier_output_shapes,
            calculate_linear_regressor_output_shapes,
        )

        choices = {"nocl": [True, False], "zipmap": [True, False, "columns"]}
        update_registered_converter(
            LGBMClassifier,
            "LightGbmLGBMClassifier",
            calculate_linear_classifier_output_shapes,
            convert_lightgbm,
            options=choices,
        )
        update_registered_converter(
            LGBMRegressor, "LightGbmLGBMRegressor", calculate_linear_regressor_output_shapes, convert_lightgbm
        )
    except ImportError:
        pass


def _apart(original: Any, ours: Any) -> float:
    """How far two answers are from each other: relative for numbers, the share that differs for labels."""
    import numpy as np

    first, second = np.asarray(original), np.asarray(ours)
    second = second.reshape(first.shape) if first.size == second.size else second
    if first.shape != second.shape:
        return float("inf")
    if first.dtype.kind in "fc" or second.dtype.kind in "fc":
        scale = np.maximum(np.abs(first.astype(np.float64)), 1.0)
        return float(np.max(np.abs(first.astype(np.float64) - second) / scale)) if first.size else 0.0
    # A row exactly between two labels may fall either way once numbers are rounded.
    differing = float(np.mean(first.astype(str) != second.astype(str)))
    return differing if differing > 1 / ROWS else 0.0


def from_lightgbm(flavour: dict[str, Any], said: dict[str, Any]) -> tuple[str, str, bytes, str, float]:
    import lightgbm

    file = flavour["data"]
    model = loaded(file)
    booster = model if isinstance(model, lightgbm.Booster) else model.booster_
    text = booster.model_to_string()
    sample = table(said, booster.num_feature())
    again = lightgbm.Booster(model_str=text)
    apart = _apart(booster.predict(sample), again.predict(sample))
    return "lightgbm", "model.txt", text.encode(), f"LightGBM {type(model).__name__} ({file})", apart


def from_xgboost(flavour: dict[str, Any], said: dict[str, Any]) -> tuple[str, str, bytes, str, float]:
    import xgboost

    file = flavour["data"]
    path = HERE / file
    if path.suffix in (".xgb", ".bin", ".deprecated"):
        booster, kind = xgboost.Booster(), "Booster"
        booster.load_model(path)
    else:
        model = loaded(file)
        kind = type(model).__name__
        booster = model if isinstance(model, xgboost.Booster) else model.get_booster()
    content = bytes(booster.save_raw("ubj"))
    again = xgboost.Booster()
    again.load_model(bytearray(content))
    sample = xgboost.DMatrix(table(said, booster.num_features()))
    return "xgboost", "model.ubj", content, f"XGBoost {kind} ({file})", _apart(booster.predict(sample), again.predict(sample))


def from_pytorch(flavour: dict[str, Any], said: dict[str, Any]) -> tuple[str, str, bytes, str, float]:
    import numpy as np
    import onnxruntime
    import torch

    folder = HERE / flavour.get("model_data", "data")
    files = sorted(path for path in folder.rglob("*.pt*"))
    if not files:
        refuse("the PyTorch model's file is not among the version's files")
    model = torch.load(files[0], map_location="cpu", weights_only=False)
    if not isinstance(model, torch.nn.Module):
        refuse(f"its file holds a {type(model).__name__}, not a whole module; log it with `mlflow.pytorch.log_model(module)`")
    model.eval()
    samples = _tensors(said)
    batch = torch.export.Dim("batch", min=1, max=65_536)
    out = HERE / "model.onnx"
    shapes = tuple({0: batch} for _ in samples)
    torch.onnx.export(
        model,
        samples,
        str(out),
        dynamo=True,
        dynamic_shapes=shapes,
        external_data=False,
        input_names=_names(said),
        verbose=False,
    )
    session = onnxruntime.InferenceSession(out.read_bytes(), providers=["CPUExecutionProvider"])
    feeds = {one.name: sample.numpy() for one, sample in zip(session.get_inputs(), samples, strict=True)}
    with torch.no_grad():
        original = model(*samples)
    firsts = original if isinstance(original, tuple | list) else [original]
    pairs = zip(firsts, session.run(None, feeds), strict=False)
    apart = max(_apart(first.numpy().astype(np.float64), second) for first, second in pairs)
    return "onnx", "model.onnx", out.read_bytes(), f"PyTorch {type(model).__name__} ({files[0].name})", apart


def _names(said: dict[str, Any]) -> list[str] | None:
    names = [tensor["name"] for tensor in said["tensors"]]
    return names if names and all(names) else None


def _tensors(said: dict[str, Any]) -> tuple[Any, ...]:
    import numpy as np
    import torch

    if said["columns"]:
        return (torch.tensor(np.random.default_rng(0).standard_normal((ROWS, len(said["columns"]))), dtype=torch.float32),)
    if not said["tensors"]:
        refuse("a PyTorch model says nothing of its inputs unless it was logged with `signature=` or `input_example=`")
    random = np.random.default_rng(0)
    made = []
    for tensor in said["tensors"]:
        shape = [ROWS, *(1 if length < 0 else length for length in tensor["shape"][1:])]
        kind = np.dtype(tensor["dtype"])
        values = random.standard_normal(shape) if kind.kind == "f" else random.integers(0, 10, shape)
        made.append(torch.from_numpy(np.asarray(values, dtype=kind)))
    return tuple(made)


CONVERTERS: dict[str, Convert] = {
    "sklearn": from_sklearn,
    "lightgbm": from_lightgbm,
    "xgboost": from_xgboost,
    "pytorch": from_pytorch,
}

if __name__ == "__main__":
    main()
