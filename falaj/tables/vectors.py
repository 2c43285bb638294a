"""Vectors as Parquet keeps them: as lists. Arrow writes lists of one length to Parquet, and cannot read them back where one
of them is null."""

import json
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from falaj.tables.arrow_schemas import from_arrow, to_arrow
from falaj.tables.schemas import Column, Schema

_MARK: Final = b"falaj.types"


def stored_schema(schema: pa.Schema) -> pa.Schema:
    """What a part says its columns are; where there are vectors, with what they really are beside."""
    stored = pa.schema([field.with_type(_stored(field.type)) for field in schema])
    if stored.equals(schema):
        return schema
    said = [column.type for column in from_arrow(schema).columns]
    return stored.with_metadata({_MARK: json.dumps(said).encode()})


def real_schema(stored: pa.Schema) -> pa.Schema:
    said = (stored.metadata or {}).get(_MARK)
    plain = stored.remove_metadata()
    if said is None:
        return plain
    columns = (
        Column(name=field.name, type=str(word), nullable=field.nullable)
        for field, word in zip(plain, json.loads(said), strict=True)
    )
    return to_arrow(Schema(columns=tuple(columns)))


def restored(batch: Any, schema: pa.Schema) -> Any:
    """A batch or table as it was read, with the columns it has of this schema."""
    for place, field in enumerate(batch.schema):
        wanted = schema.field(field.name).type
        if field.type != wanted:
            column = batch.column(place)
            pieces = [_restored(chunk, wanted) for chunk in column.chunks] if isinstance(batch, pa.Table) else None
            made = _restored(column, wanted) if pieces is None else pa.chunked_array(pieces, wanted)
            batch = batch.set_column(place, pa.field(field.name, wanted, field.nullable), made)
    return batch


def _stored(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        inner = _stored(kind.value_type)
        return kind if pa.types.is_list(kind) and inner == kind.value_type else pa.list_(inner)
    if pa.types.is_struct(kind):
        fields = [kind.field(place) for place in range(kind.num_fields)]
        return pa.struct([field.with_type(_stored(field.type)) for field in fields])
    return kind


def _restored(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if array.type == kind:
        return array
    if pa.types.is_fixed_size_list(kind):
        return _vector(array, kind)
    missing = array.is_null()
    if pa.types.is_list(kind):
        return pa.ListArray.from_arrays(array.offsets, _restored(array.values, kind.value_type), type=kind, mask=missing)
    children = [_restored(child, kind.field(place).type) for place, child in enumerate(array.flatten())]
    return pa.StructArray.from_arrays(children, fields=[kind.field(place) for place in range(kind.num_fields)], mask=missing)


def _vector(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """What is null takes the room of a vector all the same."""
    size, values = kind.list_size, _restored(array.flatten(), kind.value_type)
    if not pc.all(pc.equal(pc.list_value_length(array), size), min_count=0).as_py():
        raise pa.ArrowInvalid(f"not every vector has {size} elements")
    if not array.null_count:
        return pa.FixedSizeListArray.from_arrays(values, type=kind)
    there = np.repeat(np.asarray(array.is_valid()), size)
    places = pa.array(np.cumsum(there) - 1, mask=~there)
    return pa.FixedSizeListArray.from_arrays(values.take(places), type=kind, mask=array.is_null())
