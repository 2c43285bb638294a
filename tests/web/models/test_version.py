"""A model's signature as its page shows it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.web.models.model import quoted
from falaj.web.models.version import Port, ports

documents = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def test_columns_and_tensors_are_named_with_their_types() -> None:
    text = '[{"name": "age", "type": "long", "required": false}, {"name": "", "dtype": "float64", "shape": [-1, 3]}]'
    assert ports(text) == [Port(name="age", type="long", required=False), Port(name="", type="float64 [-1, 3]")]


@given(documents.map(json.dumps) | st.text(max_size=50))
def test_a_signature_that_is_none_shows_nothing_and_never_fails(text: str) -> None:
    assert all(isinstance(port, Port) for port in ports(text))


@pytest.mark.parametrize(("name", "said"), [("plain", "'plain'"), ("it's", '"it\'s"')])
def test_a_name_stands_in_quotes_that_it_does_not_hold(name: str, said: str) -> None:
    assert quoted(name) == said
