"""Tables of any make as columns of numpy: pandas, polars, Arrow, dictionaries, arrays. Nothing of them is imported."""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from falaj.base.errors import Invalid
from falaj.base.values import value

Kind = Literal["number", "category", "moment"]


@value
class Column:
    """`values` are float64 (of moments: seconds) or texts; where `missing`, they are NaN or empty."""

    name: str
    kind: Kind
    values: NDArray[Any]
    missing: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.values)

    @property
    def known(self) -> NDArray[Any]:
        return self.values[~self.missing]

    def codes(self) -> NDArray[np.int64]:
        """A whole number for each value, the same for the same; -1 where missing. Of this column alone."""
        found = np.full(len(self), -1, dtype=np.int64)
        found[~self.missing] = np.unique(self.known, return_inverse=True)[1]
        return found


Table: TypeAlias = dict[str, Column]


def table(given: Any, target: Any = None, name: str = "target") -> Table:
    """`given` may be a pair of table and target. A target that stands apart becomes a column of its own name."""
    if isinstance(given, tuple) and len(given) == 2:
        given, target = given
    found = {key: column(key, values) for key, values in _parts(given)}
    if target is not None:
        if name in found:
            raise Invalid(f"the table has a column {name!r}, and a target is given beside it: name the target otherwise")
        found[name] = column(name, target)
    if lengths := {len(one) for one in found.values()} - {len(next(iter(found.values()), ()))}:
        raise Invalid(f"columns differ in length: {sorted(lengths | {len(next(iter(found.values())))})} rows")
    return found


def joined(first: Column, second: Column) -> Column:
    """Rows of both. What is of two kinds is compared as text."""
    if first.kind != second.kind:
        first, second = as_text(first), as_text(second)
    return Column(
        name=first.name,
        kind=first.kind,
        values=np.concatenate([first.values, second.values]),
        missing=np.concatenate([first.missing, second.missing]),
    )


def as_text(one: Column) -> Column:
    if one.kind == "category":
        return one
    texts = np.array([f"{number:.15g}" for number in one.values], dtype=object)
    texts[one.missing] = ""
    return Column(name=one.name, kind="category", values=texts, missing=one.missing)


def column(name: str, given: Any) -> Column:
    values = _array(given)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise Invalid(f"{name!r} has {values.ndim} dimensions, and a column has one")
    if values.dtype.kind in "iuf":
        numbers = values.astype(np.float64)
        return Column(name=name, kind="number", values=numbers, missing=np.isnan(numbers))
    if values.dtype.kind in "Mm":
        missing = np.isnat(values)
        unit = "datetime64[us]" if values.dtype.kind == "M" else "timedelta64[us]"
        seconds = values.astype(unit).astype(np.int64) / 1e6
        seconds[missing] = np.nan
        return Column(name=name, kind="moment", values=seconds, missing=missing)
    return _of_objects(name, values)


def _of_objects(name: str, values: NDArray[Any]) -> Column:
    missing = np.array([_is_missing(one) for one in values], dtype=bool)
    known = values[~missing]
    texts = np.full(len(values), "", dtype=object)
    if values.dtype.kind == "O" and len(known) and all(hasattr(one, "timestamp") for one in known):
        seconds = np.full(len(values), np.nan)
        seconds[~missing] = [one.timestamp() for one in known]
        return Column(name=name, kind="moment", values=seconds, missing=missing)
    if values.dtype.kind == "O" and len(known) and not any(isinstance(one, str | bytes | bool | np.bool_) for one in known):
        try:
            numbers = np.full(len(values), np.nan)
            numbers[~missing] = [float(one) for one in known]  # decimals, and whole numbers among which some are missing
            return Column(name=name, kind="number", values=numbers, missing=missing)
        except (TypeError, ValueError):
            pass
    texts[~missing] = [str(one) for one in known]
    return Column(name=name, kind="category", values=texts, missing=missing)


def _is_missing(one: Any) -> bool:
    if one is None or type(one).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(one, float) and one != one


def _parts(given: Any) -> list[tuple[str, Any]]:
    if isinstance(given, Mapping):
        return [(str(name), values) for name, values in given.items()]
    names = getattr(given, "column_names", None)  # Arrow
    if names is None:
        names = getattr(given, "columns", None)  # pandas, polars
    if names is not None:
        return [(str(name), given[name]) for name in names]
    values = np.asarray(given.toarray() if hasattr(given, "toarray") else given)
    if values.dtype.names:
        return [(name, values[name]) for name in values.dtype.names]
    if values.ndim != 2:
        raise Invalid(
            f"a table has rows and columns, and this has {values.ndim} dimensions: give a frame, a dictionary or an array"
        )
    return [(f"column {place}", values[:, place]) for place in range(values.shape[1])]


def _array(given: Any) -> NDArray[Any]:
    if hasattr(given, "combine_chunks"):  # Arrow: what is missing stays so, and texts are texts
        kind = str(given.type)
        plain = kind.startswith(("int", "uint", "float", "double", "timestamp", "date", "halffloat"))
        return given.to_numpy() if plain and not given.null_count else np.array(given.to_pylist(), dtype=object)
    if hasattr(given, "to_numpy"):
        return np.asarray(given.to_numpy())
    found = np.asarray(given)
    # numpy turns what is missing among texts into texts.
    return np.array(given, dtype=object) if found.dtype.kind in "US" and isinstance(given, list | tuple) else found
