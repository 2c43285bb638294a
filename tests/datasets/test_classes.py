"""Columns that are personal or sensitive: who may not see them sees nothing of their values, whichever way he asks."""

import dataclasses
from typing import Any

import pytest

from falaj.base.errors import Forbidden, Invalid
from falaj.datasets.operations import checks, classes, comparing, profiles, reading, versions
from falaj.governance.roles import Role
from tests.datasets.platform import PROJECT, Platform, arrow

PEOPLE: dict[str, list[Any]] = {
    "id": [1, 2, 3],
    "email": ["amal@example.ae", "badr@example.ae", "salma@example.ae"],
    "score": [1.0, 2.0, 99.0],
}


def classify(platform: Platform, *, token: str = "", clear: tuple[str, ...] = (), **kinds: Any) -> classes.Classes:
    columns = tuple(classes.Classified(column=name, kind=kind) for name, kind in kinds.items())
    request = classes.ClassifyColumns(project=PROJECT, dataset="flights", columns=columns, clear=clear)
    return platform.call(classes.CLASSIFY_COLUMNS, request, token)


def hints(platform: Platform) -> dict[str, tuple[str, float]]:
    request = versions.OneVersion(project=PROJECT, dataset="flights", version="current")
    return {one.column: (one.what, one.share) for one in platform.call(classes.HINT_CLASSES, request).hints}


def preview(platform: Platform, token: str = "", word: str = "current") -> tuple[tuple[Any, ...], ...]:
    return platform.call(reading.PREVIEW, reading.Preview(project=PROJECT, dataset="flights", version=word), token).rows


def test_who_may_not_see_a_column_finds_nothing_of_its_values(platform: Platform) -> None:
    viewer, scientist = platform.person("amal", Role.VIEWER), platform.person("badr", Role.SCIENTIST)
    platform.write(arrow(**PEOPLE))
    assert preview(platform, viewer)[0] == (1, "amal@example.ae", 1.0)
    assert classify(platform, email="personal").columns == (classes.Classified(column="email", kind="personal"),)
    assert preview(platform, scientist)[0] == (1, "amal@example.ae", 1.0)
    assert [row[1] for row in preview(platform, viewer)] == [None, None, None]
    asked = "SELECT count(*) FROM flights WHERE email LIKE 'amal%'"
    assert platform.query(asked, token=viewer).rows == ((0,),)
    assert platform.query(asked, token=scientist).rows == ((1,),)
    with pytest.raises(Forbidden, match="may not see"):
        platform.grant(token=viewer)
    assert platform.grant(token=scientist).rows == 3
    request = versions.OneVersion(project=PROJECT, dataset="flights", version="current")
    shown = platform.call(profiles.PROFILE_VERSION, request, viewer)
    assert "amal" not in str(shown)
    assert "amal" in str(platform.call(profiles.PROFILE_VERSION, request, scientist))
    assert next(one for one in shown.columns if one["name"] == "email")["nulls"] == 0


def test_rows_that_broke_a_check_are_masked_as_well(small: Platform) -> None:
    viewer = small.person("amal", Role.VIEWER)
    small.write(arrow(**{name: values[:2] for name, values in PEOPLE.items()}))
    classify(small, email="personal")
    rules = (
        checks.Check(name="score", kind="range", columns=("score",), most=10),
        checks.Check(name="own", kind="sql", sql="SELECT email AS harmless FROM flights WHERE score > 10"),
        checks.Check(name="numbers", kind="set", columns=("email",), values=(1, 2)),
    )
    small.call(checks.SET_CHECKS, checks.SetChecks(project=PROJECT, dataset="flights", checks=rules))
    assert small.write(arrow(**PEOPLE)).quarantined
    found = versions.OneVersion(project=PROJECT, dataset="flights", version="2")
    now = checks.CheckVersion(project=PROJECT, dataset="flights", version="2")
    for operation, request in ((checks.SHOW_FINDINGS, found), (checks.CHECK_VERSION, now)):
        mine: checks.Checked = small.call(operation, request)  # type: ignore[arg-type, assignment]
        theirs: checks.Checked = small.call(operation, request, viewer)  # type: ignore[arg-type, assignment]
        assert "salma" in str(mine)
        assert "example.ae" not in str(theirs)
        assert [one.finding for one in theirs.outcomes] == [one.finding for one in mine.outcomes]
    assert theirs.outcomes[0].examples == ((3, None, 99.0),)
    assert "example.ae" not in str(small.version("2"))


def test_checks_show_nothing_of_another_dataset_that_the_caller_may_not_see(small: Platform) -> None:
    viewer, scientist = small.person("amal", Role.VIEWER), small.person("badr", Role.SCIENTIST)
    narrow = small.token(("read", "write"))
    small.write(arrow(**PEOPLE))
    classify(small, email="personal")
    small.write(arrow(id=[1], named=["amal@example.ae"]), dataset="orders")
    rules = (
        checks.Check(name="theirs", kind="sql", sql="SELECT f.email AS harmless FROM flights f, orders"),
        checks.Check(name="there", kind="refers", columns=("named",), dataset="flights", references=("email",)),
        checks.Check(name="own", kind="range", columns=("id",), least=2),
    )
    for rule in (*rules[:2], dataclasses.replace(rules[1], references=("EMAIL",))):
        with pytest.raises(Forbidden, match="may not see"):
            small.call(checks.SET_CHECKS, checks.SetChecks(project=PROJECT, dataset="orders", checks=(rule,)), narrow)
    small.call(checks.SET_CHECKS, checks.SetChecks(project=PROJECT, dataset="orders", checks=rules), scientist)
    again = checks.SetChecks(project=PROJECT, dataset="orders", checks=rules)
    assert small.call(checks.SET_CHECKS, again, narrow).checks == rules
    number = small.write(arrow(id=[1], named=["nobody@example.com"]), dataset="orders").version
    found = versions.OneVersion(project=PROJECT, dataset="orders", version=str(number))
    now = checks.CheckVersion(project=PROJECT, dataset="orders", version=str(number))
    for operation, request in ((checks.SHOW_FINDINGS, found), (checks.CHECK_VERSION, now)):
        mine: checks.Checked = small.call(operation, request, scientist)  # type: ignore[arg-type, assignment]
        assert "salma" in str(mine)
        for token in (viewer, narrow):
            theirs: checks.Checked = small.call(operation, request, token)  # type: ignore[arg-type, assignment]
            assert "salma" not in str(theirs)
            assert [bool(one.examples) for one in theirs.outcomes] == [False, False, True]
            assert [one.finding for one in theirs.outcomes] == [one.finding for one in mine.outcomes]


