import os
from pathlib import Path
import pytest
from falaj.base.errors import *
from falaj.datasets.operations import checks, classes, deriving
from falaj.datasets.operations.checks import SET_CHECKS, Check, SetChecks
from falaj.datasets.operations.datasets import OneDataset
from falaj.datasets.operations.places import Address
from falaj.governance.roles import Role
from tests.datasets.deriving.test_sql import derived, hidden, kinds, told
from tests.datasets.external.lake import declare, folder_place, refresh, register, step, write_file
from tests.datasets.platform import PROJECT, Platform

@pytest.fixture
def lake(small, tmp_path):
    return folder_place(small, tmp_path)

def test_unnest_shift(small):
    told(small); hidden(small)
    derived(small, "SELECT unnest({'a': 1, 'b': 2}), email, country FROM users")
    print(kinds(small)); assert "email" in kinds(small)

def test_cached_bypasses_checks(small):
    told(small)
    derived(small)
    derived(small, "SELECT 'AE' AS country, 1 AS spent FROM users LIMIT 1")
    small.call(SET_CHECKS, SetChecks(project=PROJECT, dataset="spent", checks=(Check(name="few", kind="range", columns=("spent",), most=4.0),)))
    v = derived(small)
    print(v); assert v.version.quarantined

def test_reregister(small, lake):
    write_file(lake / "hr/people/1.parquet", id=[1], email=["a@example.com"])
    register(small, "people", table="hr/people")
    hidden(small, dataset="people")
    narrow = small.token(("dataset.read", "dataset.write"))
    print(small.query("SELECT * FROM people", token=narrow).rows)
    register(small, "again", table="hr/people", token=narrow)
    rows = small.query("SELECT * FROM again", token=narrow).rows
    print(rows); assert "a@example.com" not in str(rows)

def test_symlink_listing(small, lake, tmp_path):
    (tmp_path / "private").mkdir(); (tmp_path / "private/salaries-of-board.xlsx").write_text("x")
    (lake / "linked").symlink_to(tmp_path / "private")
    with pytest.raises(FalajError) as e: register(small, table="linked")
    print(repr(e.value)); assert "salaries" not in str(e.value)

def test_surrogate(small, lake):
    write_file(lake / "sales/orders/1.parquet", id=[1])
    os.rename(lake / "sales/orders/1.parquet", os.fsencode(lake / "sales/orders") + b"/\xff.parquet")
    with pytest.raises(FalajError) as e: register(small)
    str(e.value).encode()

def test_pg_host(small, tmp_path):
    declare(small, "wells", "postgres", address=Address(host="127.0.0.1", port=1, database="inner-name"), user="falaj", secret="p@ss w%rd")
    with pytest.raises(FalajError) as e: register(small, place="wells", table="sales.orders", kind="postgres")
    print(repr(e.value)); assert "127.0.0.1" not in str(e.value) and "inner-name" not in str(e.value)
