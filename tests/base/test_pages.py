import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.base.errors import Invalid
from falaj.base.pages import cursor_after, page_of, read_cursor, read_text_cursor


@given(st.text().filter(str.isprintable), st.integers(-(2**63), 2**63 - 1))
def test_a_cursor_comes_back_as_it_went(text, number):
    assert read_cursor(cursor_after(text, number), str, int) == (text, number)


def test_a_cursor_is_safe_in_a_query():
    assert set(cursor_after("?&=/+", 2**70)) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")


@given(names=st.sets(st.text("abc", min_size=1), max_size=12), limit=st.integers(1, 5))
def test_pages_follow_one_another_without_gap_or_overlap(names, limit):
    seen, cursor = [], ""
    while True:
        after = read_text_cursor(cursor)
        found = sorted(name for name in names if name > after)[: limit + 1]
        page, cursor = page_of(found, limit, lambda name: (name,))
        seen += page
        if not cursor:
            break
        assert len(page) == limit
    assert seen == sorted(names)


@given(st.text(max_size=200) | st.binary(max_size=100).map(lambda raw: base64.urlsafe_b64encode(raw).decode()))
def test_garbage_is_refused_and_nothing_else_happens(garbage):
    with pytest.raises(Invalid, match="start again"):
        read_cursor(garbage, str, int, str)


@pytest.mark.parametrize("key", [["a"], ["a", "b"], ["a", 1, 2], [1, "a"], ["a", True], ["a", 1.0], {"a": 1}, None, [["a"], 1]])
def test_a_cursor_of_another_listing_is_refused(key):
    forged = base64.urlsafe_b64encode(json.dumps(key).encode()).decode()
    with pytest.raises(Invalid):
        read_cursor(forged, str, int)


def test_a_deeply_nested_cursor_is_refused():
    with pytest.raises(Invalid):
        read_cursor(base64.urlsafe_b64encode(b"[" * 100_000).decode(), str)
