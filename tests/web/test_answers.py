"""Answers that scripts read."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.base.values import Nothing
from falaj.operations.messages import adapter
from falaj.storage.operations import BLOB_GET, BLOB_PUT
from falaj.tracking.operations.runs import Curve, Curves
from falaj.web.answers import for_scripts
from falaj.web.operations import SIGN_IN
from falaj.web.pages import Data


@given(st.lists(st.floats(), max_size=10), st.text(max_size=20))
def test_every_browser_reads_what_no_json_has_a_word_for(values: list[float], key: str) -> None:
    curve = Curve(run="0" * 32, key=f"NaN {key}", steps=(), timestamps=(), values=tuple(values), total=len(values))
    document = for_scripts(adapter(Curves).dump_json(Curves(items=(curve,))))
    read = json.loads(document, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    assert read["items"][0]["key"] == f"NaN {key}"
    assert [value is None for value in read["items"][0]["values"]] == [
        value != value or value in (1e999, -1e999) for value in values
    ]


def test_a_script_may_ask_for_nothing_that_leaves_a_trace() -> None:
    assert Data(path="/x", operation=SIGN_IN, request=lambda visit: Nothing()).operation is SIGN_IN
    for operation in (BLOB_GET, BLOB_PUT):
        with pytest.raises(TypeError, match="leaves a trace"):
            Data(path="/x", operation=operation, request=lambda visit: Nothing())
