"""What is promised of Delta and Iceberg tables; each is given a folder of its own. See `test_lake`."""

import datetime as dt
import os
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path

import deltalake
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

from falaj.base.errors import Conflict, FalajError, Invalid, NotFound
from falaj.tables.arrow_schemas import from_arrow
from falaj.tables.connectors import delta
from falaj.tables.connectors.addresses import parsed
from falaj.tables.connectors.asking import Asked
from falaj.tables.connectors.opening import opened

ROWS = pa.table(
    {
        "id": pa.array([1, 2], pa.int64()),
        "name": ["بئر", None],
        "price": pa.array([Decimal("1.50"), None], pa.decimal128(12, 2)),
        "at": pa.array([dt.datetime(2026, 11, 16, 8, tzinfo=dt.UTC), None], pa.timestamp("us", "UTC")),
        "day": pa.array([dt.date(2026, 11, 16), None], pa.date32()),
        "raw": pa.array([b"\x00\xff", None], pa.binary()),
    }
)
MORE = ROWS.set_column(0, "id", pa.array([3, 4], pa.int64()))


@contextmanager
def _raises(kind: type[FalajError], pattern: str) -> Iterator[None]:
    said = None
    try:
        yield
    except kind as error:
        said = str(error)
    assert said is not None, f"{kind.__name__} was not raised"
    assert re.search(pattern, said), said


def _read(source: str, **asked: str) -> list[dict[str, object]]:
    rows = opened(source, Asked(**asked)).reader().read_all().to_pylist()
    return sorted(rows, key=lambda row: row["id"])


def a_delta_table_is_read_at_its_newest_and_at_any_version(folder: Path) -> None:
    deltalake.write_deltalake(str(folder / "wells"), ROWS)
    deltalake.write_deltalake(str(folder / "wells"), MORE, mode="append")
    address = f"delta:///{folder}/wells"
    assert _read(address) == [*ROWS.to_pylist(), *MORE.to_pylist()] == _read(str(folder / "wells"))
    assert _read(address, at="0") == ROWS.to_pylist()
    newest, first = opened(address, Asked()), opened(address, Asked(at="0"))
    assert newest.shown == "delta:///wells, version 1"
    assert newest.pin != first.pin == opened(address, Asked(at="0")).pin
    assert [str(field.type) for field in newest.schema] == [str(field.type) for field in ROWS.schema]


def partitions_of_a_delta_table_are_columns(folder: Path) -> None:
    deltalake.write_deltalake(str(folder / "wells"), ROWS, partition_by=["day"])
    assert _read(f"delta:///{folder}/wells") == ROWS.select(opened(str(folder / "wells"), Asked()).schema.names).to_pylist()


def mistakes_about_delta_tables_are_told(folder: Path) -> None:
    with _raises(NotFound, "no Delta table at delta:///nothing"):
        _read(f"delta:///{folder}/nothing")
    assert not (folder / "nothing").exists()
    deltalake.write_deltalake(str(folder / "wells"), ROWS)
    with _raises(Invalid, "at version 7"):
        _read(f"delta:///{folder}/wells", at="7")
    with _raises(Invalid, "is no version"):
        _read(f"delta:///{folder}/wells", at="newest")
    source = opened(f"delta:///{folder}/wells", Asked())
    for file in (folder / "wells").glob("*.parquet"):
        file.unlink()
    with _raises(NotFound, "is gone"):
        source.reader().read_all()


def a_delta_table_is_written_whole_and_never_over_another(folder: Path) -> None:
    address, schema = parsed(f"delta:///{folder}/out"), from_arrow(ROWS.schema)
    assert delta.write(ROWS.to_batches(), schema, address, Asked()) == 0
    assert deltalake.DeltaTable(str(folder / "out")).to_pyarrow_table().to_pylist() == ROWS.to_pylist()
    with _raises(Conflict, "--replace"):
        delta.write(MORE.to_batches(), schema, address, Asked())
    assert delta.write(MORE.to_batches(), schema, address, Asked(), replace=True) == 1
    assert _read(address.whole) == MORE.to_pylist()
    assert _read(address.whole, at="0") == ROWS.to_pylist()


