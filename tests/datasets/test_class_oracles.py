"""Columns that somebody may not see, and the ways round about to what they hold: other spellings, keys, differences, and what
was made of them before they were classified."""

from typing import Any

import pytest

from falaj.base.errors import Forbidden
from falaj.datasets.operations import classes, comparing, datasets, reading
from falaj.datasets.operations.deriving import DERIVE, Derive
from falaj.datasets.operations.versions import RENAME_COLUMNS, RenameColumns
from falaj.governance.roles import Role
from tests.datasets.features.stories import applied, joined, told
from tests.datasets.platform import PROJECT, Platform, arrow

PEOPLE: dict[str, list[Any]] = {"id": [1, 2], "email": ["amal@example.ae", "badr@example.ae"], "score": [1.0, 2.0]}


def classify(platform: Platform, dataset: str = "flights", clear: tuple[str, ...] = (), **kinds: Any) -> dict[str, str]:
    columns = tuple(classes.Classified(column=name, kind=kind) for name, kind in kinds.items())
    request = classes.ClassifyColumns(project=PROJECT, dataset=dataset, columns=columns, clear=clear)
    return {one.column: one.kind for one in platform.call(classes.CLASSIFY_COLUMNS, request).columns}


def kinds_of(platform: Platform, dataset: str) -> dict[str, str]:
    found = platform.call(classes.SHOW_CLASSES, datasets.OneDataset(project=PROJECT, dataset=dataset)).columns
    return {one.column: one.kind for one in found}


def preview(platform: Platform, token: str, word: str = "current", dataset: str = "flights") -> tuple[tuple[Any, ...], ...]:
    return platform.call(reading.PREVIEW, reading.Preview(project=PROJECT, dataset=dataset, version=word), token).rows


def compare(platform: Platform, token: str = "", *keys: str) -> comparing.Difference:
    request = comparing.CompareVersions(project=PROJECT, dataset="flights", version="1", other="2", keys=keys)
    return platform.call(comparing.COMPARE_VERSIONS, request, token)


def test_which_letters_are_small_makes_no_other_column_of_it(platform: Platform) -> None:
    viewer = platform.person("amal", Role.VIEWER)
    platform.write(arrow(**PEOPLE))
    assert classify(platform, EMAIL="personal").keys() >= {"email"}
    later = {"id": [3], "Email": ["salma@example.ae"], "score": [3.0]}
    platform.write(arrow(**later), mode="overwrite")
    for word in ("1", "2"):
        assert {row[1] for row in preview(platform, viewer, word)} == {None}
        with pytest.raises(Forbidden, match="may not see"):
            platform.grant(word, token=viewer)
    assert platform.query("SELECT count(*) FROM flights WHERE eMail LIKE 'salma%'", token=viewer).rows == ((0,),)
    platform.rename(Email="Contact")
    assert {row[1] for row in preview(platform, viewer)} == {None}
    classify(platform, clear=("email", "contact"))
    assert preview(platform, viewer)[0][1] == "salma@example.ae"


def test_rows_are_not_told_apart_for_anybody_by_what_he_may_not_see(small: Platform) -> None:
    viewer, narrow = small.person("amal", Role.VIEWER), small.token(("read", "write"))
    small.write(arrow(**PEOPLE))
    classify(small, email="personal")
    guess = arrow(id=[1], email=["amal@example.ae"], score=[1.0])
    small.write(guess, mode="merge", keys=("id",))
    for token in (viewer, narrow):
        with pytest.raises(Forbidden, match="may not see email"):
            compare(small, token, "email")
        with pytest.raises(Forbidden, match="may not see eMail"):
            compare(small, token, "eMail")
    with pytest.raises(Forbidden, match="merging by it would show"):
        small.open("merge", keys=("email",), token=narrow)
    assert small.write(guess, mode="merge", keys=("email",)).version == 3  # for who sees it


def test_a_difference_says_nothing_of_what_the_caller_may_not_see(small: Platform) -> None:
    narrow = small.token(("read", "write"))
    small.write(arrow(**PEOPLE))
    classify(small, email="personal")
    small.write(arrow(id=[1], email=["guess@example.ae"], score=[1.0]), mode="merge", keys=("id",))
    assert [(one.name, one.rows) for one in compare(small, "", "id").changed] == [("email", 1)]
    told = compare(small, narrow, "id")
    assert (told.changed, told.rows_changed) == ((), 0)
    assert "email" not in {one.name for one in told.shifts}
    assert (compare(small, narrow).rows_added, compare(small).rows_added) == (0, 1)


def test_what_was_made_of_a_column_is_classified_with_it_though_it_was_made_before(platform: Platform) -> None:
    viewer = platform.person("amal", Role.VIEWER)
    told(platform)
    applied(platform)
    joined(platform)
    sql = "SELECT user AS whose, last_amount + 1 AS more, clicks FROM training"
    platform.call(DERIVE, Derive(project=PROJECT, dataset="derived", sql=sql))
    assert (kinds_of(platform, "training"), kinds_of(platform, "derived")) == ({}, {})
    classify(platform, "clicks", amount="sensitive")
    classify(platform, "labels", User="personal")
    made = kinds_of(platform, "training")
    assert made == {"user": "personal", "last_amount": "sensitive", "spent": "sensitive"}
    assert kinds_of(platform, "derived") == {"whose": "personal", "more": "sensitive"}
    assert {row[0] for row in preview(platform, viewer, dataset="training")} == {None}
    assert {row[:2] for row in preview(platform, viewer, dataset="derived")} == {(None, None)}
    with pytest.raises(Forbidden, match="may not see"):
        platform.grant(name="training", token=viewer)


def test_a_column_that_was_called_otherwise_since_is_classified_with_what_it_was_made_of(small: Platform) -> None:
    small.write(arrow(**PEOPLE))
    sql = "SELECT id, email AS contact FROM flights"
    small.call(DERIVE, Derive(project=PROJECT, dataset="derived", sql=sql))
    small.call(RENAME_COLUMNS, RenameColumns(project=PROJECT, dataset="derived", renames={"contact": "whom"}))
    small.rename(email="mail")
    classify(small, mail="personal")
    assert kinds_of(small, "derived") == {"contact": "personal", "whom": "personal"}
