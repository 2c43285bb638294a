"""The MLmodel file beside an ONNX model: what MLflow and Falaj's registry read of its inputs. Written without MLflow."""

import json
import os
import platform
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from falaj.training.classic import converting

FILE: Final = "MLmodel"
_COLUMNS: Final = {"b": "boolean", "i": "long", "u": "long", "f": "double"}  # by numpy's kind; the rest are texts


def describe(model: str, table: Any, feeds: Mapping[str, Any]) -> str:
    """YAML as JSON, which it may be. `model` is the file beside it, `table` rows as people give them, `feeds` as the model
    takes them."""
    said = {"data": model, "providers": ["CPUExecutionProvider"]}
    python = {"loader_module": "mlflow.onnx", "data": model, "python_version": platform.python_version()}
    document = {
        "flavors": {"onnx": said, "python_function": python},
        "run_id": os.environ.get("MLFLOW_RUN_ID", ""),
        "signature": {"inputs": json.dumps(_inputs(table, feeds))},
    }
    return json.dumps(document, indent=1)


def _inputs(table: Any, feeds: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Columns where they have names, otherwise the model's own tensors."""
    if converting.named(table) is None:
        return [
            {"type": "tensor", "name": name, "tensor-spec": {"dtype": str(rows.dtype), "shape": [-1, *rows.shape[1:]]}}
            for name, rows in feeds.items()
        ]
    columns = converting.columns_of(table)
    return [{"type": _COLUMNS.get(np.asarray(rows).dtype.kind, "string"), "name": name} for name, rows in columns.items()]
