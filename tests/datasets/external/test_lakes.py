"""Tables of Delta and Iceberg that real libraries wrote, registered where they are."""

import os
import subprocess
from pathlib import Path

import pytest

from falaj.base.errors import Invalid, NotFound
from falaj.datasets.external.pins import ChangedUpstream
from falaj.datasets.operations.places import Address
from tests.datasets.external.lake import declare, folder_place, refresh, register
from tests.datasets.platform import Platform
from tests.servers.s3 import S3Storage
from tests.training.elsewhere import ROOT

pytestmark = pytest.mark.heavy


def change(kind: str, where: Path | str, what: str, folder: Path | None = None, **environment: str) -> str:
    python = Path(os.environ.get("FALAJ_CLIENTS", ROOT / ".clients")) / "lake" / "bin" / "python"
    command = [str(python), "-m", "tests.datasets.external.lakes", kind, str(where), what, str(folder or Path(where).parent)]
    env = os.environ | environment
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def ids(platform: Platform, version: str = "current") -> list[int]:
    return sorted(row[0] for row in platform.query(f'SELECT id FROM "orders@{version}"').rows)


def test_a_version_of_a_delta_table_is_pinned(small: Platform, tmp_path: Path):
    folder = folder_place(small, tmp_path)
    change("delta", folder, "make")
    newest = register(small, kind="delta")
    assert newest.origin.endswith("version 13")
    assert ids(small) == [1, 2, 3, *range(5, 16)]
    found = small.query("SELECT day, count(*), min(name) FROM orders GROUP BY day ORDER BY day").rows
    assert found == (("2026-11-15", 5, "order 12"), ("2026-11-16", 4, "order 1"), (None, 5, "order 11"))
    assert {column.name: column.type for column in newest.columns} == {
        "id": "int64", "name": "text", "at": "moment", "day": "date",
    }  # fmt: skip
    assert register(small, "early", kind="delta", at="2").rows == 5
    assert register(small, "late", kind="delta", at="12").rows == 15
    change("delta", folder, "append")
    assert ids(small) == [1, 2, 3, *range(5, 16)]
    assert refresh(small).rows == 15
    with pytest.raises(NotFound, match="has no version 99: it never was, or its log was cleaned up"):
        register(small, "other", kind="delta", at="99")
    with pytest.raises(Invalid, match="is a Delta table"):
        register(small, "other")


def test_files_that_a_vacuum_took_are_said_to_be_gone(small: Platform, tmp_path: Path):
    folder = folder_place(small, tmp_path)
    change("delta", folder, "make")
    register(small, kind="delta")
    change("delta", folder, "rewrite")
    with pytest.raises(ChangedUpstream, match=r"sales/orders/day=.*\.parquet' in the place 'lake' is gone upstream"):
        small.query("SELECT * FROM orders")
    with pytest.raises(NotFound, match=r"gone upstream, as after a vacuum: this version cannot be read any more"):
        register(small, "early", kind="delta", at="2")
    assert refresh(small).rows == 1


def test_a_snapshot_of_an_iceberg_table_is_pinned(small: Platform, tmp_path: Path):
    folder = folder_place(small, tmp_path)
    first = change("iceberg", folder, "make")
    table = "warehouse/sales/orders"
    version = register(small, kind="iceberg", table=table)
    assert version.origin.endswith(f"snapshot {first}")
    assert [column.name for column in version.columns] == ["id", "title", "day", "at"]  # files before have another name
    assert small.query("SELECT id, title FROM orders ORDER BY id").rows == tuple((id, f"order {id}") for id in range(1, 6))
    second = change("iceberg", folder, "append")
    assert ids(small) == [1, 2, 3, 4, 5]
    assert (refresh(small).rows, refresh(small).version) == (6, 2)
    assert register(small, "early", kind="iceberg", table=table, at=first).rows == 5
    assert register(small, "late", kind="iceberg", table=table, at=second).rows == 6
    with pytest.raises(NotFound, match="has no snapshot 7: it never was, or has expired"):
        register(small, "other", kind="iceberg", table=table, at="7")
    for file in (folder / table / "data").glob("*.parquet"):
        file.unlink()
    with pytest.raises(NotFound, match="is gone upstream: this snapshot cannot be read any more"):
        register(small, "other", kind="iceberg", table=table)


def test_tables_of_a_lake_in_a_bucket_are_pinned(small: Platform, s3_storage: S3Storage, tmp_path: Path):
    keys = {"AWS_ACCESS_KEY_ID": s3_storage["access_key"], "AWS_SECRET_ACCESS_KEY": s3_storage["secret_key"]}
    where = f"s3://{s3_storage['bucket']}/gold"
    for kind in ("delta", "iceberg"):
        change(kind, where, "make", tmp_path, AWS_ENDPOINT_URL=s3_storage["endpoint"], **keys)
    address = Address(bucket=s3_storage["bucket"], prefix="gold", endpoint=s3_storage["endpoint"])
    declare(small, "bucket", "s3", address=address, user=s3_storage["access_key"], secret=s3_storage["secret_key"])
    assert register(small, place="bucket", kind="delta").rows == 14
    assert ids(small) == [1, 2, 3, *range(5, 16)]
    iceberg = register(small, "ice", place="bucket", kind="iceberg", table="warehouse/sales/orders")
    assert (iceberg.rows, [column.name for column in iceberg.columns]) == (5, ["id", "title", "day", "at"])
    assert small.query("SELECT id, title FROM ice ORDER BY id").rows == tuple((id, f"order {id}") for id in range(1, 6))
    narrow = Address(
        bucket=s3_storage["bucket"], prefix="gold/warehouse/sales/orders/metadata", endpoint=s3_storage["endpoint"]
    )
    declare(small, "narrow", "s3", address=narrow, user=s3_storage["access_key"], secret=s3_storage["secret_key"])
    with pytest.raises(NotFound, match="There is no Iceberg table at 'orders'"):
        register(small, "other", place="narrow", kind="iceberg", table="orders")
