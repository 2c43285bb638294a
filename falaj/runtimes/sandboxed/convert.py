"""Make a checked format of a model that only Python can load: files come in by a tar on standard input, a tar goes out.

Loading the model may run any code. What is written is held against the formats afterwards like any other upload, and against
the original here, on sample rows.
"""

import contextlib
import io
import json
import os
import sys
import tarfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from falaj.runtimes.sandboxed.originals import HERE, Booster, Estimator, Module, Original, Unusable, arrived, load
from falaj.runtimes.sandboxed.samples import ROWS, table, tensors, texts

TOLERANCE = 1e-3
OPSETS = {"": 18, "ai.onnx.ml": 3}  # that every ONNX Runtime of the last years has


@dataclass
class Converted:
    """`apart` is how far its answers are from the original's; `answers` says what they are, where that is not plain."""

    runtime: str
    file: str
    content: bytes
    apart: float
    answers: str = ""
    columns: list[str] = field(default_factory=list)


def main() -> None:
    # What the model prints must not get among the answer.
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    warnings.filterwarnings("ignore")
    files: dict[str, bytes] = {}
    try:
        report, files = converted()
    except Unusable as error:
        report = {"error": str(error)}
    except ModuleNotFoundError as error:
        report = {"error": f"the library {error.name!r} is not installed where models are converted", "missing": error.name}
    except Exception as error:  # noqa: BLE001 - whatever a user's model raises is the answer
        report = {"error": f"{type(error).__name__}: {str(error)[:1000]}"}
    with tarfile.open(fileobj=answer, mode="w|") as tar:
        for name, content in {"report.json": json.dumps(report).encode(), **files}.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    answer.close()


def converted() -> tuple[dict[str, Any], dict[str, bytes]]:
    said = arrived(sys.stdin.buffer)
    known = [name for name in CONVERTERS if said["flavours"].get(name)]
    if not known:
        flavours = ", ".join(sorted(said["flavours"])) or "none"
        raise Unusable(f"no way is known to convert a model of flavour {flavours}, only of {', '.join(CONVERTERS)}")
    original = load(said)
    library = type(original.model).__module__.partition(".")[0]  # boosters are logged as scikit-learn's, too
    made = CONVERTERS.get(library, CONVERTERS[known[0]])(original, said)
    if not made.apart <= TOLERANCE:
        raise Unusable(f"its answers once converted are up to {made.apart:.3g} away from the original's on {ROWS} sample rows")
    report = {
        "made_from": original.kind,
        "apart": made.apart,
        "rows": ROWS,
        "answers": made.answers,
        "columns": made.columns,
    }
    return report, {made.file: made.content}


# scikit-learn


def from_sklearn(original: Estimator, said: dict[str, Any]) -> Converted:
    """The first of several ways in which the answers stay the same: numbers of single precision are the fastest."""
    mend_converter()
    learn_boosters()
    sample = table(said, original.width, original.model)
    wanted = original.answers(sample)
    found, problem = float("inf"), ""
    for types, feeds in ways(sample, said):
        try:
            content, answers = onnx_of(original, types, feeds)
        except Exception as error:  # noqa: BLE001 - the converter has errors of many kinds
            problem = problem or first_cause(error)
            continue
        found = min(found, max(apart(*pair) for pair in zip(wanted.values(), answers, strict=False)))
        if found <= TOLERANCE:
            return Converted("onnx", "model.onnx", content, found, columns=[] if said["columns"] else original.columns)
    if found < float("inf"):
        return Converted("onnx", "model.onnx", b"", found)
    raise Unusable(f"skl2onnx cannot convert this {type(original.model).__name__}: {problem}")


def onnx_of(original: Estimator, types: list[tuple[str, Any]], feeds: dict[str, Any]) -> tuple[bytes, list[Any]]:
    import onnxruntime
    from skl2onnx import to_onnx

    options = {id(original.model): {"zipmap": False}} if original.classifies else None
    content: bytes = to_onnx(original.model, initial_types=types, options=options, target_opset=OPSETS).SerializeToString()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    return content, session.run(None, feeds)


