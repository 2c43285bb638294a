"""Sketches of one column in a window: small, merged in any order, and read from hosts that may lie."""

import base64
import random
import zlib

import numpy as np
import pytest

from falaj.base.errors import Invalid
from falaj.tables.short_texts import shortened
from falaj.tables.window_sketches import Sketch, joined

RANKS = [place / 20 for place in range(21)]


def numbers(*parts) -> Sketch:
    made = Sketch.of_numbers()
    for part in parts:
        made.add(np.asarray(part))
    return made


def texts(*values: str | None) -> Sketch:
    made = Sketch.of_texts()
    made.add(np.array(values, object))
    return made


def rank_errors(sketch: Sketch, everything) -> float:
    there = np.sort(everything)
    ranks = [np.searchsorted(there, one) / len(there) for one in sketch.quantiles(RANKS)]
    return max(abs(rank - wanted) for rank, wanted in zip(ranks, RANKS, strict=True))


def test_quantiles_are_close_in_few_bytes_whatever_is_merged_and_however_often():
    drawn = np.random.default_rng(7).lognormal(size=200_000)
    parts = np.array_split(drawn, 40)
    for order in range(3):
        mixed = random.Random(order).sample(parts, len(parts))
        whole = joined([numbers(*np.array_split(part, 5)).written() for part in mixed])
        assert rank_errors(whole, drawn) < 0.03
        again = joined([whole.written()])
        assert rank_errors(again, drawn) < 0.035
        assert len(again.written()) < 8000
        assert again.quantiles([0.0, 1.0]) == [drawn.min(), drawn.max()]
        assert abs(again.distinct() - 200_000) < 60_000


def test_few_numbers_are_told_exactly_and_what_is_no_number_is_passed_by():
    sketch = joined([numbers([3.0, np.nan, np.inf, -np.inf]).written(), numbers([1, 2, 2]).written(), numbers().written()])
    assert sketch.quantiles([0, 0.5, 1]) == [1.0, 2.0, 3.0]
    assert (sketch.numbers, sketch.distinct(), sketch.top(5)) == (True, 3, [])
    assert numbers([np.nan]).quantiles(RANKS) == []


def test_frequent_texts_come_first_and_long_ones_are_cut():
    long = "ü" * 1000
    sketch = joined([texts("a", "b", "a", "", None).written(), texts("b", "b", long, "\ud800").written()])
    assert sketch.top(2) == [("b", 3), ("a", 2)]
    assert {text for text, _ in sketch.top(9)} == {"a", "b", shortened(long), "?"}
    assert (sketch.numbers, sketch.distinct(), sketch.quantiles([0.5])) == (False, 4, [])


def test_a_text_that_nobody_repeats_hides_none_that_is_frequent():
    parts = [texts(*["often"] * 100, *(f"{part}-{once}-" + "\U0001f600" * 12 for once in range(900))) for part in range(10)]
    sketch = joined([part.written() for part in parts])
    text, count = sketch.top(1)[0]
    assert (text, 1000 <= count <= 1200) == ("often", True)
    assert abs(sketch.distinct() - 9001) < 2700
    assert len(sketch.written()) < 20_000


def test_a_column_that_is_numbers_here_and_texts_there_stays_what_it_was():
    sketch = joined([numbers([1.0]).written(), texts("a").written()])
    assert (sketch.numbers, sketch.distinct()) == (True, 1)


@pytest.mark.parametrize("written", ["", "garbage", "é", base64.b64encode(b"not compressed").decode(), "QUJD"])
def test_what_is_no_sketch_is_refused(written):
    with pytest.raises(Invalid):
        joined([numbers([1.0]).written(), written])


def test_nothing_is_no_sketch():
    with pytest.raises(Invalid):
        joined([])


def test_a_sketch_that_was_tampered_with_is_refused_or_read_and_harms_nobody():
    chance = random.Random(11)
    for sketch in (numbers(np.random.default_rng(3).normal(size=3000)), texts(*"abcdefg" * 100)):
        content = zlib.decompress(base64.b64decode(sketch.written()))
        for _ in range(1500):
            changed = bytearray(content)
            for _ in range(chance.randint(1, 4)):
                changed[chance.randrange(len(changed))] = chance.randrange(256)
            lie = base64.b64encode(
                zlib.compress(bytes(changed[: chance.choice([len(changed), chance.randrange(len(changed))])]), 1)
            )
            try:
                read = joined([lie.decode(), sketch.written()])
            except Invalid:
                continue
            read.quantiles(RANKS), read.top(5), read.distinct()
            joined([read.written()])


def test_a_bomb_is_not_blown_up():
    with pytest.raises(Invalid):
        joined([base64.b64encode(zlib.compress(bytes(100_000_000))).decode()])
