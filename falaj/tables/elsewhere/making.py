"""A part of a file that is elsewhere: the columns that the table has, under the names it gives them, with what it says of the
whole file."""

from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

import pyarrow as pa

from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.tables import types
from falaj.tables.arrow_schemas import arrow_type
from falaj.tables.forms import Form
from falaj.tables.making import seal
from falaj.tables.schemas import Schema, listed
from falaj.tables.sources import Source, opened


@value
class Reading:
    """`said` are columns that the file has not and the table has, with one text for all rows; `fields` are the table's columns
    by the numbers that its files give them, where those count and names do not; `needs` are numbers that no file may lack."""

    said: Sequence[tuple[str, str, str | None]] = ()
    fields: Mapping[int, str] | None = None
    needs: Sequence[int] = ()


def make_part(
    source: IO[bytes], into: IO[bytes], *, form: Form, reading: Reading, schema: Schema | None, key: bytes, object_id: str
) -> dict[str, Any]:
    """As `making.make_part` does it. Raises `Invalid` and `TooLarge`; then `into` holds no part."""
    found = opened(source, form, schema)
    brought = _Brought(found, reading)
    return seal(
        brought.batches(),
        brought.schema,
        into,
        schema=schema,
        key=key,
        object_id=object_id,
        time_zone=found.form.time_zone,
    )


class _Brought:
    def __init__(self, found: Source, reading: Reading) -> None:
        self._found = found
        self._places = list(range(len(found.schema)))
        fields = list(found.schema)
        if reading.fields is not None:
            self._places = [at for at, number in enumerate(found.numbers) if number in reading.fields]
            if None in found.numbers:
                raise Invalid("The file does not number its columns, and the table goes by their numbers.")
            if missing := [reading.fields[number] for number in reading.needs if number not in found.numbers]:
                raise Invalid(f"The file lacks {listed(tuple(missing))}, which the table is parted by: rewrite it there.")
            fields = [fields[at].with_name(reading.fields[found.numbers[at] or 0]) for at in self._places]
        names = [field.name for field in fields]
        # Programs write partition columns into some files and not into others: what the table says counts.
        self._said = [(name, _one(name, word, text)) for name, word, text in reading.said]
        spoken = {name for name, _ in self._said}
        self._places = [at for at, name in zip(self._places, names, strict=True) if name not in spoken]
        own = [field for field in fields if field.name not in spoken]
        self.schema = pa.schema([*own, *(pa.field(name, one.type) for name, one in self._said)])
        if not self.schema.names:
            raise Invalid(f"The file has none of the table's columns, but {listed(tuple(found.schema.names))}.")

    def batches(self) -> Iterator[pa.RecordBatch]:
        for batch in self._found.batches:
            said = [pa.repeat(one, batch.num_rows) for _, one in self._said]
            columns = [batch.column(at) for at in self._places]
            yield pa.RecordBatch.from_arrays([*columns, *said], schema=self.schema)


def _one(name: str, word: str, text: str | None) -> pa.Scalar:
    kind = arrow_type(types.parse(word, of=name))
    try:
        if text is None or (text == "" and not pa.types.is_string(kind)):
            return pa.scalar(None, kind)
        return pa.array([text], pa.string()).cast(kind)[0]
    except pa.ArrowException:
        raise Invalid(f"The table says {text!r} of column {name!r}, which is no {word}.") from None
