"""Names of tables and files, which lead nowhere but into their place."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.base.errors import Invalid
from falaj.datasets.external.paths import below, inside, table_name
from falaj.datasets.operations.places import Address

BUCKET = Address(bucket="lake", prefix="gold/")
FOLDER = Address(folder="/data/lake")


@given(st.text(alphabet="a./\\%\x00 ", max_size=12))
def test_no_path_has_a_step_that_leads_elsewhere(path: str):
    try:
        found = inside(path)
    except Invalid:
        return
    assert not found.startswith("/")
    assert not {"", ".", ".."} & set(found.split("/"))


def test_tables_of_a_database_are_names():
    assert [table_name(one) for one in ("orders", "sales.orders", 'odd "name"')] == ["orders", "sales.orders", 'odd "name"']
    for wrong in ("", ".", "a.", ".a", "a.b.c", "a\nb", "a" * 64, "pg_authid", "pg_catalog.pg_authid"):
        with pytest.raises(Invalid):
            table_name(wrong)


@pytest.mark.parametrize(
    ("address", "uri", "path"),
    [
        (BUCKET, "s3://lake/gold/orders/a.parquet", "orders/a.parquet"),
        (BUCKET, "s3a://lake/gold/day=1 2/a%20b.parquet", "day=1 2/a%20b.parquet"),
        (Address(bucket="lake"), "s3://lake/orders/a.parquet", "orders/a.parquet"),
        (FOLDER, "file:///data/lake/orders/a.parquet", "orders/a.parquet"),
        (FOLDER, "/data/lake/orders/a.parquet", "orders/a.parquet"),
    ],
)
def test_whole_addresses_are_found_in_their_place(address: Address, uri: str, path: str):
    assert below(address, uri) == path


@pytest.mark.parametrize("address", [BUCKET, FOLDER, Address(host="db", database="x")])
@pytest.mark.parametrize(
    "uri",
    [
        "s3://other/gold/a", "s3://lake/silver/a", "s3://lake/gold/../silver/a", "s3://lake/golden/a", "https://lake/gold/a",
        "s3://user@lake/gold/a", "file:///data/lake/../x", "/data/lakes/a", "/data/other", "file://host/data/lake/a", "",
        "/data/lake/", "s3://lake/gold/",
    ],
)  # fmt: skip
def test_whole_addresses_outside_of_a_place_are_refused(address: Address, uri: str):
    with pytest.raises(Invalid):
        below(address, uri)