def ways(sample: Any, said: dict[str, Any]) -> Iterator[tuple[list[tuple[str, Any]], dict[str, Any]]]:
    """All columns as one tensor, or each as its own; numbers single, double, or as they are. What converters are told of
    the inputs, and the sample in that form."""
    import numpy as np
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType, Int64TensorType, StringTensorType

    if not texts(said):
        rows = np.asarray(sample, dtype=np.float64)
        for kind, dtype in ((FloatTensorType, np.float32), (DoubleTensorType, np.float64)):
            yield [("X", kind([None, rows.shape[1]]))], {"X": rows.astype(dtype)}
    if not said["columns"]:
        return
    whole = (Int64TensorType, np.int64)
    for number, count in (
        ((FloatTensorType, np.float32), (FloatTensorType, np.float32)),
        ((DoubleTensorType, np.float64), (DoubleTensorType, np.float64)),
        ((FloatTensorType, np.float32), whole),
        ((DoubleTensorType, np.float64), whole),
    ):
        by_type = {"string": (StringTensorType, object), "integer": count, "long": count}
        kinds = {column["name"]: by_type.get(column["type"], number) for column in said["columns"]}
        types = [(name, kind([None, 1])) for name, (kind, _) in kinds.items()]
        yield types, {name: sample[[name]].to_numpy().astype(dtype) for name, (_, dtype) in kinds.items()}


def first_cause(error: BaseException) -> str:
    """What went wrong at first; what is raised at last may hold half of the model."""
    while error.__cause__ is not None:
        error = error.__cause__
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:600].rstrip('.')}"


def mend_converter() -> None:
    """skl2onnx gives truths where ONNX has whole numbers (for HistGradientBoosting), which newer protobufs do not take."""
    from skl2onnx.common import _container

    make_node = _container.make_node

    def whole(given: Any) -> Any:
        return [int(one) if isinstance(one, bool) else one for one in given] if isinstance(given, list) else given

    def mended(*parts: Any, **attributes: Any) -> Any:
        return make_node(*parts, **{name: whole(given) for name, given in attributes.items()})

    _container.make_node = mended


def learn_boosters() -> None:
    """Boosters inside scikit-learn's pipelines, where their converters are installed."""
    try:
        from onnxmltools.convert.lightgbm.operator_converters.LightGbm import convert_lightgbm
        from onnxmltools.convert.xgboost.operator_converters.XGBoost import convert_xgboost
    except ImportError:
        return
    from skl2onnx import update_registered_converter
    from skl2onnx.common import shape_calculator as shapes

    for library, convert in (("lightgbm", convert_lightgbm), ("xgboost", convert_xgboost)):
        try:
            module = __import__(library)
        except ImportError:
            continue
        prefix = {"lightgbm": "LGBM", "xgboost": "XGB"}[library]
        learn = update_registered_converter
        choices = {"nocl": [True, False], "zipmap": [True, False, "columns"]}
        classifier, regressor = (getattr(module, prefix + kind) for kind in ("Classifier", "Regressor"))
        learn(classifier, f"{prefix}C", shapes.calculate_linear_classifier_output_shapes, convert, options=choices)
        learn(regressor, f"{prefix}R", shapes.calculate_linear_regressor_output_shapes, convert)


# Boosters


def from_lightgbm(original: Original, said: dict[str, Any]) -> Converted:
    import lightgbm
    import numpy as np

    refuse_texts(said, "LightGBM")
    booster = original.model if isinstance(original, Booster) else original.model.booster_
    text = booster.model_to_string()
    sample = table(said, booster.num_feature())
    answers = lightgbm.Booster(model_str=text).predict(np.asarray(sample, dtype=np.float64))
    wanted, told = wanted_of(original, sample)
    return Converted("lightgbm", "model.txt", text.encode(), apart(wanted, answers), told, original.columns)


