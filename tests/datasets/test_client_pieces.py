"""Files in pieces of whole rows: nothing is lost between them, and each can be read by itself."""

import csv
import gzip
import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.base.errors import Invalid
from falaj.client import dataset_pieces
from falaj.client.dataset_pieces import PieceToSend, cut
from falaj.tables.forms import Form

TEXTS = st.text(st.characters(exclude_characters="\r\x00", exclude_categories=["Cs"]), max_size=12)


def pieces(content: bytes, name: str = "rows.csv", piece: int = 40, **form: object) -> list[PieceToSend]:
    return list(cut(io.BytesIO(content), Form(**form), name=name, size=len(content), piece=piece)[1])  # type: ignore[arg-type]


@given(st.lists(st.lists(TEXTS, min_size=2, max_size=2), max_size=30), st.integers(1, 60))
def test_every_row_of_a_csv_file_is_in_one_piece_whatever_stands_in_it(rows: list[list[str]], size: int) -> None:
    file = io.StringIO(newline="")
    csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows([["a\nb", "c"], *rows])
    found = []
    for piece in pieces(file.getvalue().encode(), piece=size):
        header, *some = csv.reader(io.StringIO(piece.content.decode(), newline=""))
        assert header == ["a\nb", "c"]
        found += some
    assert found == rows


def test_a_piece_knows_the_line_it_begins_at_as_people_see_it() -> None:
    content = b"id,name\n" + b"".join(b"%d,some name\n" % number for number in range(2, 20))
    for piece in pieces(content)[1:]:
        second = piece.content.splitlines()[1]
        assert content.splitlines()[piece.first_line] == second
        assert int(second.split(b",")[0]) == piece.first_line + 1


def test_json_lines_are_cut_between_records_and_have_no_header() -> None:
    content = b"".join(b'{"id": %d, "text": "\\n"}\n' % number for number in range(20))
    found = pieces(content, "rows.jsonl")
    assert len(found) > 3
    assert b"".join(piece.content for piece in found) == content


def test_what_is_packed_or_in_wide_letters_is_sent_as_plain_utf8() -> None:
    plain = "id,name\n" + "".join(f"{number},بئر\n" for number in range(20))
    for content in (gzip.compress(plain.encode()), plain.encode("utf-16"), gzip.compress(plain.encode("utf-16"))):
        form, found = cut(io.BytesIO(content), Form(), name="rows.csv.gz", size=len(content), piece=60)
        assert (form.format, form.compression) == ("csv", "none")
        rows = [line for piece in found for line in piece.content.decode().splitlines() if not line.startswith("id")]
        assert rows == plain.splitlines()[1:]


def test_a_packed_file_that_was_cut_is_told() -> None:
    content = gzip.compress(b"id\n" + b"1\n" * 100_000)
    with pytest.raises(Invalid, match="unpacked"):
        pieces(content[: len(content) // 2])


@pytest.mark.parametrize(
    ("name", "start", "format"),
    [
        ("a.csv", b"", "csv"),
        ("a.TSV.gz", b"", "csv"),
        ("a.ndjson", b"", "jsonl"),
        ("a.parquet", b"", "parquet"),
        ("-", b"PAR1..", "parquet"),
        ("-", b"ARROW1..", "arrow"),
        ("-", b"\xff\xff\xff\xff..", "arrow"),
        ("-", b' {"a": 1}', "jsonl"),
        ("-", b"a,b", "csv"),
    ],
)
def test_a_format_is_known_by_ending_or_first_bytes(name: str, start: bytes, format: str) -> None:
    assert dataset_pieces.format_of(name, start) == format


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_a_large_parquet_or_arrow_file_is_cut_into_arrow_streams(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table, file = pa.table({"id": range(300_000)}), io.BytesIO()
    if kind == "parquet":
        pq.write_table(table, file)
    else:
        with pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
    whole = pieces(file.getvalue(), f"rows.{kind}")
    assert [piece.content for piece in whole] == [file.getvalue()]
    monkeypatch.setattr(dataset_pieces, "WHOLE", 1000)
    form, found = cut(io.BytesIO(file.getvalue()), Form(), name=f"rows.{kind}", size=file.tell(), piece=1 << 20)
    tables = [pa.ipc.open_stream(piece.content).read_all() for piece in found]
    assert form.format == "arrow"
    assert len(tables) > 1
    assert pa.concat_tables(tables) == table
    with pytest.raises(Invalid, match="standard input"):
        cut(io.BytesIO(file.getvalue()), Form(), name=f"rows.{kind}", size=None)
