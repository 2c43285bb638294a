"""Reading the columns of a dataset out of the schema that clients send with it, JSON as MLflow writes it.

What is not written like that has no columns; an export must not fail because of one dataset's description.
"""

import json
from typing import Any

from falaj.base.values import value


@value
class ColumnOf:
    name: str
    type: str


def columns_of(schema: str) -> tuple[ColumnOf, ...]:
    """The named columns of a table, or the tensors of an array dataset."""
    document = _read(schema)
    if not isinstance(document, dict):
        return ()
    if "mlflow_colspec" in document:
        return tuple(_columns(document["mlflow_colspec"], unnamed=""))
    tensors = document.get("mlflow_tensorspec")
    if not isinstance(tensors, dict):
        return ()
    parts = ("features", "targets")
    return tuple(column for part in parts for column in _columns(_read(tensors.get(part)), unnamed=part))


def _columns(entries: Any, *, unnamed: str) -> list[ColumnOf]:
    if not isinstance(entries, list):
        return []
    found = []
    for entry in entries:
        if not isinstance(entry, dict):
            continue
        name = entry.get("name", unnamed)
        if isinstance(name, str) and name:
            found.append(ColumnOf(name=name, type=_type(entry)))
    return found


def _type(entry: dict[str, Any]) -> str:
    tensor = entry.get("tensor-spec")
    if isinstance(tensor, dict):
        return f"{tensor.get('dtype')}{json.dumps(tensor.get('shape'))}"
    return str(entry.get("type", ""))


def _read(text: Any) -> Any:
    try:
        return json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None
