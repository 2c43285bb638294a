"""What was written down of a call is read row by row, whatever it is."""

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from falaj.monitoring.joined import Joined, Logged, Said, as_kind, decode, encode
from falaj.monitoring.scoring import classes_of, fitting, kind_of, order_of

leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
documents = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
)


def logged(inputs: Any, outputs: Any, **fields: Any) -> Logged:
    texts = {"inputs": inputs if isinstance(inputs, str) else json.dumps(inputs), "outputs": json.dumps(outputs)}
    return Logged({"id": "a", "at": 1, "revision": 1, "status": "ok"} | texts | fields)


@settings(max_examples=300, deadline=None)
@given(inputs=documents, outputs=documents)
@example(inputs={"x": [10**4000]}, outputs={"y": [10**4000, [1e308, float("inf")]]})
@example(inputs={"entities": {"a": [1, None], "b": [[2], {}]}}, outputs={"y": [[[[0.5]]]]})
def test_whatever_a_plane_wrote_is_read_and_can_be_kept(inputs: Any, outputs: Any):
    call = logged(inputs, outputs)
    call.entities()
    rows = [
        Joined(revision=1, at=1, unit="", said=call.said(row), truth=1, values={}, groups=call.groups(row, ("p", "q")))
        for row in range(call.rows)
    ]
    assert decode(encode(rows)) == rows
    kind = kind_of(rows)
    if kind in ("classes", "scores"):
        assert len(classes_of(fitting(rows, kind), kind, order=order_of(rows)).truth) == len(fitting(rows, kind))


@pytest.mark.parametrize("text", ["[" * 20_000, "9" * 5000, "{", "null", '"masked"', ""])
def test_what_is_no_document_has_no_rows(text: str):
    assert logged(text, {}).rows == 0
    assert logged(text, {}).entities() == []


@pytest.mark.parametrize(
    ("outputs", "said"),
    [
        ({"label": ["yes"], "probabilities": [[0.2, 0.8]]}, Said(answer="yes", chances=(0.2, 0.8))),
        ({"probabilities": [[0.2, 0.8]]}, Said(answer=1, chances=(0.2, 0.8))),
        ({"probabilities": [[[0.2], [0.8]]]}, Said(answer=1, chances=(0.2, 0.8))),
        ({"y": [2.5]}, Said(answer=2.5)),
        ({"y": 2.5}, Said(answer=2.5)),
        ({"y": [[3]]}, Said(answer=3)),
        ({"y": [True]}, Said(answer=1)),
        ({"score": [0.7], "label": [1]}, Said(answer=1)),
        ({"y": [[0.5, 0.9]]}, Said()),
        ({"y": [float("nan")]}, Said()),
        ({"y": "masked", "z": [4]}, Said(answer=4)),
        ({"y": {"shape": [1, 5000]}}, Said()),
    ],
)
def test_answers_are_classes_numbers_or_chances(outputs: Any, said: Said):
    assert logged({"x": [[1.0]]}, outputs).said(0) == said


def test_one_class_has_one_name():
    assert {as_kind(one) for one in (1, 1.0, True, "1")} == {"1"}
    assert as_kind(0.5) == "0.5"


def test_which_chance_is_of_which_class_is_read_off_the_answers():
    def row(answer: Any, truth: Any, *chances: float) -> Joined:
        return Joined(revision=1, at=0, unit="", said=Said(answer=answer, chances=chances), truth=truth, values={}, groups={})

    assert order_of([row("stay", "go", 0.1, 0.9), row("go", "go", 0.6, 0.4)]) == ("go", "stay")
    assert order_of([row(1, 0, 0.1, 0.9)]) == ("0", "1")
    assert order_of([row("no", "yes", 0.9, 0.1)]) == ("no", "yes")  # in order, where there is no sign of another
    assert order_of([row("b", "a", 0.9, 0.1)]) == ()  # they are not in order, and nothing says which the other is
    assert order_of([row("a", "a", 0.9, 0.1), row("a", "a", 0.1, 0.9)]) == ()
    assert order_of([row(1, 0)]) == ()
