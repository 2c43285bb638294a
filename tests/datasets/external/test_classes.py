"""A table whose rows stay where they are has the same secrets under every name that it is registered by."""

from pathlib import Path

import pytest

from falaj.base.errors import Forbidden
from tests.datasets.deriving.test_sql import hidden, kinds
from tests.datasets.external.lake import folder_place, register, write_file
from tests.datasets.platform import Platform


@pytest.fixture
def lake(small: Platform, tmp_path: Path) -> Path:
    folder = folder_place(small, tmp_path)
    write_file(folder / "hr/people/1.parquet", id=[1], email=["a@example.com"])
    write_file(folder / "hr-other/1.parquet", id=[1], email=["shop@example.com"])
    return folder


def test_who_may_not_see_a_column_does_not_register_its_table_once_more(small: Platform, lake: Path):
    register(small, "people", table="hr/people")
    hidden(small, dataset="people")
    narrow = small.token(("dataset.read", "dataset.write"))
    for table in ("hr/people", "hr/people/", "hr"):
        with pytest.raises(Forbidden, match=r"is the dataset 'people' as well.*email"):
            register(small, "again", table=table, token=narrow)
    small.delete("people")  # which he could do himself: the rows are still there
    for name in ("again", "people"):
        with pytest.raises(Forbidden):
            register(small, name, table="hr/people", token=narrow)
    assert register(small, "shops", table="hr-other", token=narrow).rows == 1
    register(small, "people", table="hr/people")
    assert kinds(small, "people") == {"email": "personal"}
    assert small.query("SELECT * FROM people", token=narrow).rows == ((1, None),)


def test_a_class_is_of_the_table_whichever_of_its_names_is_classified(small: Platform, lake: Path):
    register(small, "people", table="hr/people")
    register(small, "staff", table="hr")
    register(small, "shops", table="hr-other")
    hidden(small, dataset="people")
    hidden(small, "sensitive", dataset="staff", column="id")
    for name in ("people", "staff"):
        assert kinds(small, name) == {"email": "personal", "id": "sensitive"}
    assert not kinds(small, "shops")
