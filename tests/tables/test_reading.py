"""Tables over parts that are older than their schema: every row as the version has it."""

import itertools
import os

import pyarrow as pa
import pytest

from falaj.base.errors import Invalid
from falaj.tables.descriptors import Descriptor
from falaj.tables.orders import PartToRead, TableToRead
from falaj.tables.reading import batches
from falaj.tables.schemas import Column, Schema
from tests.tables.test_parts import KEY, sealed


@pytest.fixture
def part(tmp_path):
    numbers, opened = itertools.count(), []

    def made(table, **renamed):
        object_id = f"{next(numbers):032x}"
        place = tmp_path / object_id
        place.write_bytes(sealed(table, object_id=object_id)[0])
        opened.append(os.open(place, os.O_RDONLY))
        return PartToRead(file=opened[-1], key=KEY, object_id=object_id, renamed=renamed or None)

    yield made
    for file in opened:
        os.close(file)


def schema(**words):
    return Schema(columns=tuple(Column(name=name, type=word) for name, word in words.items()))


def rows(table, *columns):
    return [row for batch in batches(table, columns, rows=2) for row in batch.to_pylist()]


def test_columns_are_renamed_widened_absent_and_in_the_order_of_the_version(part):
    old = part(pa.table({"n": pa.array([1, 2, 3], pa.int16()), "gone": ["x", "y", "z"]}), n="amount")
    new = part(pa.table({"note": ["a"], "amount": [4]}))
    table = TableToRead(schema=schema(amount="int64", note="text"), parts=(old, new))
    assert rows(table) == [
        {"amount": 1, "note": None},
        {"amount": 2, "note": None},
        {"amount": 3, "note": None},
        {"amount": 4, "note": "a"},
    ]
    assert rows(table, "note") == [{"note": None}] * 3 + [{"note": "a"}]
    with pytest.raises(Invalid, match="There is no column 'gone'"):
        rows(table, "gone")


def test_masked_columns_are_null_though_they_may_not_be(part):
    columns = (Column(name="name", type="text", nullable=False), Column(name="n", type="int64"))
    table = TableToRead(schema=Schema(columns=columns), parts=(part(pa.table({"name": ["Ann"], "n": [1]})),), masked=("name",))
    assert rows(table) == [{"name": None, "n": 1}]
    assert rows(table, "name") == [{"name": None}]


def test_a_descriptor_is_read_at_places_of_its_own(tmp_path):
    (tmp_path / "file").write_bytes(b"0123456789")
    with (tmp_path / "file").open("rb") as file:
        one, other = Descriptor(file.fileno()), Descriptor(file.fileno())
        assert (one.read(3), other.read(2), one.read(2)) == (b"012", b"01", b"34")
        assert (one.seek(-1, os.SEEK_END), one.read()) == (9, b"9")
        assert (other.seek(2, os.SEEK_CUR), other.tell(), other.read(-1)) == (4, 4, b"456789")
        assert file.tell() == 0
