"""Bringing rows into a schema: columns by name, narrower types widened, absent ones null; what would be lossy is refused."""

from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa
import pyarrow.compute as pc

from falaj.base.errors import Invalid
from falaj.tables import types
from falaj.tables.arrow_schemas import from_arrow, to_arrow, type_word
from falaj.tables.moments import assumed
from falaj.tables.schemas import Schema, listed
from falaj.tables.types import Type

_NUMBERS: Final = (*types.INTEGERS, *types.FLOATS, "decimal")


class Fitting:
    """Made once for a stream of batches that have one schema. `rows` counts those that went through, so that messages name
    a row.

    Times without a zone are taken as of `time_zone`; without one they are refused.
    """

    def __init__(self, given: pa.Schema, schema: Schema | None, *, time_zone: str = "") -> None:
        self.schema = schema or from_arrow(given)
        self.target = to_arrow(self.schema)
        self.rows = 0
        self._zone = _known_zone(time_zone)
        self._places = _places(given, self.schema)
        for place, column in zip(self._places, self.schema.columns, strict=True):
            if place is not None:
                _refuse_what_never_fits(given.field(place), column.type)

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Raises `Invalid`, naming column and row."""
        columns = []
        for field, place in zip(self.target, self._places, strict=True):
            if place is None:
                columns.append(pa.nulls(batch.num_rows, field.type))
                continue
            column = batch.column(place)
            if column.type != field.type:
                column = self._converted(column, field)
            if column.null_count and not field.nullable:
                row = self.rows + pc.index(column.is_null(), True).as_py() + 1
                raise Invalid(f"Column {field.name!r} may not be null, and is in row {row}.")
            columns.append(column)
        self.rows += batch.num_rows
        return pa.RecordBatch.from_arrays(columns, schema=self.target)

    def _converted(self, column: pa.Array, field: pa.Field) -> pa.Array:
        if isinstance(column, pa.ExtensionArray):
            column = column.storage
        column = _decoded(column)
        if pa.types.is_timestamp(column.type) and column.type.tz is None and pa.types.is_timestamp(field.type):
            column = self._with_zone(column, field.name)
        try:
            return _cast(column, field.type)
        except pa.ArrowNotImplementedError:
            raise Invalid(
                f"Column {field.name!r} holds {column.type}, which cannot be made {field.type}: convert it."
            ) from None
        except pa.ArrowInvalid as error:
            raise Invalid(
                f"Column {field.name!r} holds {column.type} where {field.type} is expected, and not every value of rows "
                f"{self.rows + 1} to {self.rows + len(column)} can be brought into it without loss: {error}."
            ) from None

    def _with_zone(self, column: pa.Array, name: str) -> pa.Array:
        if self._zone is None:
            raise Invalid(
                f"Column {name!r} has times without a zone, which mean nothing to somebody elsewhere. Say whose clocks they "
                "are (`--time-zone Asia/Muscat`, or UTC), or write them with their offset: 2026-11-15T09:30:00+04:00."
            )
        return assumed(column, self._zone, name=name)


def _decoded(column: pa.Array) -> pa.Array:
    """Values by themselves, where they are numbers of words or said once for many rows."""
    if pa.types.is_run_end_encoded(column.type):
        return pc.run_end_decode(column)
    if not pa.types.is_dictionary(column.type):
        return column
    if pa.types.is_string_view(column.type.value_type):  # as of categories of polars: Arrow does not decode them so
        column = pa.DictionaryArray.from_arrays(column.indices, column.dictionary.cast(pa.string()))
    return column.dictionary_decode()


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Raises `pa.ArrowInvalid` where something would be lost, which Arrow itself does not for all types."""
    if pa.types.is_integer(column.type) and pa.types.is_decimal(kind):
        # Arrow asks for room for any integer; the second step looks at those that there are.
        return column.cast(pa.decimal256(20 + kind.scale, kind.scale)).cast(kind)
    made = column.cast(kind)
    rounds = (pa.types.is_floating(column.type), pa.types.is_floating(kind))
    if rounds in ((True, False), (False, True)) and (pa.types.is_decimal(kind) or pa.types.is_decimal(column.type)):
        lost = pc.not_equal(made.cast(column.type, safe=False), column)
        if pc.any(lost).as_py():
            raise pa.ArrowInvalid(f"{column.filter(lost)[0]} would be rounded")
    return made


def _known_zone(name: str) -> str | None:
    if not name:
        return None
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise Invalid(f"There is no time zone {name[:100]!r}: write it as Asia/Muscat, Europe/Berlin or UTC.") from None
    return name


def _refuse_what_never_fits(given: pa.Field, expected: str) -> None:
    found = type_word(given.type, of=given.name)
    if not _may_fit(found, types.parse(expected)):
        raise Invalid(f"Column {given.name!r} holds {found} where {expected} is expected: convert it before.")


def _may_fit(found: Type, expected: Type) -> bool:
    """Numbers may, where no single one loses anything by it; which is seen as they come."""
    if types.fits(found, into=expected):
        return True
    if found.word in _NUMBERS and expected.word in _NUMBERS:
        return (found.word, expected.word) != ("float64", "float32")
    same = found.word == expected.word and found.sizes == expected.sizes and found.names == expected.names
    return same and bool(found.inner) and all(map(_may_fit, found.inner, expected.inner))


def _places(given: pa.Schema, schema: Schema) -> list[int | None]:
    names = given.names
    extra = tuple(name for name in names if name not in schema.names)
    if extra:
        raise Invalid(
            f"The rows have columns that are not expected: {listed(extra)}. Expected are {listed(schema.names)}. "
            "Leave them out, or say that the dataset gets them (`--evolve`)."
        )
    places: list[int | None] = []
    for column in schema.columns:
        if names.count(column.name) > 1:
            raise Invalid(f"There are two columns called {column.name!r}: rename one of them.")
        if column.name not in names and not column.nullable:
            raise Invalid(f"Column {column.name!r} is missing and may not be null. There are {listed(tuple(names))}.")
        places.append(names.index(column.name) if column.name in names else None)
    return places
