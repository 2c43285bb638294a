"""A program for the environment that has the libraries of lakes: makes tables of Delta and Iceberg, and changes them.

`python -m tests.datasets.external.lakes delta|iceberg WHERE WHAT FOLDER`: where is a folder or an address in a bucket, whose
keys are in the environment; a catalog is in the folder.
"""

import datetime as dt
import os
import sys

import deltalake
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

DAYS = [dt.date(2026, 11, 15), dt.date(2026, 11, 16), None]


def rows(*ids: int, **more: list[object]) -> pa.Table:
    days = pa.array([DAYS[id % 3] for id in ids], pa.date32())
    at = pa.array([dt.datetime(2026, 11, 16, id % 24, tzinfo=dt.UTC) for id in ids], pa.timestamp("us", "UTC"))
    return pa.table({"id": pa.array(ids, pa.int64()), "name": [f"order {id}" for id in ids], "day": days, "at": at, **more})


def delta(where: str, what: str, _: str) -> None:
    place = f"{where}/sales/orders"
    options = {"AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1"} if where.startswith("s3://") else None
    match what:
        case "make":
            deltalake.write_deltalake(place, rows(1, 2, 3), partition_by=["day"], storage_options=options)
            for id in range(4, 16):
                deltalake.write_deltalake(place, rows(id), mode="append", storage_options=options)
            deltalake.DeltaTable(place, storage_options=options).create_checkpoint()
            deltalake.DeltaTable(place, storage_options=options).delete("id = 4")
        case "append":
            deltalake.write_deltalake(place, rows(20, note=["new"]), mode="append", schema_mode="merge")
        case "rewrite":
            deltalake.write_deltalake(place, rows(1), mode="overwrite")
            table = deltalake.DeltaTable(place)
            table.vacuum(0, dry_run=False, enforce_retention_duration=False)


def iceberg(where: str, what: str, folder: str) -> None:
    warehouse = f"{where}/warehouse" if where.startswith("s3://") else f"file://{where}/warehouse"
    bucket = {"s3.endpoint": os.environ["AWS_ENDPOINT_URL"], "s3.region": "us-east-1"} if where.startswith("s3://") else {}
    catalog = SqlCatalog("test", uri=f"sqlite:///{folder}/catalog.db", warehouse=warehouse, **bucket)
    match what:
        case "make":
            catalog.create_namespace("sales")
            table = catalog.create_table("sales.orders", rows(1).schema)
            table.append(rows(1, 2, 3))
            table.append(rows(4))
            with table.update_schema() as change:
                change.rename_column("name", "title")
            table.append(rows(5).rename_columns(["id", "title", "day", "at"]))
        case "append":
            catalog.load_table("sales.orders").append(rows(6).rename_columns(["id", "title", "day", "at"]))
    print(catalog.load_table("sales.orders").current_snapshot().snapshot_id)  # type: ignore[union-attr]


if __name__ == "__main__":
    {"delta": delta, "iceberg": iceberg}[sys.argv[1]](*sys.argv[2:5])
