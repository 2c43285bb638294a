"""ONNX of a model of scikit-learn, LightGBM or XGBoost, by the several ways in which inputs can be told. `exporting` holds
each against the model and keeps the first that is equal."""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from falaj.base.values import value

OPSETS: Final = {"": 18, "ai.onnx.ml": 3}  # that every ONNX Runtime of the last years has


@value
class Way:
    """Inputs as the converter is told of them, and rows in that form."""

    words: str
    types: list[tuple[str, Any]]
    feeds: dict[str, Any]


def ways(sample: Any) -> Iterator[Way]:
    """All columns as one tensor, or each as its own; in single precision, which is the fastest, or in double."""
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType, Int64TensorType, StringTensorType

    single, double = (FloatTensorType, np.float32), (DoubleTensorType, np.float64)
    columns = columns_of(sample)
    if all(column.dtype.kind in "biuf" for column in columns.values()):
        whole = np.column_stack([column.astype(np.float64) for column in columns.values()])
        for words, (kind, dtype) in (("single precision", single), ("double precision", double)):
            yield Way(words=words, types=[("X", kind([None, whole.shape[1]]))], feeds={"X": whole.astype(dtype)})
    if named(sample) is None:
        return
    for words, number in (("columns apart, single precision", single), ("columns apart, double precision", double)):
        types, feeds = [], {}
        for name, column in columns.items():
            kind, rows = number[0], column
            if column.dtype.kind not in "biuf":
                kind, rows = StringTensorType, column.astype(str).astype(object)
            elif column.dtype.kind in "iu":
                kind, rows = Int64TensorType, column.astype(np.int64)
            else:
                rows = column.astype(number[1])
            types.append((name, kind([None, 1])))
            feeds[name] = rows[:, None]
        yield Way(words=words, types=types, feeds=feeds)


def named(table: Any) -> Any:
    """The names of its columns, or None: of Arrow, pandas and polars."""
    names = getattr(table, "column_names", None)
    return getattr(table, "columns", None) if names is None else names


def columns_of(table: Any) -> dict[str, Any]:
    if (names := named(table)) is not None:
        return {str(name): np.asarray(table[name]) for name in names}
    plain = np.asarray(table.toarray() if hasattr(table, "toarray") else table)
    return {str(place): plain[:, place] for place in range(plain.shape[1])}


def onnx_of(model: Any, way: Way) -> bytes:
    from skl2onnx import to_onnx

    _mend_converter()
    _learn_boosters()
    options = {id(model): {"zipmap": False}} if hasattr(model, "predict_proba") else None
    made = to_onnx(model, initial_types=way.types, options=options, target_opset=OPSETS)
    # They come in the order of a set, which is another in each process: the same model is to be the same file.
    opsets = sorted(made.opset_import, key=lambda opset: str(opset.domain))
    del made.opset_import[:]
    made.opset_import.extend(opsets)
    return bytes(made.SerializeToString())


def _mend_converter() -> None:
    """skl2onnx gives truths where ONNX has whole numbers (for HistGradientBoosting), which newer protobufs do not take."""
    from skl2onnx.common import _container

    make_node = _container.make_node
    if getattr(make_node, "mended", False):
        return

    def whole(given: Any) -> Any:
        return [int(one) if isinstance(one, bool) else one for one in given] if isinstance(given, list) else given

    def mended(*parts: Any, **attributes: Any) -> Any:
        return make_node(*parts, **{name: whole(given) for name, given in attributes.items()})

    mended.mended = True  # type: ignore[attr-defined]
    _container.make_node = mended


def _learn_boosters() -> None:
    """skl2onnx knows scikit-learn's own; the boosters' converters are onnxmltools'."""
    from skl2onnx import update_registered_converter
    from skl2onnx.common import shape_calculator as shapes

    choices = {"nocl": [True, False], "zipmap": [True, False, "columns"]}
    for prefix, library, convert in _booster_converters():
        classifier, regressor = (getattr(library, prefix + kind) for kind in ("Classifier", "Regressor"))
        shape = shapes.calculate_linear_classifier_output_shapes
        update_registered_converter(classifier, f"{prefix}C", shape, convert, options=choices)
        update_registered_converter(regressor, f"{prefix}R", shapes.calculate_linear_regressor_output_shapes, convert)


def _booster_converters() -> Iterator[tuple[str, Any, Any]]:
    try:
        import lightgbm
        from onnxmltools.convert.lightgbm.operator_converters.LightGbm import convert_lightgbm

        yield "LGBM", lightgbm, convert_lightgbm
    except ImportError:
        pass
    try:
        import xgboost
        from onnxmltools.convert.xgboost.operator_converters.XGBoost import convert_xgboost

        yield "XGB", xgboost, convert_xgboost
    except ImportError:
        pass
