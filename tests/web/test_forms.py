"""Fields of a form become an operation's request, strictly."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.base.clock import Moment
from falaj.governance.identity.operations import CREATE_TOKEN, REVOKE_TOKEN, CreateToken
from falaj.governance.ledger.operations import LOG, PROVE, ProveLeaf, ReadLog
from falaj.governance.projects.operations import UPDATE_PROJECT, UpdateProject
from falaj.web.forms import Mistyped, request_from


def test_texts_become_what_the_request_wants() -> None:
    fields = {"label": ["ci"], "scopes": ["read", "write"], "projects": ["a, b c"], "days": ["7"], "zone": [""], "_csrf": ["x"]}
    wanted = CreateToken(label="ci", scopes=("read", "write"), projects=("a", "b", "c"), days=7)
    assert request_from(CREATE_TOKEN, fields, {}) == wanted


def test_a_time_without_a_zone_is_utc() -> None:
    asked = request_from(LOG, {"since": ["2026-11-15T09:30"], "until": [""]}, {})
    assert asked == ReadLog(since=Moment.parse("2026-11-15T09:30:00Z"))
    asked = request_from(LOG, {"since": ["2026-11-15T09:30:00+04:00"]}, {})
    assert asked == ReadLog(since=Moment.parse("2026-11-15T05:30:00Z"))


def test_a_blank_text_clears_where_leaving_it_out_would_keep_it() -> None:
    assert request_from(UPDATE_PROJECT, {"description": [""]}, {"project": "p"}) == UpdateProject(project="p", description="")
    assert request_from(UPDATE_PROJECT, {"zones": []}, {"project": "p"}) == UpdateProject(project="p")
    assert request_from(PROVE, {"index": [""], "leaf": [""]}, {}) == ProveLeaf()


def test_the_address_wins_over_the_form() -> None:
    asked = request_from(UPDATE_PROJECT, {"project": ["other"]}, {"project": "mine"})
    assert asked.project == "mine"


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({}, "token"),
        ({"token": ["xyz"]}, "token"),
        ({"token": ["0" * 32], "descendants": ["perhaps"]}, "descendants"),
        ({"token": ["0" * 32], "owner": ["me"]}, "owner"),
    ],
)
def test_what_is_wrong_is_told_by_field(fields: dict[str, list[str]], wrong: str) -> None:
    with pytest.raises(Mistyped) as caught:
        request_from(REVOKE_TOKEN, fields, {})
    assert set(caught.value.fields) == {wrong}


@given(st.dictionaries(st.text(max_size=10), st.lists(st.text(max_size=20), min_size=1, max_size=3), max_size=5))
def test_any_form_is_a_request_or_a_mistake(fields: dict[str, list[str]]) -> None:
    for operation in (LOG, CREATE_TOKEN, UPDATE_PROJECT):
        made: Any = None
        with suppress(Mistyped):
            made = request_from(operation, fields, {"project": "p"} if operation is UPDATE_PROJECT else {})
        assert made is None or isinstance(made, operation.request)
