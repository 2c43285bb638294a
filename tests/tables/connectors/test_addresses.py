"""Addresses are shown without what opens the place behind them."""

import pytest

from falaj.base.errors import Invalid
from falaj.tables.connectors.addresses import is_address, parsed
from falaj.tables.connectors.asking import Asked
from falaj.tables.connectors.opening import opened


def test_an_address_is_shown_without_name_password_and_options():
    address = parsed("postgresql://reader:geh%40eim@db.example:5433/sales?sslpassword=leise&sslmode=require")
    assert address.shown == "postgresql://db.example:5433/sales"
    assert address.without_secrets("geh@eim, geh%40eim and leise at db.example.") == "***, *** and *** at db.example"
    assert "geheim" not in repr(parsed("postgresql://reader:geheim@db.example/sales").shown)


def test_of_a_file_only_its_name_is_shown():
    assert parsed("sqlite:////home/somebody/rows.db").shown == "sqlite:///rows.db"


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://reader:ge@heim@db.example/sales",
        "postgresql://reader:ge/heim@db.example/sales",
        "postgresql://reader:ge?heim@db.example/sales",
        "postgresql://reader:ge#heim@db.example/sales",
        "postgresql://reader:heim]@[db.example/sales",
        "postgresql://reader:heim",
    ],
)
def test_a_password_that_breaks_the_address_is_not_repeated(text: str):
    with pytest.raises(Invalid) as caught:
        opened(text, Asked(table="sales"))
    assert "heim" not in str(caught.value)
    assert "%40" in str(caught.value)


def test_what_is_no_address_is_a_file():
    assert is_address("s3://bucket/folder")
    assert not is_address("rows.csv")
    assert not is_address("C:rows.csv")


def test_a_place_that_nobody_knows_is_refused_with_those_that_there_are():
    with pytest.raises(Invalid, match="postgresql, s3, sqlite; mysql:// is none"):
        opened("mysql://reader:geheim@db.example/sales", Asked(table="sales"))
