"""Rows that a job says a function made of others: held against what there is and what the writer may see, and found again."""

from typing import Any

import pytest

from falaj.base.errors import Conflict, Forbidden, Invalid, NotFound
from falaj.datasets.operations import deriving
from falaj.datasets.operations.derivations import FunctionUsed
from falaj.governance.roles import Role
from tests.datasets.deriving.test_sql import derived, hidden, kinds, told
from tests.datasets.platform import PROJECT, Platform

CODE = "c0de" * 16
ROWS = b"user,spent\n1,5\n2,10\n"


def used(*inputs: str, code: str = CODE) -> FunctionUsed:
    return FunctionUsed(code=code, function="spent", inputs=inputs)


def found(platform: Platform, *inputs: str, code: str = CODE, token: str = "", project: str = PROJECT) -> deriving.FoundDerived:
    asked = deriving.FindDerived(project=project, dataset="spent", code=code, inputs=inputs)
    return platform.call(deriving.FIND_DERIVED, asked, token)


def written(platform: Platform, *inputs: str, **fields: Any) -> None:
    platform.write(ROWS, mode="overwrite", dataset="spent", derivation=used(*inputs), **fields)


def test_what_a_function_made_is_found_by_its_code_and_the_rows_it_read(platform: Platform) -> None:
    told(platform)
    first = found(platform, "clicks", "users")
    assert (first.version, first.inputs, first.zone, first.classified) == (None, ("clicks@1", "users@1"), "home", False)
    written(platform, *first.inputs)
    again = found(platform, "clicks", "users")
    assert again.version is not None
    assert (again.version.version, again.version.current) == (1, True)
    assert again.version.derivation is not None
    assert [one.reference for one in again.version.derivation.inputs] == ["clicks@1", "users@1"]
    assert found(platform, "clicks", "users", code="0" * 64).version is None
    assert found(platform, "users", "clicks").version is None
    platform.write(b"user,amount\n9,9\n", dataset="clicks")
    assert found(platform, "clicks", "users").version is None
    assert found(platform, "clicks@1", "users").version is not None
    assert not derived(platform, "SELECT * FROM users", dataset="spent").cached  # nothing passes for SQL


def test_inputs_that_are_not_there_or_not_the_callers_are_refused_and_nothing_is_written(small: Platform) -> None:
    told(small)
    for inputs, says in ((("nowhere",), "no dataset 'nowhere' here"), (("clicks@7",), "no version 7")):
        with pytest.raises(NotFound, match=says):
            small.open("overwrite", "spent", derivation=used(*inputs))
    with pytest.raises(Invalid, match="name another"):
        small.open("overwrite", "clicks", derivation=used("clicks"))
    with pytest.raises(Invalid, match="given twice"):
        small.open("overwrite", "spent", derivation=used("clicks", "clicks@1"))
    with pytest.raises(Invalid, match="say overwrite"):
        small.open("append", "spent", derivation=used("clicks"))
    with pytest.raises(NotFound):
        small.dataset("spent")
    small.project("other")
    stranger = small.person("zayd", Role.SCIENTIST, project="other")
    with pytest.raises((Forbidden, NotFound)):
        found(small, "clicks", token=stranger)
    with pytest.raises(NotFound, match="no dataset 'clicks' here"):
        found(small, "clicks", token=stranger, project="other")


def test_what_a_function_made_of_classified_rows_is_classified_and_only_for_those_who_see_them(small: Platform) -> None:
    told(small)
    hidden(small)
    narrow = small.token(("dataset.read", "dataset.write"))
    with pytest.raises(Forbidden, match="email"):
        small.open("overwrite", "spent", derivation=used("users"), token=narrow)
    with pytest.raises(Forbidden, match="email"):
        found(small, "users", token=narrow)
    assert found(small, "users").classified
    written(small, "users@1")
    assert kinds(small) == {"user": "personal", "spent": "personal"}


def test_a_write_that_was_begun_by_a_function_goes_on_only_as_the_same(small: Platform) -> None:
    told(small)
    small.open("overwrite", "spent", derivation=used("users@1"), key="job")
    small.open("overwrite", "spent", derivation=used("users@1"), key="job")
    with pytest.raises(Conflict, match="meant otherwise"):
        small.open("overwrite", "spent", derivation=used("clicks@1"), key="job")