def from_xgboost(original: Original, said: dict[str, Any]) -> Converted:
    import numpy as np
    import xgboost

    refuse_texts(said, "XGBoost")
    booster = original.model
    if isinstance(original, Estimator):
        missing = original.model.missing
        if missing is not None and missing == missing:  # NaN is not equal to itself
            raise Unusable(f"it takes {missing!r} for a missing value, and what is served takes NaN: train with missing=nan")
        booster = original.model.get_booster()
        # Where training stopped early, scikit-learn's side of XGBoost leaves out what came after the best.
        with contextlib.suppress(AttributeError):
            booster = booster[: original.model.best_iteration + 1]
    content = bytes(booster.save_raw("ubj"))
    again = xgboost.Booster()
    again.load_model(bytearray(content))
    sample = table(said, booster.num_features())
    answers = again.inplace_predict(np.asarray(sample, dtype=np.float32), validate_features=False)
    wanted, told = wanted_of(original, sample)
    return Converted("xgboost", "model.ubj", content, apart(wanted, answers), told, original.columns)


def wanted_of(original: Original, sample: Any) -> tuple[Any, str]:
    """What a booster has to answer, and what that is where the original would have answered by labels."""
    answers = original.answers(sample)
    if not isinstance(original, Estimator) or not original.classifies:
        return next(iter(answers.values())), ""
    classes = [str(one)[:50] for one in original.model.classes_]
    if len(classes) == 2:
        return answers["probabilities"][:, 1], f"the probability of class {classes[1]!r} (the other is {classes[0]!r})"
    return answers["probabilities"], f"the probabilities of the classes {', '.join(classes[:20])}, in that order"


def refuse_texts(said: dict[str, Any], library: str) -> None:
    if named := texts(said):
        raise Unusable(
            f"it takes texts ({', '.join(named[:5])}), which {library} turns into numbers only together with pandas: encode "
            "them in a scikit-learn pipeline"
        )


# PyTorch


def from_pytorch(original: Module, said: dict[str, Any]) -> Converted:
    import onnxruntime
    import torch

    samples = tensors(said)
    wanted = original.answers(samples)
    out = HERE / "model.onnx"
    names = [tensor["name"] for tensor in said["tensors"]]
    how = {"dynamo": True, "external_data": False, "verbose": False, "input_names": names if names and all(names) else None}
    program = getattr(original, "program", None)
    try:
        if program is not None:
            torch.onnx.export(program, (), str(out), **how)
        else:
            given = tuple(torch.from_numpy(sample) for sample in samples)
            batch = torch.export.Dim("batch", min=1, max=1 << 20)
            shapes = tuple({0: batch} for _ in given)
            torch.onnx.export(original.model, given, str(out), dynamic_shapes=shapes, **how)
    except ModuleNotFoundError:
        raise
    except Exception as error:
        raise Unusable(f"torch.onnx.export cannot convert it: {first_cause(error)}") from error
    content = out.read_bytes()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    feeds = {one.name: sample for one, sample in zip(session.get_inputs(), samples, strict=True)}
    pairs = zip(wanted.values(), session.run(None, feeds), strict=True)
    return Converted("onnx", "model.onnx", content, max(apart(*pair) for pair in pairs))


def apart(original: Any, ours: Any) -> float:
    """How far two answers are from each other: relative for numbers, the share that differs for labels."""
    import numpy as np

    first, second = np.asarray(original), np.asarray(ours)
    second = second.reshape(first.shape) if first.size == second.size else second
    if first.shape != second.shape:
        return float("inf")
    if first.dtype.kind in "fc" or second.dtype.kind in "fc":
        first, second = first.astype(np.float64), second.astype(np.float64)
        differ = ~((first == second) | (np.isnan(first) & np.isnan(second)))
        far = np.abs(first[differ] - second[differ]) / np.maximum(np.abs(first[differ]), 1.0)
        return float(np.nan_to_num(far, nan=np.inf).max()) if far.size else 0.0
    # A row exactly between two labels may fall either way once numbers are rounded.
    differing = float(np.mean(first.astype(str) != second.astype(str)))
    return differing if differing > 1 / ROWS else 0.0


CONVERTERS: dict[str, Callable[[Any, dict[str, Any]], Converted]] = {
    "sklearn": from_sklearn,
    "lightgbm": from_lightgbm,
    "xgboost": from_xgboost,
    "pytorch": from_pytorch,
}

if __name__ == "__main__":
    main()
