"""What Spark is told before it runs anything: types, options, and who reads what. A real session is in `test_spark`."""

import io
import secrets
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.base.errors import Invalid
from falaj.client.spark_options import asked_by
from falaj.client.spark_shares import GROUP, shares
from falaj.client.spark_types import ddl, refuse
from falaj.datasets.operations.reading import GrantedPart
from falaj.tables.arrow_schemas import from_arrow
from falaj.tables.granted import GrantedTable, SealedPart
from falaj.tables.parts import PartReader, PartWriter
from falaj.tables.schemas import Column, Schema


def part(size: int, rows: int) -> GrantedPart:
    return GrantedPart(id=secrets.token_hex(16), object="0" * 32, rows=rows, size=size, digest="", key="")


@given(st.lists(st.tuples(st.integers(1, 400), st.integers(0, 20 * GROUP)), max_size=30))
def test_every_part_is_read_whole_and_once_in_its_order(sizes: list[tuple[int, int]]) -> None:
    parts = [part(size, rows) for size, rows in sizes]
    found = shares(parts, size=100)
    assert list(dict.fromkeys(one.id for share in found for one in share.parts)) == [one.id for one in parts]
    for share in found:
        assert share.of == 1 or len(share.parts) == 1
        assert share.of > 1 or len(share.parts) == 1 or sum(one.size for one in share.parts) <= 100
        assert share.of <= max(1, -(-share.parts[0].rows // GROUP))
    for one in parts:
        of = [(share.number, share.of) for share in found if one in share.parts]
        assert of == [(number, len(of)) for number in range(len(of))]


@pytest.mark.parametrize("of", [1, 2, 3, 7])
@pytest.mark.parametrize("columns", [None, ["late"], ["late", "id"]])
def test_shares_of_row_groups_are_all_rows_once(of: int, columns: list[str] | None, tmp_path: Any) -> None:
    file, key = tmp_path / "part", secrets.token_bytes(32)
    wanted = Schema(columns=(Column(name="id", type="int64"), Column(name="late", type="text")))
    table = pa.table({"number": range(5_000)})
    with file.open("wb") as out, PartWriter(out, from_arrow(table.schema), key=key, object_id="o") as writer:
        for batch in table.to_batches(1_000):
            writer.write(batch)
            writer._cut(whole_blocks=False)
            writer._write_group()
    assert PartReader(file, key=key, object_id="o").groups == 5
    sealed = SealedPart(
        object_id="o", key=key, renamed={"number": "id"}, fetch=file.read_bytes, seek=lambda: io.BytesIO(file.read_bytes())
    )
    granted = GrantedTable(wanted, [sealed])
    found = pa.Table.from_batches([batch for number in range(of) for batch in granted.share(number, of, columns)])
    assert found == granted.table(columns)


def test_types_are_said_as_spark_says_them() -> None:
    columns = (
        Column(name="id", type="uint64", nullable=False),
        Column(name="a `b`", type='record("x": list(vector(float32, 3)), "y": moment)'),
        Column(name="price", type="decimal(38, 4)"),
    )
    assert ddl(Schema(columns=columns)) == (
        "`id` DECIMAL(20, 0) NOT NULL, `a ``b``` STRUCT<`x`: ARRAY<ARRAY<FLOAT>>, `y`: TIMESTAMP>, `price` DECIMAL(38, 4)"
    )
    with pytest.raises(Invalid, match="'wide' is decimal"):
        ddl(Schema(columns=(Column(name="wide", type="decimal(39, 0)"),)))


def typed(word: str, **within: Any) -> Any:
    return SimpleNamespace(simpleString=lambda: word, **within)


def test_what_has_no_match_is_refused_however_deep_it_lies() -> None:
    times = typed("map", keyType=typed("string"), valueType=typed("array", elementType=typed("timestamp_ntz")))
    refuse([SimpleNamespace(name="at", dataType=times)], time_zone="Asia/Dubai")
    for kind, said in (
        (times, "'at' holds times without a zone"),
        (typed("struct", fields=[SimpleNamespace(name="x", dataType=typed("variant"))]), "'at' holds variants"),
        (typed("vector", sqlType=None), "'at' holds a type of a library's own"),
        (typed("interval month"), "'at' holds intervals of months"),
    ):
        with pytest.raises(Invalid, match=said):
            refuse([SimpleNamespace(name="at", dataType=kind)], time_zone="")


def test_options_are_read_in_any_case_and_unknown_ones_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FALAJ_PROJECT", "fraud")
    asked = asked_by({"path": "sales@7", "Columns": "a, b", "TIMEZONE": "UTC", "evolve": "True"})
    assert (asked.project, asked.dataset, asked.version, asked.columns) == ("fraud", "sales", "7", ("a", "b"))
    assert (asked.evolve, asked.time_zone, asked.keys, asked.origin) == (True, "UTC", (), "spark")
    for given_options, said in (({}, "Which dataset"), ({"dataset": "sales", "key": "id"}, "no option key")):
        with pytest.raises(Invalid, match=said):
            asked_by(given_options)
