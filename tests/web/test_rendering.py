"""What the templates' own filters make of texts and times."""

from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from falaj.base.clock import Moment
from falaj.web.rendering import time_tag, with_code


def test_what_stands_between_backticks_is_code() -> None:
    assert with_code("log it with `signature=`.") == "log it with <code>signature=</code>."


def test_a_backtick_without_a_partner_stays() -> None:
    assert with_code("a ` b") == "a ` b"
    assert with_code("`a` ` b") == "<code>a</code> ` b"


@given(st.text(alphabet="a`<&\"'"))
def test_code_in_a_sentence_loses_nothing_and_is_never_markup(text: str) -> None:
    made = with_code(text)
    plain = made.replace("<code>", Markup("`")).replace("</code>", Markup("`"))
    assert plain.unescape() == text
    assert "<" not in plain


def test_seconds_show_where_they_matter() -> None:
    at = Moment.parse("2026-07-01T10:20:30.123456Z")
    assert ">2026-07-01 10:20 UTC<" in time_tag(at)
    assert ">2026-07-01 10:20:30 UTC<" in time_tag(at, "exact")
