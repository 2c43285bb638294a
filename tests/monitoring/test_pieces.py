"""Pieces of a window: the same together in whatever order and parts they come, and nothing that a plane says breaks it."""

import math
import random
from dataclasses import replace

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from falaj.base.clock import Moment
from falaj.monitoring.pieces import Merged, decode, decode_pieces, encode, encode_pieces, merged, rows_of
from falaj.monitoring.references import is_of, new_key, next_key
from falaj.serving.operations.planes import ColumnReport, SampledRow, SketchReport, WatchReport
from falaj.tables.window_sketches import Sketch

KEY = new_key()
COUNTS = st.lists(st.integers(0, 10_000), min_size=4, max_size=4).map(tuple)


def piece(counts: tuple[int, ...], **more: object) -> WatchReport:
    columns = (ColumnReport(name="a", counts=counts), ColumnReport(name="y", output=True, counts=counts[:2]))
    told = {"endpoint": "2" * 32, "revision": 1, "plan": KEY, "at": Moment(0), "seconds": 60, "rows": sum(counts)}
    return WatchReport(**(told | {"columns": columns} | more))  # type: ignore[arg-type]


@given(st.lists(COUNTS, min_size=1, max_size=12), st.randoms())
def test_counts_add_up_to_the_same_in_any_order(counts: list[tuple[int, ...]], order: random.Random):
    told = [piece(one, missed=place) for place, one in enumerate(counts)]
    shuffled = told.copy()
    order.shuffle(shuffled)
    assert merged(0, 60, KEY, told) == merged(0, 60, KEY, shuffled)
    assert merged(0, 60, KEY, told).column("a", is_output=False).counts == tuple(map(sum, zip(*counts, strict=True)))


def test_the_rows_with_the_least_draws_are_kept_whoever_sampled_them():
    rows = [SampledRow(draw=draw, row=f"[{draw}, 0.0]") for draw in np.random.default_rng(1).random(1500).tolist()]
    first, second = piece((1, 1, 1, 1), sampled=tuple(rows[:700])), piece((1, 1, 1, 1), sampled=tuple(rows[700:]))
    kept = merged(0, 60, KEY, [first, second]).sampled
    assert kept == merged(0, 60, KEY, [second, first]).sampled
    assert [one.draw for one in kept] == sorted(one.draw for one in rows)[:1000]


def test_a_plan_of_the_same_reference_is_counted_with_and_one_of_another_is_missed():
    later = next_key(KEY)
    assert is_of(KEY, later)
    assert not is_of(KEY, new_key())
    window = merged(0, 60, later, [piece((1, 2, 3, 4)), piece((5, 5, 5, 5), plan=later), piece((9, 9, 9, 9), plan=new_key())])
    assert (window.rows, window.missed) == (30, 36)
    assert window.column("a", is_output=False).counts == (6, 7, 8, 9)


def test_what_a_plane_makes_up_is_left_out_and_never_breaks_what_is_kept():
    odd = ColumnReport(name="a", counts=(1, 2), total=1e308, squares=1e308)
    told = [
        piece((1, 2, 3, 4), sketches=(SketchReport(name="a", sketch="no sketch"),)),
        piece((0, 0, 0, 0), columns=(odd, odd)),
        piece((0, 0, 0, 0), columns=(odd,)),
    ]
    window = merged(0, 60, KEY, told)
    assert window.column("a", is_output=False).counts == (1, 2, 3, 4)
    assert window.column("a", is_output=False).sketches == ()
    assert math.isfinite(window.column("a", is_output=False).squares)
    assert decode(encode(window)) == window


def test_rows_are_read_by_the_names_of_their_columns_and_what_is_no_row_is_none():
    order = (("a", False), ("b", False), ("y", True))
    texts = ['[1, "x", 0.5]', "[1]", "{}", "nonsense", '[null, "", 0]', "[1e999, 2, 3]"]
    window = Merged(at=0, seconds=60, order=order, sampled=tuple(SampledRow(draw=0.1, row=one) for one in texts))
    assert rows_of(window, ["b", "a", "c"]) == [("x", 1.0, None), (None, None, None), (2.0, None, None)]


def test_sketches_of_all_pieces_are_kept():
    sketch = Sketch.of_numbers()
    sketch.add(np.arange(10.0))
    told = piece((1, 1, 1, 1), sketches=(SketchReport(name="a", sketch=sketch.written()),))
    assert len(merged(0, 60, KEY, [told, replace(told, rows=1)]).column("a", is_output=False).sketches) == 2


@given(st.lists(st.tuples(st.floats(), st.floats(), st.floats(), st.integers(0, 2**62)), min_size=1, max_size=6))
@example([(math.nan, math.nan, math.nan, 2**62)] * 3)
@example([(math.inf, -math.inf, -math.inf, 2**62), (-math.inf, math.inf, math.inf, 2**62)])
def test_numbers_that_are_none_and_counts_beyond_all_belief_are_sealed_merged_and_read_back(
    lies: list[tuple[float, float, float, int]],
):
    told = []
    for total, squares, draw, many in lies:
        column = ColumnReport(name="a", counts=(many, many), finite=many, total=total, squares=squares)
        sampled = (SampledRow(draw=draw, row="[1.0]"),)
        told.append(piece((0, 0, 0, 0), rows=many, missed=many, columns=(column,), sampled=sampled))
    sealed = decode_pieces(encode_pieces(told))
    window = merged(0, 60, KEY, sealed)
    assert window == merged(0, 60, KEY, told)
    assert decode(encode(window)) == window
    one = window.column("a", is_output=False)
    assert math.isfinite(one.total)
    assert 0 <= one.squares < math.inf
    assert max(window.rows, window.missed, one.finite, *one.counts) <= 2**62
    assert all(0 <= row.draw <= 1 for row in window.sampled)
