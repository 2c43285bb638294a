"""Rows of every type that tables have, made up by Hypothesis, and the many shapes that Arrow may keep the same rows in."""

import datetime
import decimal
import itertools

import pyarrow as pa
from hypothesis import strategies as st

from falaj.tables.arrow_schemas import from_arrow

KINDS = {
    "int8": (pa.int8(), st.integers(-128, 127)),
    "uint64": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "float64": (pa.float64(), st.floats(allow_nan=False)),
    "float32": (pa.float32(), st.floats(width=32, allow_nan=False)),
    "text": (pa.string(), st.text(max_size=8)),
    "bytes": (pa.binary(), st.binary(max_size=8)),
    "bool": (pa.bool_(), st.booleans()),
    "moment": (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(datetime.UTC))),
    "date": (pa.date32(), st.dates()),
    "time": (pa.time64("us"), st.times()),
    "duration": (pa.duration("us"), st.timedeltas(datetime.timedelta(days=-999), datetime.timedelta(days=999))),
    "decimal": (pa.decimal128(10, 2), st.decimals(-(10**7), 10**7, places=2).map(lambda one: decimal.Decimal(one))),
    "list": (pa.list_(pa.int32()), st.lists(st.none() | st.integers(-9, 9), max_size=3)),
    "vector": (pa.list_(pa.float32(), 2), st.lists(st.floats(width=32, allow_nan=False), min_size=2, max_size=2)),
    "record": (
        pa.struct([("x", pa.string()), ("y", pa.list_(pa.int8()))]),
        st.fixed_dictionaries({"x": st.none() | st.text(max_size=3), "y": st.none() | st.lists(st.integers(0, 9), max_size=2)}),
    ),
    "vectors": (
        pa.struct([("v", pa.list_(pa.float32(), 2)), ("w", pa.list_(pa.list_(pa.int8(), 1)))]),
        st.fixed_dictionaries(
            {
                "v": st.none() | st.lists(st.integers(0, 9), min_size=2, max_size=2),
                "w": st.none() | st.lists(st.none() | st.lists(st.integers(0, 9), min_size=1, max_size=1), max_size=2),
            }
        ),
    ),
    "unknown": (pa.null(), st.none()),
}


@st.composite
def tables(draw, most=60):
    """A table of some columns of any types, with nulls."""
    rows = draw(st.integers(0, most))
    chosen = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=4, unique=True))
    columns = {}
    for name in chosen:
        kind, values = KINDS[name]
        columns[name] = pa.array(draw(st.lists(st.none() | values, min_size=rows, max_size=rows)), kind)
    return pa.table(columns)


def sliced(table, cuts):
    """The same rows in batches that begin anywhere in larger ones."""
    doubled = pa.concat_tables([table, table, table]).combine_chunks()
    middle = doubled.slice(table.num_rows, table.num_rows)
    places = sorted({0, table.num_rows, *(cut % (table.num_rows + 1) for cut in cuts)})
    pieces = [middle.slice(start, end - start) for start, end in itertools.pairwise(places)]
    return [batch for piece in pieces for batch in piece.to_batches()]


def schema_of(table):
    return from_arrow(table.schema)
