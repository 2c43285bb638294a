"""What a keeper hears from inside, where somebody may have taken over who speaks."""

import contextlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from falaj.jobs.running import words

_ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["here", "ended", "code", "words", "memory", "unusable"]), inner, max_size=4)
    ),
    max_leaves=8,
)


def test_what_ours_says_is_understood():
    assert words.read(b'{"here": true}') == {"here": True}
    ended = {"code": 137, "words": "it was ended by signal 9", "memory": 4096}
    assert words.read(json.dumps({"ended": ended}).encode()) == {"ended": ended}


@settings(max_examples=100)
@given(st.binary(max_size=40) | _ANYTHING.map(lambda said: json.dumps(said).encode()))
def test_nothing_that_is_said_inside_brings_the_keeper_down(line):
    with contextlib.suppress(words.NotOurs):
        said = words.read(line)
        assert said.keys() <= {"here", "started", "listening", "unusable", "ended"}
        assert "ended" not in said or 0 <= said["ended"]["code"] <= 255


def test_a_word_without_end_is_cut_and_one_that_is_none_is_refused():
    assert len(words.read(json.dumps({"unusable": "x" * 100_000}).encode())["unusable"]) == 2000
    for line in (b"[" * 100_000, b"{", b"\xff", b"7", b'{"ended": 1}', b'{"ended": {"code": "no", "words": "", "memory": 0}}'):
        with pytest.raises(words.NotOurs):
            words.read(line)
