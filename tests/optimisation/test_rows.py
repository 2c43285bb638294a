"""Rows are told apart by what they hold, not by where they lie: that keeps learnt ones out of judging, and makes digests."""

import hashlib
from typing import Any

import numpy as np
import pytest

from falaj.base.errors import Invalid
from falaj.client.optimising.rows import Rows, digest_of, parted, unseen
from falaj.optimisation.making.values import Sample


def texts(*rows: tuple[str, ...], as_bytes: bool = True) -> np.ndarray:
    """Made anew, value by value, so that no two arrays share one."""
    built: list[list[Any]] = [["".join(list(word)) for word in row] for row in rows]
    return np.array([[word.encode() if as_bytes else word for word in row] for row in built], dtype=object)


def rows_of(*inputs: np.ndarray) -> Rows:
    return Rows(inputs=inputs, labels=None, slices={})


def test_texts_that_were_learnt_from_are_found_among_held_out_rows() -> None:
    learnt = rows_of(texts(("a long word", "b"), ("c", "d")), np.arange(2.0)[:, None])
    held_out = rows_of(texts(("new", "b"), ("c", "d"), ("a long word", "b")), np.array([[0.0], [1.0], [0.0]]))
    kept = unseen(held_out, learnt)
    assert kept.inputs[0].tolist() == [[b"new", b"b"]]
    with pytest.raises(Invalid, match="Hold out rows that are new"):
        unseen(rows_of(texts(("c", "d")), np.array([[1.0]])), learnt)


def test_texts_that_only_look_alike_when_put_together_are_different_rows() -> None:
    learnt = rows_of(texts(("ab", "c"), ("x", "y")))
    assert unseen(rows_of(texts(("a", "bc"), ("x", "y"))), learnt).inputs[0].tolist() == [[b"a", b"bc"]]
    assert digest_of(Sample(inputs=(texts(("ab", "c")),))) != digest_of(Sample(inputs=(texts(("a", "bc")),)))


def test_the_same_texts_have_one_digest_however_often_they_are_read() -> None:
    first, again = (digest_of(Sample(inputs=(texts(("a long word", "b"), ("c", "")),))) for _ in range(2))
    assert first == again
    assert digest_of(Sample(inputs=(texts(("a long word", "b"), ("c", ""), as_bytes=False),))) == first
    assert digest_of(Sample(inputs=(texts(("another word", "b"), ("c", "")),))) != first


def test_numbers_have_the_digest_of_their_bytes() -> None:
    one = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert digest_of(Sample(inputs=(one, one))) == hashlib.sha256(one.tobytes() * 2).hexdigest()


def test_rows_are_left_out_by_what_the_model_takes_and_never_by_their_label() -> None:
    """By their label too, the rows would stay that the original gets wrong."""
    inputs, labels = np.array([[0.0], [0.0], [1.0], [1.0], [2.0]]), np.array([0, 1, 1, 0, 1])
    learnt = Rows(inputs=(np.array([[0.0], [1.0]]),), labels=np.array([0, 1]), slices={})
    assert unseen(Rows(inputs=(inputs,), labels=labels, slices={}), learnt).inputs[0].tolist() == [[2.0]]


def test_rows_that_are_set_apart_look_like_none_that_is_learnt_from() -> None:
    values = np.concatenate([np.arange(500.0), np.zeros(500)])[:, None]
    parts = parted(rows_of(values), None, 7)
    seen = {*parts.training.inputs[0].ravel(), *parts.selection.inputs[0].ravel()}
    assert not seen & set(parts.held_out.inputs[0].ravel())
    assert 100 < parts.held_out.count < 200
    with pytest.raises(Invalid, match="nothing to judge on"):
        parted(rows_of(np.zeros((1000, 1))), None, 7)
