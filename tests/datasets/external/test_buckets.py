"""Parquet files below a prefix of a real bucket, whose keys nobody sees again."""

import json
import logging
from pathlib import Path

import obstore
import obstore.store
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlalchemy import select

from falaj.base.errors import FalajError, NotFound
from falaj.datasets.external.pins import ChangedUpstream
from falaj.datasets.operations.places import LIST_PLACES, Address, ListPlaces
from falaj.datasets.operations.reading import GRANT_READ, GrantRead
from falaj.governance.ledger.store import leaves
from falaj.operations.messages import adapter
from falaj.storage.errors import StorageRefused, StorageUnavailable
from tests.datasets.external.lake import declare, refresh, register
from tests.datasets.platform import PROJECT, Platform
from tests.servers.s3 import S3Storage


class Bucket:
    def __init__(self, storage: S3Storage, folder: Path) -> None:
        self.storage, self.folder = storage, folder
        self.store = obstore.store.S3Store(
            storage["bucket"],
            endpoint=storage["endpoint"],
            region=storage["region"],
            access_key_id=storage["access_key"],
            secret_access_key=storage["secret_key"],
            client_options={"allow_http": True},
        )

    def put(self, path: str, **columns: object) -> None:
        file = self.folder / "file.parquet"
        pq.write_table(pa.table(columns), file)
        obstore.put(self.store, path, file.read_bytes())

    def declare(self, platform: Platform, secret: str = "") -> None:
        address = Address(
            bucket=self.storage["bucket"], prefix="data/", endpoint=self.storage["endpoint"], region=self.storage["region"]
        )
        keys = {"user": self.storage["access_key"], "secret": secret or self.storage["secret_key"]}
        declare(platform, kind="s3", address=address, **keys)


@pytest.fixture
def bucket(small: Platform, s3_storage: S3Storage, tmp_path: Path) -> Bucket:
    made = Bucket(s3_storage, tmp_path)
    made.put("data/sales/orders/day=2026-11-15/a.parquet", id=[1, 2], name=["well", None])
    made.put("data/sales/orders/day=2026-11-16/b.parquet", id=[3], name=["field"])
    made.put("data/sales/orders-of-others/c.parquet", id=[9], name=["other"])
    made.put("elsewhere/sales/orders/c.parquet", id=[9], name=["other"])
    made.declare(small)
    return made


def test_a_prefix_is_read_as_it_was_pinned(small: Platform, bucket: Bucket, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of the platform, and for nobody else")
    version = register(small)
    rows = [(1, "well", "2026-11-15"), (2, None, "2026-11-15"), (3, "field", "2026-11-16")]
    assert (version.rows, small.rows(name="orders")) == (3, rows)
    bucket.put("data/sales/orders/day=2026-11-17/d.parquet", id=[4], name=["new"])
    assert len(small.rows(name="orders")) == 3
    assert refresh(small).rows == 4
    obstore.delete(bucket.store, "data/sales/orders/day=2026-11-17/d.parquet")
    bucket.put("data/sales/orders/day=2026-11-15/a.parquet", id=[1, 7], name=["well", None])
    small.clock.forward(2 * 3_600_000_000)
    small.room.step(small.clock.now())
    grant = small.grant(name="orders")
    with pytest.raises(ChangedUpstream, match=r"a\.parquet' in the place 'lake' was changed upstream"):
        small.part(grant.parts[0].id, name="orders")
    with pytest.raises(ChangedUpstream, match=r"d\.parquet' in the place 'lake' is gone upstream"):
        small.part(grant.parts[2].id, name="orders")
    assert small.part(grant.parts[1].id, name="orders")


def test_keys_of_a_bucket_are_told_to_nobody(small: Platform, bucket: Bucket, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG)
    register(small)
    told = [adapter(type(shown)).dump_json(shown).decode() for shown in (small.call(LIST_PLACES, ListPlaces()),)]
    grant = small.call(GRANT_READ, GrantRead(project=PROJECT, dataset="orders", version="current"))
    told.append(adapter(type(grant)).dump_json(grant).decode())
    wrong = "wrong-" + bucket.storage["secret_key"]
    bucket.declare(small, secret=wrong)
    with pytest.raises(StorageRefused, match="'lake' refuses its credentials") as refused:
        small.query("SELECT * FROM orders")
    for table, kind in (("nowhere", "parquet"), ("sales", "parquet")):
        with pytest.raises(FalajError) as other:
            register(small, "more", table=table, kind=kind)
        told.append(str(other.value))
    records = small.database.read(lambda work: [row.record for row in work.execute(select(leaves.c.record))])
    told += [str(refused.value), caplog.text, json.dumps([str(record) for record in records])]
    assert any("place.set" in one for one in told)
    for secret in (bucket.storage["secret_key"], bucket.storage["access_key"]):
        assert not [one for one in told if secret in one]
    assert not [file for file in bucket.folder.glob("falaj.db*") if bucket.storage["secret_key"].encode() in file.read_bytes()]


def test_what_is_not_there_is_said(small: Platform, bucket: Bucket):
    with pytest.raises(NotFound, match="There are no rows in 'sales/nothing' of the place 'lake'"):
        register(small, table="sales/nothing")


def test_a_service_that_does_not_answer_is_not_taken_for_one_without_the_file(small: Platform):
    address = Address(bucket="lake-of-tests", endpoint="http://127.0.0.1:404")  # a number that is no answer
    declare(small, kind="s3", address=address, user="somebody", secret="something")
    with pytest.raises(StorageUnavailable, match="the place 'lake' does not answer"):
        register(small)
