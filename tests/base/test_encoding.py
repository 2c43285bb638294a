import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.base.encoding import canonical

documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
)


@given(documents)
def test_canonical_json_reads_back_and_is_a_fixed_point(document):
    once = canonical(document)
    assert json.loads(once) == document
    assert canonical(json.loads(once)) == once


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), st.integers()))
def test_the_order_of_keys_does_not_matter(document):
    assert canonical(dict(reversed(document.items()))) == canonical(document)


def test_what_json_cannot_say_is_refused():
    with pytest.raises(ValueError):
        canonical(float("nan"))
