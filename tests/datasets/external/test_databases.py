"""A table of a real Postgres that stays there, pinned by what it held."""

from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest

from falaj.base.errors import Invalid, NotFound, Unavailable
from falaj.datasets.external.pins import ChangedUpstream
from falaj.datasets.operations.checks import SET_CHECKS, Check, SetChecks
from falaj.datasets.operations.places import Address
from falaj.datasets.operations.profiles import PROFILE_VERSION
from falaj.datasets.operations.versions import OneVersion
from falaj.storage.errors import StorageRefused
from tests.datasets.external.lake import declare, refresh, register
from tests.datasets.platform import PROJECT, Platform

PASSWORD = "secret-of-the-tests"


class Wells:
    def __init__(self, url: str) -> None:
        self.url = url.replace("+psycopg", "")
        parts = urlsplit(self.url)
        self.address = Address(host=parse_qs(parts.query)["host"][0], database=parts.path[1:])
        self.run(
            "create schema sales",
            "create table sales.orders (id int primary key, name text, price numeric(8, 2), at timestamptz)",
            "insert into sales.orders select n, 'order ' || n, n / 4.0, '2026-11-16 09:00Z' from generate_series(1, 1000) n",
            "create table sales.keyless (name text, facts json)",
            """insert into sales.keyless values ('b', '{"n": 1}'), ('a', null), ('a', null)""",
        )

    def run(self, *statements: str) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())


@pytest.fixture
def wells(small: Platform, postgres_url: str) -> Wells:
    made = Wells(postgres_url)
    Path(made.address.host).chmod(0o711)  # who reads is somebody else
    declare(small, "wells", "postgres", address=made.address, user="falaj", secret=PASSWORD)
    return made


def test_a_table_is_read_as_it_was_pinned(small: Platform, wells: Wells):
    version = register(small, place="wells", table="sales.orders", kind="postgres")
    assert (version.rows, [column.type for column in version.columns]) == (1000, ["int32", "text", "decimal(8, 2)", "moment"])
    wells.run("update sales.orders set name = name where id < 500")  # rows move, and are the same
    assert small.query("SELECT sum(id), max(name) FROM orders").rows == ((500500, "order 999"),)
    assert len(small.rows(name="orders")) == 1000
    wells.run("update sales.orders set name = 'other' where id = 500")
    small.clock.forward(2 * 3_600_000_000)
    small.room.step(small.clock.now())
    with pytest.raises(ChangedUpstream, match=r"'sales\.orders' in the place 'wells' was changed upstream since it was pinned"):
        small.query("SELECT * FROM orders")
    wells.run("drop table sales.orders")
    with pytest.raises(ChangedUpstream, match=r"'sales\.orders' in the place 'wells' is gone upstream"):
        small.query("SELECT * FROM orders")


def test_rows_without_a_key_have_an_order_all_the_same(small: Platform, wells: Wells):
    first = register(small, place="wells", table="sales.keyless", kind="postgres")
    wells.run("create table other as select * from sales.keyless", "delete from sales.keyless")
    wells.run("insert into sales.keyless select * from other order by name")
    assert refresh(small).id == first.id


def test_what_breaks_a_check_is_in_quarantine(small: Platform, wells: Wells):
    register(small, place="wells", table="sales.orders", kind="postgres")
    rule = Check(name="cheap", kind="range", columns=("price",), most=250.0)
    small.call(SET_CHECKS, SetChecks(project=PROJECT, dataset="orders", checks=(rule,)))
    wells.run("insert into sales.orders values (1001, 'dear', 1000, now())")
    version = refresh(small)
    assert (version.version, version.quarantined, small.dataset("orders").current) == (2, True, 1)
    profile = small.call(PROFILE_VERSION, OneVersion(project=PROJECT, dataset="orders", version="1"))
    assert profile.rows == 1000


def test_nothing_but_a_table_is_asked_for(small: Platform, wells: Wells):
    for table in ("a.b.c", "(select 1)", "pg_catalog", ".", "orders; drop table sales.orders"):
        with pytest.raises((Invalid, NotFound)):
            register(small, place="wells", table=table, kind="postgres")
    with pytest.raises(Invalid, match="is of the kind postgres, which has no parquet tables"):
        register(small, place="wells")
    assert register(small, place="wells", table="sales.orders", kind="postgres").rows == 1000


def test_who_is_not_let_in_is_told_without_the_password(small: Platform, wells: Wells):
    address = Address(host=wells.address.host, database="nowhere")
    declare(small, "closed", "postgres", address=address, user="nobody-here", secret=PASSWORD)
    declare(
        small, "down", "postgres", address=Address(host="127.0.0.1", port=1, database="inner"), user="falaj", secret=PASSWORD
    )
    for place, kind in (("closed", StorageRefused), ("down", Unavailable)):
        with pytest.raises(kind, match=f"'{place}'") as refused:
            register(small, place=place, table="sales.orders", kind="postgres")
        for word in (PASSWORD, "nobody-here", "nowhere", wells.address.host, "127.0.0.1", "inner"):  # an operator's to know
            assert word not in str(refused.value)


def test_a_password_that_is_not_taken_any_more_is_no_change_of_the_table(small: Platform, wells: Wells):
    register(small, place="wells", table="sales.orders", kind="postgres")
    declare(small, "wells", "postgres", address=wells.address, user="nobody-here", secret=PASSWORD)
    with pytest.raises(StorageRefused, match="an operator can set them anew"):
        small.query("SELECT * FROM orders")
