"""Rows that ranges are found on: good ones are not spoken of, bad ones are refused with the reason."""

import numpy as np
import pytest

from falaj.optimisation.making.calibrating import examined
from falaj.optimisation.making.values import Sample
from tests.optimisation.making.models import digits, sentences


def rows(count, *, seed=0, shift=0.0, width=5):
    return np.random.default_rng(seed).standard_normal((count, width)).astype(np.float32) + np.float32(shift)


def findings(calibration, selection=None):
    return examined(Sample(inputs=(calibration,)), Sample(inputs=(rows(500, seed=9) if selection is None else selection,)))


@pytest.mark.parametrize("kind", ["numbers", "pictures", "words"])
def test_good_rows_are_not_spoken_of(kind):
    given = {"numbers": (Sample(inputs=(rows(400),)), Sample(inputs=(rows(500, seed=9),))), "words": sentences()[:2]}
    given["pictures"] = digits()[:2]
    found = [one for one in examined(*given[kind]) if one.kind != "constant"]  # corners of pictures are never written on
    assert not any(one.refuses for one in found)
    if kind != "pictures":
        assert found == []


def test_too_few_rows_are_refused():
    (found,) = findings(rows(31))
    assert found.refuses
    assert found.says == "There are 31 rows to calibrate on; at least 32 are needed."


def test_few_rows_are_warned_of():
    (found,) = findings(rows(100))
    assert not found.refuses
    assert "only 100 rows" in found.says


def test_rows_that_are_all_the_same_are_refused():
    found = findings(np.ones((200, 5), np.float32), np.ones((500, 5), np.float32))
    assert [one.refuses for one in found] == [True]
    assert "All rows to calibrate on are the same" in found[0].says


def test_columns_that_never_change_are_named():
    still = rows(200)
    still[:, 2] = 0
    other = rows(500, seed=9)
    other[:, 2] = 0
    (found,) = findings(still, other)
    assert not found.refuses
    assert "1 of 5 columns never change in the rows to calibrate on: column 3" in found.says


def test_an_input_that_never_changes_is_named():
    good = rows(200)
    given = Sample(inputs=(good, np.zeros((200, 1), np.int64)))
    (found,) = examined(given, Sample(inputs=(rows(300, seed=3), np.zeros((300, 1), np.int64))))
    assert found.says == "Input 2 is the same in all rows to calibrate on."


@pytest.mark.parametrize(("share", "refused"), [(0.1, False), (0.9, True)])
def test_values_that_are_missing_are_told_and_refused_where_they_are_most(share, refused):
    holes = rows(400)
    holes[: int(share * 400), 1] = np.nan
    found = next(one for one in findings(holes) if one.kind == "broken")
    assert found.refuses is refused
    assert f"{int(share * 400)} of 400 rows" in found.says
    assert "column 2" in found.says


def test_rows_from_another_distribution_are_refused_with_the_figure():
    found = next(one for one in findings(rows(400, shift=4.0)) if one.kind == "shifted")
    assert found.refuses
    assert "column 1 by 0.9" in found.says or "by 0.9" in found.says


def test_a_small_shift_is_warned_of_with_the_figure():
    found = next(one for one in findings(rows(1500, shift=0.4), rows(1500, seed=9)) if one.kind == "shifted")
    assert not found.refuses
    assert "Kolmogorov-Smirnov distance" in found.says