def test_a_token_that_may_write_does_not_thereby_see_what_is_personal(small: Platform) -> None:
    small.write(arrow(**PEOPLE))
    classify(small, email="personal")
    assert preview(small, small.token(("read", "write")))[0] == (1, None, 1.0)
    assert preview(small, small.token(("read", "dataset.personal")))[0] == (1, "amal@example.ae", 1.0)


def test_what_is_asked_of_values_is_not_in_the_ledger(small: Platform) -> None:
    small.write(arrow(**PEOPLE))
    rules = (
        checks.Check(name="a", kind="sql", sql="SELECT 1 FROM flights WHERE email = 'salma@example.ae'", severity="warn"),
        checks.Check(name="b", kind="set", columns=("email",), values=("salma@example.ae",), severity="warn"),
        checks.Check(name="c", kind="range", columns=("email",), least="salma", most="salma", severity="warn"),
    )
    small.call(checks.SET_CHECKS, checks.SetChecks(project=PROJECT, dataset="flights", checks=rules))
    small.commit(small.open("delete", where="email = 'salma@example.ae'"), 0)
    assert small.leaves("dataset.set-checks")
    assert "salma" not in str(small.leaves("dataset.set-checks") + small.leaves("dataset.write"))


def test_a_column_that_is_renamed_stays_masked_under_both_names(small: Platform) -> None:
    viewer = small.person("amal", Role.VIEWER)
    small.write(arrow(**PEOPLE))
    classify(small, email="personal", score="sensitive")
    small.rename(email="mail")
    for word in ("1", "2"):
        assert preview(small, viewer, word)[0] == (1, None, None)
    request = comparing.CompareVersions(project=PROJECT, dataset="flights", version="1", other="2")
    assert small.call(comparing.COMPARE_VERSIONS, request, viewer).rows_after == 3
    assert len(classify(small, clear=("score",)).columns) == 2
    assert preview(small, viewer)[0] == (1, None, 1.0)


def test_a_column_is_classified_under_every_name_that_a_version_has_for_it(platform: Platform) -> None:
    viewer = platform.person("amal", Role.VIEWER)
    platform.write(arrow(**PEOPLE))
    platform.rename(email="mail")
    platform.write(arrow(id=[4], mail=["rim@example.ae"], score=[1.0]))
    platform.rename(mail="contact")
    assert {one.column for one in classify(platform, contact="personal").columns} == {"email", "mail", "contact"}
    for word in ("1", "2", "3", "4"):
        assert {row[1] for row in preview(platform, viewer, word)} == {None}
    platform.write(arrow(id=[1]), mode="overwrite")
    assert "score" in {one.column for one in classify(platform, score="sensitive").columns}
    assert preview(platform, viewer, "1")[0] == (1, None, None)


def test_only_who_sees_may_classify_and_columns_must_be_there(small: Platform) -> None:
    viewer = small.person("amal", Role.VIEWER)
    small.write(arrow(**PEOPLE))
    with pytest.raises(Forbidden):
        classify(small, token=viewer, email="personal")
    with pytest.raises(Invalid, match="no column 'phone'"):
        classify(small, phone="personal")


def test_columns_that_look_personal_are_found_by_values_and_by_names(small: Platform) -> None:
    small.write(
        arrow(
            id=[1, 2, 3, 4],
            contact=["a@b.ae", "c@d.com", None, "none"],
            number=["+971 50 123 4567", "0501234567", "00971501234567", "04 123 4567"],
            emirates=["784-1990-1234567-1", "784199012345671", None, None],
            paid_with=["4111 1111 1111 1111", "5500005555555559", "x", None],
            code=[4111111111111112, 4111111111111113, 4111111111111114, 4111111111111115],
            card_code=[4111111111111111, 5500005555555559, 4012888888881881, 1],
            account=["AE070331234567890123456", "GB29 NWBK 6016 1331 9268 19", None, None],
            firstName=["Amal", "Badr", "Salma", None],
            town=["Dubai", "Al Ain", "Hatta", "Dubai"],
            discarded=["a", "b", "c", "d"],
            salary=[1.0, 2.0, 3.0, 4.0],
        )
    )
    assert hints(small) == {
        "contact": ("e-mail addresses", 0.6667),
        "number": ("phone numbers", 1.0),
        "emirates": ("Emirates IDs", 1.0),
        "paid_with": ("card numbers", 0.6667),
        "card_code": ("card numbers", 0.75),
        "account": ("bank accounts", 1.0),
        "firstName": ("names of people", 0.0),
        "salary": ("pay, health or belief", 0.0),
    }
    classify(small, contact="personal", salary="sensitive")
    assert not {"contact", "salary"} & set(hints(small))
