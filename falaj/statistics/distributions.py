"""Tails and quantiles of the distributions that tests are judged by, so that nobody needs SciPy for them."""

import math
from statistics import NormalDist
from typing import Final

_ENOUGH: Final = 1e-14
_TERMS: Final = 500


def normal_quantile(share: float) -> float:
    return NormalDist().inv_cdf(share)


def chi_square_tail(value: float, degrees: float) -> float:
    """How often a chi-square variable is at least this large: the upper regularised gamma function."""
    a, x = degrees / 2, value / 2
    if a <= 0 or x <= 0:
        return 1.0
    scale = math.exp(-x + a * math.log(x) - math.lgamma(a))
    if x < a + 1:
        return max(0.0, 1.0 - scale * _gamma_series(a, x))
    return min(1.0, scale * _gamma_fraction(a, x))


def _gamma_series(a: float, x: float) -> float:
    term = total = 1 / a
    for number in range(1, _TERMS + int(8 * math.sqrt(a))):
        term *= x / (a + number)
        total += term
        if term < total * _ENOUGH:
            break
    return total


def _gamma_fraction(a: float, x: float) -> float:
    """Lentz's way with the continued fraction."""
    tiny = 1e-300
    b = x + 1 - a
    c, d = 1 / tiny, 1 / b
    found = d
    for number in range(1, _TERMS + int(8 * math.sqrt(a))):
        step = -number * (number - a)
        b += 2
        d = 1 / (step * d + b or tiny)
        c = b + step / c or tiny
        found *= c * d
        if abs(c * d - 1) < _ENOUGH:
            break
    return found


def kolmogorov_tail(value: float) -> float:
    """How often the Kolmogorov variable, sqrt(n) times the largest distance, is at least this large."""
    if value < 0.2:
        return 1.0
    total = sum(math.copysign(math.exp(-2 * (k * value) ** 2), k % 2 - 0.5) for k in range(1, 101))
    return min(1.0, max(0.0, 2 * total))


def student_quantile(share: float, degrees: float) -> float:
    """Of Student's distribution, for a share above one half."""
    low, high = 0.0, 2.0
    while student_tail(high, degrees) > 1 - share:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if student_tail(middle, degrees) > 1 - share else (low, middle)
    return (low + high) / 2


def student_tail(value: float, degrees: float) -> float:
    """How often Student's variable is at least this large."""
    half = _beta_below(degrees / (degrees + value * value), degrees / 2, 0.5) / 2
    return half if value > 0 else 1 - half


def _beta_below(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):  # where the fraction converges slowly, the other side does not
        return 1 - _beta_below(1 - x, b, a)
    front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    tiny = 1e-300
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1) or tiny)
    found = d
    for m in range(1, _TERMS):
        for step in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / (1 + step * d or tiny)
            c = 1 + step / c or tiny
            found *= c * d
        if abs(c * d - 1) < _ENOUGH:
            break
    return math.exp(front) * found / a
