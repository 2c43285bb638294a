"""JSON lines: every line an object, mixed and broken ones named."""

import pytest

from falaj.base.errors import Invalid
from falaj.tables.schemas import Column, Schema
from tests.tables.reading import read, words


def test_types_are_found_also_within():
    content = b'{"a": 1, "t": "2026-01-01T00:00:00Z", "d": "2026-01-01", "s": "x"}\n'
    content += b'{"a": 1.5, "r": {"x": [1, 2], "at": "2026-01-01"}}\n'
    table = read(content)
    assert words(table) == {
        "a": "double",
        "t": "timestamp[us, tz=UTC]",
        "d": "date32[day]",
        "s": "string",
        "r": "struct<x: list<item: int64>, at: string>",
    }
    assert table["r"].to_pylist() == [None, {"x": [1, 2], "at": "2026-01-01"}]


def test_a_line_that_is_no_json_is_named():
    with pytest.raises(Invalid, match="Line 3 is no JSON"):
        read(b'{"a": 1}\n{"a": 2}\n{"a": 3,}\n', format="jsonl")
    with pytest.raises(Invalid, match="Line 2 is a list: JSON lines are one object a line"):
        read(b'{"a": 1}\n[1]\n')


def test_mixed_types_are_named():
    with pytest.raises(Invalid, match="Line 2, column 'a': 'x' is text where a number is expected"):
        read(b'{"a": 1}\n{"a": "x"}\n')
    with pytest.raises(Invalid, match="Line 2, column 'a': '5' is a number where text is expected"):
        read(b'{"a": "1"}\n{"a": 5}\n', types={"a": "text"})


def test_fields_that_come_late_are_named():
    content = b'{"a": 1, "t": "%s"}\n' % (b"x" * 400) * 50_000 + b'{"a": 1, "late": 2}\n'
    with pytest.raises(Invalid, match=r"Line 50001 has fields that are not expected: late.*say their types"):
        read(content)
    assert read(content, types={"late": "int64"})["late"].to_pylist()[-1] == 2


def test_a_schema_says_the_types_and_what_there_is():
    schema = Schema(
        columns=(
            Column(name="v", type="vector(float32, 2)"),
            Column(name="at", type="moment"),
            Column(name="m", type="decimal(10, 2)"),
            Column(name="absent", type="int32"),
        )
    )
    table = read(b'{"v": [1, 2], "at": "2026-01-01T00:00:00+04:00", "m": "1.50"}\n', schema)
    row = table.to_pylist()[0]
    assert (row["v"], row["at"].isoformat(), str(row["m"]), row["absent"]) == (
        [1, 2],
        "2025-12-31T20:00:00+00:00",
        "1.50",
        None,
    )
    with pytest.raises(Invalid, match="cannot be bytes: JSON has no such values"):
        read(b'{"a": "x"}\n', Schema(columns=(Column(name="a", type="bytes"),)))
    with pytest.raises(Invalid, match="has in rows 1 to 1 something that is no vector"):
        read(b'{"v": [1, 2, 3]}\n', schema)


def test_a_source_without_rows_has_no_columns():
    with pytest.raises(Invalid, match="nobody knows its columns"):
        read(b"\n \n", format="jsonl")


@pytest.mark.parametrize("depth", [101, 900, 100_000])
def test_what_is_nested_too_deep_is_refused_before_it_is_read(depth):
    for content in (b'{"a":' + b"[" * depth + b"]" * depth + b"}\n", b'{"a":' * depth + b"1" + b"}" * depth + b"\n"):
        with pytest.raises(Invalid, match="nested more than 100 deep"):
            read(b'{"b": 1}\n' + content, format="jsonl")
    hidden = b'{"a":' + b'["]\\"]",' * depth + b"1" + b"]" * depth + b"}\n"
    with pytest.raises(Invalid, match="nested more than 100 deep"):
        read(hidden, format="jsonl")


def test_brackets_within_text_are_not_nesting():
    assert read(b'{"a": "' + b'[{\\"' * 500 + b'"}\n', format="jsonl")["a"].to_pylist() == ['[{"' * 500]
