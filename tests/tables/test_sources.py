"""Sources of every format: recognised by their first bytes, read the same from a file and from a stream, and never believed."""

import contextlib
import gzip
import io
import json
import struct

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from falaj.base.errors import Invalid, TooLarge
from falaj.tables.forms import Form
from falaj.tables.sources import opened
from tests.tables.reading import Streamed, read

TABLE = pa.table({"n": [1, 2, None], "t": ["a", None, "c"]})


def csv():
    return b"n,t\n1,a\n2,\n,c\n"


def jsonl():
    return b"".join(json.dumps(row).encode() + b"\n" for row in TABLE.to_pylist())


def parquet():
    file = io.BytesIO()
    pq.write_table(TABLE, file)
    return file.getvalue()


def stream():
    file = io.BytesIO()
    with pa.ipc.new_stream(file, TABLE.schema) as writer:
        writer.write_table(TABLE)
    return file.getvalue()


def arrow_file():
    file = io.BytesIO()
    feather.write_feather(TABLE, file, compression="zstd")
    return file.getvalue()


FORMATS = {"csv": csv, "jsonl": jsonl, "parquet": parquet, "arrow": stream, "arrow file": arrow_file}


@pytest.mark.parametrize("name", FORMATS)
def test_formats_are_found_from_files_and_streams(name):
    content = FORMATS[name]()
    assert read(content).equals(TABLE)
    for piece in (1, 7, 1 << 20):
        source = opened(Streamed(content[i : i + piece] for i in range(0, len(content), piece)), Form())
        assert pa.Table.from_batches(list(source.batches), source.schema).equals(TABLE)
        assert source.form.format == name.split()[0]


@pytest.mark.parametrize("name", ["csv", "jsonl", "arrow"])
def test_compressed_ones_too(name):
    content = FORMATS[name]()
    assert read(gzip.compress(content)).equals(TABLE)
    assert read(pa.compress(content, codec="zstd", asbytes=True)).equals(TABLE)


def test_members_of_gzip_one_after_the_other_are_one_source():
    assert read(gzip.compress(b"n,t\n1,a\n") + gzip.compress(b"2,\n,c\n")).equals(TABLE)


def test_a_bomb_is_refused_as_it_unfolds():
    bomb = gzip.compress(b"a,b\n" + b"1,2\n" * (4 << 20))
    assert len(bomb) < 1 << 20
    with pytest.raises(TooLarge, match="more than 8 MiB of bytes of gzip, decompressed"):
        read(bomb, most=8 << 20)
    line = gzip.compress(b"a" * (256 << 20))
    with pytest.raises(Invalid, match="record that begins at line 1 has more than 32 MiB"):
        read(line)


def test_what_was_cut_is_said():
    cut = gzip.compress(csv() * 1000)[:-20]
    with pytest.raises(Invalid, match="cannot be decompressed"):
        read(cut, format="csv")
    for name in ("parquet", "arrow file"):
        content = FORMATS[name]()
        with pytest.raises(Invalid, match=r"no Parquet file|no Arrow stream"):
            read(content[: len(content) // 2])
    with pytest.raises(Invalid, match="Arrow stream"):
        read(stream()[:-100])


def test_what_is_something_else_is_said():
    for said, content in (("parquet", csv()), ("arrow", csv()), ("jsonl", csv()), ("csv", parquet())):
        with pytest.raises(Invalid):
            read(content, format=said)
    with pytest.raises(Invalid, match="cannot be decompressed"):
        read(csv(), compression="gzip")


def test_flipped_bytes_are_refused_or_read_and_never_end_anything():
    for content in (stream(), parquet(), arrow_file()):
        for place in range(0, len(content), 3):
            touched = bytearray(content)
            touched[place] ^= 0xFF
            with contextlib.suppress(Invalid, TooLarge, MemoryError):
                read(bytes(touched)).validate(full=True)


def test_an_array_whose_offsets_point_elsewhere_is_refused():
    content = stream()
    ends = struct.pack("<iiii", 0, 1, 1, 2)
    assert content.count(ends) == 1
    with pytest.raises(Invalid, match="damaged Arrow stream"):
        read(content.replace(ends, struct.pack("<iiii", 0, 1, 1, 1 << 30)))


class Slow(io.BytesIO):
    """A pipe gives what has come by now, however much is asked for."""

    def read(self, size=-1):
        return super().read(min(size, 65_160))


def test_an_arrow_stream_is_read_whole_however_little_comes_at_a_time():
    table = pa.table({"n": range(300_000)})
    file = io.BytesIO()
    with pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)  # in one message of more than two MiB
    found = opened(Slow(file.getvalue()), Form())
    assert pa.Table.from_batches(list(found.batches), found.schema) == table
