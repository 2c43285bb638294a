"""Amounts and logs as people read them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.web.jobs import amounts


@pytest.mark.parametrize(
    ("resource", "count", "words"),
    [
        ("cpu", 1500, "1.5"),
        ("gpu", 500, "0.5"),
        ("gpu:H200", 8000, "8"),
        ("memory", 512, "512 MiB"),
        ("memory", 2048, "2 GiB"),
        ("memory", 1536, "1.5 GiB"),
        ("io", 3, "3"),
    ],
)
def test_an_amount_is_told_in_the_unit_of_its_resource(resource: str, count: int, words: str) -> None:
    assert amounts.amount(resource, count) == words


def test_what_costs_nothing_shows_nothing_and_a_little_is_not_nothing() -> None:
    assert [amounts.money(millionths) for millionths in (0, 20, 1_500_000, 2_000_000_000)] == ["", "2e-05", "1.50", "2,000.00"]


def test_a_reason_is_told_as_a_sentence_and_a_sentence_stays_one() -> None:
    assert amounts.sentence("with a share that others lend") == "With a share that others lend."
    assert amounts.sentence("owner submitted it.") == "owner submitted it."
    assert amounts.sentence("") == ""


def test_a_log_shows_what_a_terminal_would() -> None:
    assert amounts.log_lines("a\r\n10 %\r20 %\n\x1b[1;31mred\x1b[0m\n") == "a\n20 %\nred\n"


@given(st.text(alphabet=st.characters(exclude_characters="\r\x1b")))
def test_a_plain_log_stays_as_it_is(text: str) -> None:
    assert amounts.log_lines(text) == text
