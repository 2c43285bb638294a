"""What `test_lake` does with the libraries themselves, in the environment that has them."""

import datetime as dt
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
from pyiceberg.catalog.sql import SqlCatalog

import falaj
from falaj.base.errors import Invalid
from tests.tables.connectors.lake_promises import MORE, ROWS


def delta(place: str) -> str:
    deltalake.write_deltalake(place, ROWS)
    deltalake.write_deltalake(place, MORE, mode="append")
    return ""


def counted(place: str) -> str:
    table, first = deltalake.DeltaTable(place), deltalake.DeltaTable(place, version=0)
    assert first.to_pyarrow_table().to_pylist() == ROWS.to_pylist()
    return json.dumps([table.version(), table.to_pyarrow_table().num_rows, first.to_pyarrow_table().num_rows])


def iceberg(folder: str) -> str:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=Path(folder, "lake").as_uri())
    catalog.create_namespace("sales")
    table = catalog.create_table("sales.wells", schema=ROWS.schema)
    table.append(ROWS)
    first = table.current_snapshot().snapshot_id
    table.append(MORE)
    catalog.close()
    return str(first)


def polars() -> str:
    import polars as pl  # beside deltalake it sometimes ends a process that is over with an abort

    frame = pl.DataFrame(
        {
            "id": [1, 2],
            "name": ["بئر", None],
            "kind": pl.Series(["a", "b"], dtype=pl.Categorical),
            "at": [dt.datetime(2026, 11, 16, 8, tzinfo=dt.UTC), None],
            "day": [dt.date(2026, 11, 16), None],
            "clock": [dt.time(8), None],
            "span": [dt.timedelta(1), None],
            "some": [[1, None], None],
            "pair": pl.Series([[1.0, 2.0], None], dtype=pl.Array(pl.Float32, 2)),
            "record": [{"a": 1}, {"a": None}],
            "raw": [b"\x00\xff", None],
            "count": pl.Series([2**64 - 1, None], dtype=pl.UInt64),
            "price": pl.Series(["1.50", None]).cast(pl.Decimal(12, 2)),
        }
    )
    falaj.save_dataset("frames", frame)
    found = falaj.dataset("frames").polars()
    assert found.drop("kind").equals(frame.drop("kind")), found
    assert found["kind"].to_list() == ["a", "b"]
    assert falaj.dataset("frames").polars(["id"]).equals(frame.select("id"))
    falaj.save_dataset("frames", pl.concat([frame] * 40_000), mode="overwrite")  # of many chunks
    assert falaj.dataset("frames").polars(["id"])["id"].sum() == 3 * 40_000
    for wrong, said in (
        (frame["id"], "nothing that rows can be taken from"),
        (frame.lazy(), "collect"),
        (frame.select(pl.col("at").dt.replace_time_zone(None)), "zone"),
    ):
        told = _refused(wrong)
        assert said in told, told
    return "kept"


def _refused(rows: Any) -> str:
    try:
        falaj.save_dataset("wrong", rows)
    except Invalid as error:
        return str(error)
    return "it was not refused"


if __name__ == "__main__":
    steps: dict[str, Callable[..., str]] = {"delta": delta, "counted": counted, "iceberg": iceberg, "polars": polars}
    print(steps[sys.argv[1]](*sys.argv[2:]))
