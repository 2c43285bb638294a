"""CSV as people really send it: what is right is read with nothing lost, what is wrong is said with its line and column."""

import csv
import io
import itertools
import tracemalloc

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from falaj.base.errors import Invalid
from falaj.tables import delimited, records
from falaj.tables.forms import Form
from falaj.tables.schemas import Column, Schema
from falaj.tables.sources import opened
from tests.tables.reading import Streamed, read, words


def test_types_are_found_and_nothing_is_lost_by_them():
    content = b"id,price,name,ok,day,at,zip,account,clock\n"
    content += b"1,2.5,Ann,true,2026-01-02,2026-01-02T03:04:05Z,00123,12345678901234567890,10:11:12\n"
    table = read(content)
    assert words(table) == {
        "id": "int64",
        "price": "double",
        "name": "string",
        "ok": "bool",
        "day": "date32[day]",
        "at": "timestamp[us, tz=UTC]",
        "zip": "string",
        "account": "string",
        "clock": "time64[us]",
    }
    assert table["zip"].to_pylist() == ["00123"]
    assert table["account"].to_pylist() == ["12345678901234567890"]


@pytest.mark.parametrize("sign", [",", ";", "\t", "|"])
def test_the_delimiter_is_found(sign):
    lines = [["a", "b", "c"], ["1", "x, y", "3"], ["4", "z", "6"]]
    content = "\n".join(sign.join(f'"{field}"' if "," in field else field for field in line) for line in lines)
    assert read(content.encode()).to_pylist() == [{"a": 1, "b": "x, y", "c": 3}, {"a": 4, "b": "z", "c": 6}]


def test_fields_hold_line_ends_quotes_and_delimiters():
    content = b'"a\nb",c\n1,"x\r\ny"\n2,"say ""hi"", ok"\n'
    table = read(content)
    assert table.column_names == ["a\nb", "c"]
    assert table["c"].to_pylist() == ["x\r\ny", 'say "hi", ok']


def test_a_quote_within_a_field_opens_nothing(monkeypatch):
    monkeypatch.setattr(records, "BLOCK", 1 << 10)
    content = b"size,name\n" + b'3,5" pipe\n' * 3 + b"4,plain\n" * 1000 + b'5,6" pipe\n'
    table = read(content)
    assert table.num_rows == 1004
    assert table["name"].to_pylist()[:4] == ['5" pipe'] * 3 + ["plain"]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_every_kind_of_line_end(end):
    assert read(end.join([b"a,b", b"1,2", b"3,4"])).to_pylist() == [{"a": 1, "b": 2}, {"a": 3, "b": 4}]


def test_ragged_lines_are_named():
    with pytest.raises(Invalid, match=r"Line 4 has 2 fields where 3 are expected \(a, b, c\): '7,8'"):
        read(b"a,b,c\n1,2,3\n4,5,6\n7,8\n")
    with pytest.raises(Invalid, match="Line 3 has 4 fields where 3 are expected"):
        read(b"a,b,c\n1,2,3\n4,5,6,7\n")


def test_a_line_is_named_as_people_count_them_though_a_piece_begins_later():
    with pytest.raises(Invalid, match="Line 1001 has 1 fields"):
        read(b"1,2\n3\n", header=False, columns=("a", "b"), first_line=1000)


def test_values_that_are_none_of_their_column_are_named_in_any_block():
    content = b"a,b\n" + b"1,%s\n" % (b"x" * 400) * 50_000 + b"oops,y\n" + b"2,z\n"
    with pytest.raises(Invalid, match=r"Line 50002, column 'a': 'oops' is no int64.*--type a=text"):
        read(content)
    assert words(read(content, types={"a": "text"}))["a"] == "string"


def test_quoted_nothing_is_text_and_no_number():
    """As programs write it that quote everything: an empty number is none, an empty text is one."""
    table = read(b'"n","t","at"\n"1","NA","2026-01-01T00:00:00Z"\n"","",""\n')
    assert [tuple(row.values())[:2] for row in table.to_pylist()] == [(1, "NA"), (None, "")]
    assert table["at"].null_count == 1


def test_words_for_nothing_are_null():
    assert read(b"a,b\n1,NA\nNULL,x\n").to_pylist() == [{"a": 1, "b": None}, {"a": None, "b": "x"}]
    assert read(b"a\n1\n-999\n", nulls=("-999",))["a"].to_pylist() == [1, None]


def test_a_column_without_values_is_unknown_until_one_comes():
    assert words(read(b"a,b\n1,\n2,\n"))["b"] == "null"
    late = b"a,b\n" + b"1,\n" * 4_000_000 + b"1,x\n"
    with pytest.raises(Invalid, match="Column 'b' was empty at first and has values later: say its type"):
        read(late)


def test_times_need_a_zone_from_themselves_or_from_who_sends_them():
    content = b"at\n2026-03-29T01:30:00\n2026-03-29T03:30:00+02:00\n2026-07-01 12:00\n"
    with pytest.raises(Invalid, match="Column 'at' has in row 1 '2026-03-29T01:30:00', a time without a zone"):
        read(content)
    found = [one.isoformat() for one in read(content, time_zone="Europe/Berlin")["at"].to_pylist()]
    assert found == ["2026-03-29T00:30:00+00:00", "2026-03-29T01:30:00+00:00", "2026-07-01T10:00:00+00:00"]


