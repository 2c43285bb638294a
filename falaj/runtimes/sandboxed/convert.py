"""Make a checked format of a model that only Python can load: files come in by a tar on standard input, a tar goes out.

Loading the model may run any code. What is written is held against the formats afterwards like any other upload, and against
the original here, on rows of a dataset where there are some, on made-up ones else. Networks are in `networks`.
"""

import contextlib
import io
import json
import os
import sys
import tarfile
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from falaj.runtimes.sandboxed.comparing import TOLERANCE, Converted, gaps
from falaj.runtimes.sandboxed.failing import first_cause
from falaj.runtimes.sandboxed.loading import load
from falaj.runtimes.sandboxed.networks import OPSET, from_pytorch, from_tensorflow
from falaj.runtimes.sandboxed.originals import HERE, ROWS, Booster, Estimator, Original, Unusable, arrived
from falaj.runtimes.sandboxed.samples import texts
from falaj.runtimes.sandboxed.trials import Trial

OPSETS = {"": OPSET, "ai.onnx.ml": 3}


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
    trial = Trial(said, json.loads((HERE / ROWS).read_text()))
    made = CONVERTERS.get(library, CONVERTERS[known[0]])(original, trial)
    if made.beyond:
        raise Unusable(
            f"its answers once converted are up to {made.apart:.3g} away from the original's on {trial.rows} "
            f"{'real' if trial.real else 'sample'} rows; {TOLERANCE:g} is allowed, and {made.beyond} of them are beyond that"
        )
    report = {
        "made_from": original.kind,
        "apart": made.apart,
        "allowed": TOLERANCE,
        "rows": trial.rows,
        "real": trial.real,
        "unfit": trial.unfit,
        "answers": made.answers,
        "columns": made.columns,
    }
    return report, {made.file: made.content}


# scikit-learn


def from_sklearn(original: Estimator, trial: Trial) -> Converted:
    """The first of several ways in which the answers stay the same: numbers of single precision are the fastest."""
    mend_converter()
    learn_boosters()
    said = trial.said
    sample, wanted = trial.table(original, original.width, original.columns)
    best, problem = None, ""
    for types, feeds in ways(sample, said):
        try:
            content, answers = onnx_of(original, types, feeds)
        except Exception as error:  # noqa: BLE001 - the converter has errors of many kinds
            problem = problem or first_cause(error)
            continue
        columns = [] if said["columns"] else original.columns
        made = Converted("onnx", "model.onnx", content, gaps(zip(wanted.values(), answers, strict=False)), columns=columns)
        if not made.beyond:
            return made
        best = made if best is None or made.apart < best.apart else best
    if best is not None:
        return best
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


def from_lightgbm(original: Original, trial: Trial) -> Converted:
    import lightgbm
    import numpy as np

    refuse_texts(trial.said, "LightGBM")
    booster = original.model if isinstance(original, Booster) else original.model.booster_
    text = booster.model_to_string()
    sample, own = trial.table(original, booster.num_feature(), original.columns)
    answers = lightgbm.Booster(model_str=text).predict(np.asarray(sample, dtype=np.float64))
    wanted, told = wanted_of(original, own)
    return Converted("lightgbm", "model.txt", text.encode(), gaps([(wanted, answers)]), told, original.columns)


def from_xgboost(original: Original, trial: Trial) -> Converted:
    import numpy as np
    import xgboost

    refuse_texts(trial.said, "XGBoost")
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
    sample, own = trial.table(original, booster.num_features(), original.columns)
    answers = again.inplace_predict(np.asarray(sample, dtype=np.float32), validate_features=False)
    wanted, told = wanted_of(original, own)
    return Converted("xgboost", "model.ubj", content, gaps([(wanted, answers)]), told, original.columns)


def wanted_of(original: Original, answers: dict[str, Any]) -> tuple[Any, str]:
    """What a booster has to answer, and what that is where the original would have answered by labels."""
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


CONVERTERS: dict[str, Callable[[Any, Trial], Converted]] = {
    "sklearn": from_sklearn,
    "lightgbm": from_lightgbm,
    "xgboost": from_xgboost,
    "pytorch": from_pytorch,
    "tensorflow": from_tensorflow,
    "keras": from_tensorflow,
}

if __name__ == "__main__":
    main()