def rows_that_break_off_leave_no_delta_version(folder: Path) -> None:
    def breaking() -> Iterator[pa.RecordBatch]:
        yield from ROWS.to_batches()
        raise NotFound("the part is gone")

    address, schema = parsed(f"delta:///{folder}/out"), from_arrow(ROWS.schema)
    delta.write(ROWS.to_batches(), schema, address, Asked())
    with _raises(NotFound, "^the part is gone$"):
        delta.write(breaking(), schema, address, Asked(), replace=True)
    assert deltalake.DeltaTable(str(folder / "out")).version() == 0


def a_delta_table_in_a_bucket_is_written_and_read(folder: Path) -> None:
    address = f"delta+s3://{os.environ['LAKE_BUCKET']}/{uuid.uuid4().hex}/wells"
    delta.write(ROWS.to_batches(), from_arrow(ROWS.schema), parsed(address), Asked())
    assert _read(address) == ROWS.to_pylist()
    with _raises(Invalid, r"delta\+s3://"):
        _read(address.removeprefix("delta+"))


def _catalog(folder: Path, name: str = "lake") -> SqlCatalog:
    catalog = SqlCatalog(name, uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/{name}")
    catalog.create_namespace("sales")
    return catalog


def an_iceberg_table_is_read_at_its_newest_and_at_any_snapshot(folder: Path) -> None:
    catalog = _catalog(folder)
    table = catalog.create_table("sales.wells", schema=ROWS.schema)
    address = f"iceberg:///{folder}/catalog.db"
    assert _read(address, table="sales.wells") == []
    table.append(ROWS)
    first = str(table.current_snapshot().snapshot_id)
    table.append(MORE)
    assert _read(address, table="sales.wells") == [*ROWS.to_pylist(), *MORE.to_pylist()]
    assert _read(address, table="sales.wells", at=first) == ROWS.to_pylist()
    then = opened(address, Asked(table="sales.wells", at=first))
    assert then.shown == f"iceberg:///catalog.db, table sales.wells, snapshot {first}"
    assert then.pin != opened(address, Asked(table="sales.wells")).pin
    metadata = catalog.load_table("sales.wells").metadata_location.removeprefix("file://")
    assert len(_read(f"iceberg:///{metadata}")) == 4
    catalog.close()


def rows_deleted_from_an_iceberg_table_are_not_read(folder: Path) -> None:
    catalog = _catalog(folder)
    table = catalog.create_table("sales.wells", schema=ROWS.schema)
    table.append(ROWS)
    table.delete("id = 1")
    assert [row["id"] for row in _read(f"iceberg:///{folder}/catalog.db", table="sales.wells")] == [2]
    catalog.close()


def mistakes_about_iceberg_tables_are_told(folder: Path) -> None:
    address = f"iceberg:///{folder}/catalog.db"
    with _raises(NotFound, "no file"):
        _read(address, table="sales.wells")
    catalog = _catalog(folder)
    table = catalog.create_table("sales.wells", schema=ROWS.schema)
    table.append(ROWS)
    with _raises(NotFound, "no Iceberg table 'sales.nothing'"):
        _read(address, table="sales.nothing")
    with _raises(Invalid, "--table namespace.name"):
        _read(address)
    with _raises(NotFound, "no snapshot 7"):
        _read(address, table="sales.wells", at="7")
    source = opened(address, Asked(table="sales.wells"))
    for file in (folder / "lake").rglob("*.parquet"):
        file.unlink()
    with _raises(NotFound, "is gone"):
        source.reader().read_all()
    other = _catalog(folder, "other")
    other.create_table("sales.wells", schema=ROWS.schema)
    with _raises(Invalid, "the catalogs lake, other"):
        _read(address, table="sales.wells")
    assert _read(f"{address}?catalog=other", table="sales.wells") == []
    catalog.close()
    other.close()
