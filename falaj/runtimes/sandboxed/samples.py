"""Rows to try a model with: the example that was logged with it, and made-up ones of the kind that its signature names."""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from falaj.runtimes.sandboxed.originals import HERE, Unusable

ROWS = 64
_NUMBERS = ("double", "float", "integer", "long", "boolean")


def table(said: dict[str, Any], width: int, model: Any = None) -> Any:
    """A frame where columns have names, an array else."""
    random = np.random.default_rng(0)
    columns = said["columns"]
    if not columns:
        return _unnamed(random, width)
    odd = [column["name"] for column in columns if column["type"] not in (*_NUMBERS, "string")]
    if odd:
        raise Unusable(f"its signature has columns of kinds that cannot be asked about in a table: {', '.join(odd[:5])}")
    import pandas

    known = {**_categories(model, [column["name"] for column in columns]), **_example(columns)}
    return pandas.DataFrame({column["name"]: _filled(random, column["type"], known.get(column["name"])) for column in columns})


def texts(said: dict[str, Any]) -> list[str]:
    return [column["name"] for column in said["columns"] if column["type"] == "string"]


def typed(column: str, values: Any) -> Any:
    """Values as the signature's type has them; whole numbers with gaps stay floats."""
    if column == "string":
        return values
    if column in ("integer", "long"):
        whole = np.isfinite(values).all()
        return values.astype(np.int32 if column == "integer" else np.int64) if whole else values
    return values.astype({"boolean": np.bool_, "float": np.float32}.get(column, np.float64))


def _filled(random: Any, kind: str, known: Any) -> Any:
    if known is not None and len(known):
        chosen = random.choice(np.array(list(known), dtype=object), ROWS)
        return chosen if kind == "string" else typed(kind, chosen.astype(np.float64))
    if kind == "string":
        return np.array([f"s{number % 3}" for number in range(ROWS)], dtype=object)
    return typed(kind, random.integers(0, 2, ROWS) if kind == "boolean" else _numbers(random, (ROWS,)).round(6))


def _numbers(random: Any, shape: tuple[int, ...]) -> Any:
    """Of all sizes: what a model learned from may be ages, or incomes."""
    return random.standard_normal(shape) * random.choice([1.0, 10.0, 100.0, 1000.0], shape)


def _unnamed(random: Any, width: int) -> Any:
    example = _logged()
    example = np.asarray(example, dtype=np.float64) if isinstance(example, list) else None
    if example is not None and example.ndim == 2:
        width = example.shape[1]
    if not width:
        raise Unusable("it says nothing of its inputs: log it with `signature=` or `input_example=`")
    rows = _numbers(random, (ROWS, width))
    if example is not None and example.ndim == 2:
        rows[: len(example)] = example[:ROWS]
    return rows


def _logged() -> Any:
    try:
        found = json.loads((HERE / "input_example.json").read_text())
    except (OSError, ValueError):
        return None
    return found["inputs"] if isinstance(found, dict) and "inputs" in found else found


def _example(columns: list[dict[str, Any]]) -> dict[str, Any]:
    """The columns of the logged example."""
    found = _logged()
    if not isinstance(found, dict) or "data" not in found:
        return {}
    names = found.get("columns", [column["name"] for column in columns])
    by_column = zip(*found["data"], strict=True)
    return {name: [one for one in values if one is not None] for name, values in zip(names, by_column, strict=False)}


def _categories(model: Any, names: list[str]) -> dict[str, Any]:
    """What scikit-learn's encoders know of each column: they may refuse anything else."""
    found: dict[str, Any] = {}
    for part, columns in _parts(model, names):
        for name, known in zip(columns, getattr(part, "categories_", ()), strict=False):
            found.setdefault(name, [one for one in known if one == one])  # NaN is not equal to itself
    return found


def _parts(model: Any, names: list[str]) -> Iterator[tuple[Any, list[str]]]:
    """The steps of a model with the columns that each is given, as far as they are the table's own."""
    if hasattr(model, "steps"):
        for _, step in model.steps[:1]:
            yield from _parts(step, names)
    elif hasattr(model, "transformers_"):
        for _, step, columns in model.transformers_:
            given = [columns] if isinstance(columns, str | int) else list(columns)
            own = [names[one] if isinstance(one, int | np.integer) else one for one in given]
            yield from _parts(step, own)
    else:
        yield model, names


def tensors(said: dict[str, Any]) -> list[Any]:
    """One array for each tensor of the signature; of a table, all of its columns as one."""
    random, example = np.random.default_rng(0), _logged()
    if said["columns"]:
        return [table(said, 0).to_numpy(dtype=np.float32)]
    if not said["tensors"]:
        raise Unusable("it says nothing of its inputs: log it with `signature=` or `input_example=`")
    made = []
    for tensor in said["tensors"]:
        kind, inner = np.dtype(tensor["dtype"]), [1 if length < 0 else length for length in tensor["shape"][1:]]
        known = example.get(tensor["name"]) if isinstance(example, dict) else example
        if known is not None and (given := np.asarray(known, dtype=kind)).ndim == len(tensor["shape"]) and len(given):
            made.append(np.resize(given, (ROWS, *given.shape[1:])))
        else:
            values = random.standard_normal([ROWS, *inner]) if kind.kind == "f" else random.integers(0, 2, [ROWS, *inner])
            made.append(np.asarray(values, dtype=kind))
    return made
