"""Held against SciPy, which comes with scikit-learn in the environment of the tests."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from falaj.statistics.distributions import chi_square_tail, kolmogorov_tail, student_quantile, student_tail

FEW = settings(max_examples=50)
CLOSE = {"rel": 1e-8, "abs": 1e-12}


@FEW
@given(st.floats(0, 3000), st.integers(1, 1500))
def test_the_tail_of_chi_square_is_that_of_scipy(value, degrees):
    assert chi_square_tail(value, degrees) == pytest.approx(stats.chi2.sf(value, degrees), **CLOSE)


@FEW
@given(st.floats(0, 5))
def test_the_tail_of_kolmogorov_is_that_of_scipy(value):
    assert kolmogorov_tail(value) == pytest.approx(special.kolmogorov(value), **CLOSE)


@FEW
@given(st.floats(0.55, 0.9995), st.floats(1, 500))
def test_the_quantile_of_student_is_that_of_scipy(share, degrees):
    assert student_tail(-share * 3, degrees) == pytest.approx(stats.t.sf(-share * 3, degrees), **CLOSE)
    assert student_quantile(share, degrees) == pytest.approx(stats.t.ppf(share, degrees), rel=1e-7)


def test_tails_are_whole_at_the_edges():
    assert chi_square_tail(0, 3) == 1.0
    assert kolmogorov_tail(0) == 1.0
    assert np.isclose(chi_square_tail(1e5, 3), 0.0)
