"""Long texts are counted as short ones that differ as they do, one by one and column by column alike."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.tables.short_texts import LONGEST, all_shortened, shortened

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=150)


@given(TEXTS)
def test_a_text_is_short_afterwards_and_stays_so(text):
    short = shortened(text)
    assert len(short.encode()) <= LONGEST
    assert shortened(short) == short
    assert (short == text) == (len(text.encode()) <= LONGEST)


@given(st.lists(st.none() | TEXTS, max_size=20))
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_a_column_is_shortened_as_its_texts_are(kind, texts):
    found = all_shortened(pa.array(texts, kind))
    assert found.type == kind
    assert found.to_pylist() == [None if one is None else shortened(one) for one in texts]


def test_texts_that_begin_alike_stay_apart():
    assert len({shortened("https://shop.example.com/" + "a" * 60 + end) for end in "xyz"}) == 3
    assert shortened("\ud800") == "?"
