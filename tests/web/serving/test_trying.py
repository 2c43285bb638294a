"""What may be typed to try an endpoint, and what is sent of it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.web.forms import Mistyped
from falaj.web.models.version import Port
from falaj.web.serving.trying import example, question


def test_one_record_goes_as_it_is_and_several_as_records() -> None:
    assert question({"records": [' {"a": 1} ']}) == (b'{"a": 1}', "", 0)
    assert question({"records": ['[{"a": 1}, {"a": 2}]'], "key": ["ann"], "revision": ["3"]}) == (
        b'{"records": [{"a": 1}, {"a": 2}]}',
        "ann",
        3,
    )


@pytest.mark.parametrize(
    ("typed", "field"),
    [
        ({"records": ""}, "records"),
        ({"records": "{"}, "records"),
        ({"records": "1"}, "records"),
        ({"records": '"text"'}, "records"),
        ({"records": "[" * 100_000}, "records"),
        ({"records": "{}", "key": "a\r\nx-other: b"}, "key"),
        ({"records": "{}", "key": "ünï"}, "key"),
        ({"records": "{}", "key": "k" * 300}, "key"),
        ({"records": "{}", "revision": "1; drop"}, "revision"),
        ({"records": "{}", "revision": "-1"}, "revision"),
        ({"records": "{}", "revision": "٣"}, "revision"),
    ],
)
def test_anything_else_is_told_beside_its_field(typed: dict[str, str], field: str) -> None:
    with pytest.raises(Mistyped) as told:
        question({name: [text] for name, text in typed.items()})
    assert set(told.value.fields) == {field}


@given(st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5) | st.none(), max_size=3))
def test_what_is_sent_is_what_was_typed(record: dict[str, object]) -> None:
    body, _, _ = question({"records": [json.dumps(record)]})
    assert json.loads(body) == record


def test_the_form_begins_with_the_models_columns_where_they_are_known() -> None:
    ports = [Port(name="age", type="double"), Port(name="n", type="long"), Port(name="who", type="string")]
    assert json.loads(example(ports)) == {"age": 0.0, "n": 0, "who": ""}
    assert json.loads(example(ports, keys=["user"], looked=["people@2:age"])) == {"user": 1, "n": 0, "who": ""}
    for unknown in ([], [Port(name="", type="double")], [Port(name="x", type="tensor")]):
        assert json.loads(example(unknown)) == {"rows": [[0.0]]}
