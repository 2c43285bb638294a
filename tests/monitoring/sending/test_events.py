"""What is told of an alert is a CloudEvent that can be read back, and words that fit on a screen."""

import json
import math
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.base.clock import Moment
from falaj.monitoring.sending.events import MOST_BYTES, Event, cloud_event, read_event, title_of, words_of

EVENT = Event(
    id="1",
    kind="alert.raised",
    project="bank",
    endpoint="fraud",
    title="amount drifts",
    sentence="amount is 0.31 away.",
    facts={"effect": 0.31, "features": ["amount"]},
    severity="warning",
    at=Moment.parse("2026-11-15T09:30:00Z"),
)


def test_it_has_all_that_cloudevents_asks_for() -> None:
    assert json.loads(cloud_event(EVENT)) == {
        "specversion": "1.0",
        "id": "1",
        "source": "/projects/bank/endpoints/fraud",
        "type": "falaj.alert.raised",
        "subject": "fraud",
        "time": "2026-11-15T09:30:00.000000Z",
        "datacontenttype": "application/json",
        "data": {
            "project": "bank",
            "endpoint": "fraud",
            "title": "amount drifts",
            "sentence": "amount is 0.31 away.",
            "severity": "warning",
            "facts": {"effect": 0.31, "features": ["amount"]},
        },
    }


_PLAIN = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | st.text()
_FACTS = st.dictionaries(st.text(max_size=20), _PLAIN | st.lists(_PLAIN, max_size=3), max_size=5)


@given(st.text(max_size=100), _FACTS)
def test_what_was_written_is_read_back(title: str, facts: dict[str, object]) -> None:
    event = replace(EVENT, title=title, facts=facts)
    assert read_event(cloud_event(event)) == event


@pytest.mark.parametrize(("number", "said"), [(math.nan, "NaN"), (math.inf, "Infinity"), (-math.inf, "-Infinity")])
def test_numbers_that_json_has_no_word_for_are_said(number: float, said: str) -> None:
    event = replace(EVENT, facts={"of": {"features": (number, 1.0)}})
    assert json.loads(cloud_event(event))["data"]["facts"] == {"of": {"features": [said, 1.0]}}


def test_an_alert_with_too_many_facts_is_sent_without_them() -> None:
    large = cloud_event(replace(EVENT, facts={"names": ["x" * 1000] * 100}))
    assert len(large) <= MOST_BYTES
    assert json.loads(large)["data"]["facts"] == {"left_out": True}


def test_the_words_are_what_people_need() -> None:
    assert title_of(EVENT) == "[warning] amount drifts"
    assert words_of(EVENT).splitlines() == [
        "amount is 0.31 away.",
        "",
        "Endpoint fraud of project bank, 2026-11-15T09:30:00.000000Z",
        "effect: 0.31",
        'features: ["amount"]',
    ]


@given(st.text(max_size=5000), st.dictionaries(st.text(max_size=50), st.text(max_size=500), max_size=30))
def test_names_end_no_line_and_no_screen_is_flooded(text: str, facts: dict[str, str]) -> None:
    event = replace(EVENT, title=text, sentence=text, facts=facts)
    assert title_of(event).isprintable()
    assert len(title_of(event)) <= 200
    assert len(words_of(event)) <= 3000
    assert all(line.isprintable() for line in words_of(event).split("\n"))
    assert words_of(event).count("\n") <= 2 + len(facts)


@pytest.mark.parametrize(
    "name", ["@everyone", "<!channel>", "<https://evil.example|all is well>", "[all is well](https://evil.example)", "[x]: y"]
)
def test_names_call_nobody_in_a_chat_and_hide_no_link_behind_other_words(name: str) -> None:
    event = replace(EVENT, title=name, sentence=name, facts={name: name, "columns": [name], "many": {name: 1}})
    for told in (title_of(event), words_of(event)):
        assert not re.search(r"[@<]|\]\(|\]\[|\]:", told)
        assert "well" in told or "every" in told or "channel" in told or "x" in told
