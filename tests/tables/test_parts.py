"""Parts: what is sealed comes back bit for bit, and what was touched does not come back at all."""

import contextlib
import io
import os

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from falaj.base.errors import Invalid
from falaj.tables import parts
from falaj.tables.errors import Altered
from falaj.tables.parts import PartReader, PartWriter
from tests.tables.values import schema_of, sliced, tables

KEY, ID = bytes(range(32)), "a" * 32


def sealed(table, *, key=KEY, object_id=ID, batches=None):
    file = io.BytesIO()
    with PartWriter(file, schema_of(table), key=key, object_id=object_id) as writer:
        for batch in batches if batches is not None else table.to_batches():
            writer.write(batch)
    return file.getvalue(), writer.written


def people(rows=1000):
    return pa.table({"n": range(rows), "name": [f"secret name {number}" for number in range(rows)]})


@given(tables(), st.lists(st.integers(0, 100), max_size=4))
@settings(max_examples=60)
def test_rows_come_back_as_they_were_sealed(table, cuts):
    content, written = sealed(table, batches=sliced(table, cuts))
    reader = PartReader(content, key=KEY, object_id=ID)
    assert reader.read().equals(table)
    assert (written.rows, written.size, written.schema) == (table.num_rows, len(content), schema_of(table))
    assert reader.verified().digest == written.digest


def test_parts_are_read_from_descriptors_names_and_files(tmp_path):
    content, _ = sealed(people())
    place = tmp_path / "part"
    place.write_bytes(content)
    with place.open("rb") as file:
        for stored in (file.fileno(), place, str(place), content, pa.py_buffer(content), file):
            assert PartReader(stored, key=KEY, object_id=ID).read().equals(people())


def test_nothing_of_it_is_in_clear_not_even_names_of_columns():
    content, _ = sealed(people())
    assert b"secret" not in content
    assert b"name" not in content
    with pytest.raises(OSError, match="decryption"):
        pq.ParquetFile(io.BytesIO(content))


def test_any_flipped_bit_is_found_and_the_part_named():
    content, written = sealed(people(3000))
    found = 0
    step = max(1, len(content) // 150)
    for place in [*range(0, len(content), step), len(content) - 1]:
        touched = bytearray(content)
        touched[place] ^= 1 << place % 8
        try:
            again = PartReader(bytes(touched), key=KEY, object_id=ID).verified()
        except Altered as error:
            found += 1
            assert f"Part {ID} is not what was sealed" in str(error)  # noqa: PT017 - some bits mean nothing
        else:
            assert again.digest == written.digest
    assert found > 145


def test_a_cut_one_is_found():
    content, _ = sealed(people())
    for length in (0, 1, 4, 12, len(content) // 2, len(content) - 1):
        with pytest.raises(Altered):
            PartReader(content[:length], key=KEY, object_id=ID).verified()


def test_an_empty_file_is_found(tmp_path):
    (tmp_path / "part").touch()
    with pytest.raises(Altered, match="it is empty"):
        PartReader(tmp_path / "part", key=KEY, object_id=ID)


def test_one_in_the_place_of_another_is_found():
    content, _ = sealed(people(), object_id="b" * 32)
    with pytest.raises(Altered, match="Part aaaa"):
        PartReader(content, key=KEY, object_id=ID).verified()
    with pytest.raises(Altered):
        PartReader(content, key=os.urandom(32), object_id="b" * 32).verified()


def test_pages_of_one_part_do_not_pass_for_those_of_another():
    """Same key, same shape, other id: bytes from the middle of one in the middle of the other."""
    one, _ = sealed(people())
    other, _ = sealed(people(), object_id="b" * 32)
    assert len(one) == len(other)
    mixed = one[:200] + other[200:1200] + one[1200:]
    with pytest.raises(Altered):
        PartReader(mixed, key=KEY, object_id=ID).verified()


def test_a_writer_that_failed_leaves_no_part():
    file = io.BytesIO()
    writer = PartWriter(file, schema_of(people()), key=KEY, object_id=ID)
    with contextlib.suppress(ZeroDivisionError), writer:
        writer.write(people().to_batches()[0])
        raise ZeroDivisionError
    assert writer.written is None
    with pytest.raises(Altered):
        PartReader(file.getvalue(), key=KEY, object_id=ID).verified()


def test_a_key_has_256_bits():
    with pytest.raises(Invalid, match="32 bytes, not 16"):
        sealed(people(), key=bytes(16))


def test_only_what_is_asked_for_is_read(monkeypatch):
    monkeypatch.setattr(parts, "GROUP_ROWS", 16_384)
    content, _ = sealed(people(100_000))
    reader = PartReader(content, key=KEY, object_id=ID)
    assert reader.groups == 7
    assert next(reader.batches(["n"], groups=[1])).schema.names == ["n"]
    found = list(reader.batches(["name"], where=pc.field("n") == 70_000))
    assert [name for batch in found for name in batch["name"].to_pylist()] == ["secret name 70000"]
    assert sum(batch.num_rows for batch in reader.batches(groups=[0, 6])) == 16_384 + 100_000 % 16_384


def test_a_part_without_rows_is_one():
    content, written = sealed(people(0))
    assert (written.rows, PartReader(content, key=KEY, object_id=ID).read().num_rows) == (0, 0)


def test_wide_and_oddly_named_columns_are_kept():
    table = pa.table({name: [1, 2] for name in ("a.b", "a b", 'q"', "ü", "a.b.c", "list")})
    content, _ = sealed(table)
    assert PartReader(content, key=KEY, object_id=ID).read().equals(table)