def test_an_hour_that_clocks_leapt_over_is_refused_and_one_shown_twice_is_the_first():
    with pytest.raises(Invalid, match="clocks in Europe/Berlin never showed"):
        read(b"at\n2026-03-29T02:30:00\n", time_zone="Europe/Berlin")
    twice = read(b"at\n2026-10-25T02:30:00\n", time_zone="Europe/Berlin")["at"].to_pylist()
    assert twice[0].isoformat() == "2026-10-25T00:30:00+00:00"


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1", "cp1252", "utf-8-sig"])
def test_other_encodings_are_read(encoding):
    content = "name,n\nJosé,1\nÅsa,2\n".encode(encoding)
    said = {} if encoding in ("utf-16", "utf-8-sig") else {"encoding": encoding}
    assert read(content, **said)["name"].to_pylist() == ["José", "Åsa"]


def test_what_is_not_utf_8_says_so():
    with pytest.raises(Invalid, match=r"Column 'name' has text that is not UTF-8\. Say the encoding"):
        read("name,n\nJosé,1\n".encode("latin-1"))
    late = b"name,n\n" + b"x,1\n" * 1_000_000 + "José,1\n".encode("latin-1")
    with pytest.raises(Invalid, match="Line 1000002 is not UTF-8"):
        read(late)
    with pytest.raises(Invalid, match="There is no encoding 'klingon'"):
        read(b"a\n1\n", encoding="klingon")


def test_headers_that_are_none_are_refused():
    for content, said in [
        (b"", "The source is empty"),
        (b"\n\n", "The source is empty"),
        (b"a,a\n1,2\n", "two columns called 'a'"),
        (b"a,,c\n1,2,3\n", "Column 2 has no name"),
        (b"\x00\x01\x02\x03", "this is no CSV"),
    ]:
        with pytest.raises(Invalid, match=said):
            read(content)


def test_without_a_header_names_are_given_or_counted():
    assert read(b"1,x\n", header=False).column_names == ["column_1", "column_2"]
    assert read(b"1,x\n", header=False, columns=("n", "t")).to_pylist() == [{"n": 1, "t": "x"}]


def test_a_header_alone_is_a_table_without_rows():
    table = read(b"a,b\n")
    assert (table.num_rows, table.column_names) == (0, ["a", "b"])


def test_a_schema_says_the_types():
    schema = Schema(columns=(Column(name="a", type="decimal(10, 2)"), Column(name="b", type="text")))
    assert words(read(b"a,b\n1,2\n", schema)) == {"a": "decimal128(10, 2)", "b": "string"}
    with pytest.raises(Invalid, match=r"cannot be list\(int64\): CSV has no such values"):
        read(b"a\n1\n", Schema(columns=(Column(name="a", type="list(int64)"),)))
    with pytest.raises(Invalid, match="Types are given for columns that are not there: z"):
        read(b"a\n1\n", types={"z": "text"})


def test_a_single_line_without_end_is_refused_before_it_fills_memory():
    source = Streamed(b"x" * (1 << 20) for _ in range(2048))
    tracemalloc.start()
    try:
        with pytest.raises(Invalid, match="record that begins at line 1 has more than 32 MiB"):
            opened(source, Form(format="csv"))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert source.taken < 64 << 20
    assert most < 160 << 20


def test_a_quote_that_is_never_closed_is_thought_of():
    content = b'a,b\n1,"x\n' + b"2,y%s\n" % (b"y" * 400) * 100_000
    with pytest.raises(Invalid, match=r"line 2 has more than 32 MiB\. A quote that is never closed"):
        read(content)


def test_rows_come_the_same_wherever_blocks_are_cut():
    lines = [f'{number},"text {number}\n{"x" * (number % 97)}"' for number in range(3000)]
    content = ("n,t\n" + "\n".join(lines)).encode()
    whole = read(content)
    assert whole.num_rows == 3000
    for size in (1, 100, 4096):
        cut = b"".join(records.blocks(iter([content[i : i + 777] for i in range(0, len(content), 777)]), quote='"', size=size))
        assert cut == content
        found = [len(block) for block in records.blocks(iter([content]), quote='"', size=size)]
        assert sum(found) == len(content)
    assert isinstance(whole, pa.Table)


@given(
    st.lists(st.tuples(st.text("a\",;\n\r 'é0", max_size=8), st.text('ab"\n', max_size=30)), min_size=1, max_size=40),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([",", ";", "\t"]),
    st.integers(1, 60),
    st.integers(1, 60),
)
@settings(max_examples=150)
def test_any_text_comes_back_wherever_chunks_and_blocks_are_cut(rows, end, delimiter, chunk, size):
    file = io.StringIO(newline="")
    writer = csv.writer(file, delimiter=delimiter, lineterminator=end, quoting=csv.QUOTE_ALL)
    writer.writerows([("first", "other"), *rows])
    content = file.getvalue().encode()
    form = Form(format="csv", delimiter=delimiter)
    chunks = (content[at : at + chunk] for at in range(0, len(content), chunk))
    blocks = records.blocks(chunks, quote='"', delimiter=delimiter, size=size)
    first = next(blocks)
    layout = delimited.layout(first, form, {"first": "text", "other": "text"})
    found = [
        tuple(row.values())
        for batch in delimited.rows(itertools.chain([first], blocks), layout, None)
        for row in batch.to_pylist()
    ]
    assert found == rows
