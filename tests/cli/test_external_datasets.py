"""Tables that stay in a real bucket, from the command line and in a notebook."""

from pathlib import Path

import obstore
import obstore.store
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import falaj as sdk
from tests.cli.conftest import Running
from tests.servers.s3 import S3Storage


def test_a_table_in_a_bucket_is_registered_read_and_refreshed(
    platform: Running, s3_storage: S3Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    bucket = obstore.store.S3Store(
        s3_storage["bucket"],
        endpoint=s3_storage["endpoint"],
        region=s3_storage["region"],
        access_key_id=s3_storage["access_key"],
        secret_access_key=s3_storage["secret_key"],
        client_options={"allow_http": True},
    )

    def put(name: str, *ids: int) -> None:
        pq.write_table(pa.table({"id": list(ids)}), tmp_path / "file.parquet")
        obstore.put(bucket, f"gold/orders/{name}.parquet", (tmp_path / "file.parquet").read_bytes())

    put("a", 1, 2)
    put("b", 3)
    place = (
        "place",
        "set",
        "lake",
        "--kind",
        "s3",
        "--bucket",
        s3_storage["bucket"],
        "--prefix",
        "gold",
        "--project",
        "default",
    )
    where = ("--endpoint", s3_storage["endpoint"], "--zone", platform.json("zone", "list")["items"][0]["name"])
    assert "standard input" in platform.fails(*place, *where, "--user", s3_storage["access_key"], status=2)
    told = platform(*place, *where, "--user", s3_storage["access_key"], input=s3_storage["secret_key"])
    assert told == "lake is declared, for default.\n"
    shown = platform("place", "list") + platform("place", "list", "--json") + platform("dataset", "places")
    assert s3_storage["bucket"] in shown
    assert s3_storage["secret_key"] not in shown
    assert s3_storage["access_key"] not in shown
    told = platform("dataset", "register", "orders", "--place", "lake", "--table", "orders")
    assert "orders@1 has 3 rows in 2 files, which stay where they are." in told
    assert "There is no place 'pond'" in platform.fails("dataset", "register", "more", "--place", "pond", "--table", "orders")
    assert "external" in platform("dataset", "show", "orders")
    token = platform.json("token", "create", "notebook")["token"]
    for name, text in {"URL": platform.url, "TOKEN": token, "PROJECT": "default"}.items():
        monkeypatch.setenv(f"FALAJ_{name}", text)
    assert sdk.dataset("orders").arrow()["id"].to_pylist() == [1, 2, 3]
    put("c", 4)
    obstore.delete(bucket, "gold/orders/a.parquet")
    assert platform.json("dataset", "refresh", "orders")["rows"] == 2
    assert sdk.dataset("orders").arrow(["id"])["id"].to_pylist() == [3, 4]
    assert "only read" in platform.fails("dataset", "import", "orders", str(tmp_path / "file.parquet"))
    assert "delete those first" in platform.fails("place", "remove", "lake", "--yes")
    platform("dataset", "delete", "orders", "--yes")
    platform("place", "remove", "lake", "--yes")
    assert [entry["path"] for batch in obstore.list(bucket) for entry in batch] == [
        "gold/orders/b.parquet",
        "gold/orders/c.parquet",
    ]
