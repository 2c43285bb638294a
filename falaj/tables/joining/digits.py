"""Sums without rounding: every number is some digits of 32 bits, and digits are added as integers, of which none is lost.

What comes out does not depend on the order of the rows, on the pieces they came in or on the machine: a float64 sum is the one
nearest to the true sum, as `math.fsum` has it. Digit 0 of a float64 is worth 2^-1074 and up, that of an integer 1 and up.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from falaj.base.values import value
from falaj.tables.joining.arrays import Floats, Ints, Mask

_BITS: Final = 32
_DIGIT: Final = (1 << _BITS) - 1
_LOWEST: Final = -1074  # the exponent of the least float64
_Words = npt.NDArray[np.uint64]


@value
class Digits:
    """Of n numbers: the lowest `place` of each, and its digits from there on, each n long and with the number's sign."""

    places: Ints
    digits: tuple[Ints, ...]


def of_floats(values: Floats) -> Digits:
    """Of finite ones."""
    bits = values.view(np.int64)
    exponent = (bits >> 52) & 0x7FF
    mantissa = (bits & ((1 << 52) - 1)) | ((exponent > 0).astype(np.int64) << 52)
    position = np.maximum(exponent, 1) - 1
    shift = position % _BITS
    low = (mantissa & _DIGIT) << shift
    high = ((mantissa >> _BITS) << shift) + (low >> _BITS)
    sign = np.where(bits < 0, -1, 1)
    return Digits(places=position // _BITS, digits=((low & _DIGIT) * sign, (high & _DIGIT) * sign, (high >> _BITS) * sign))


def of_integers(values: npt.NDArray[np.signedinteger | np.unsignedinteger]) -> Digits:
    wide = values.astype(np.uint64 if values.dtype == np.uint64 else np.int64, copy=False)
    low, high = (wide & wide.dtype.type(_DIGIT)).astype(np.int64), (wide >> wide.dtype.type(_BITS)).astype(np.int64)
    return Digits(places=np.zeros(len(wide), np.int64), digits=(low, high))


class Totals:
    """Sums at some slots: what is added from one slot on and taken away from another."""

    def __init__(self, count: int) -> None:
        self._width = count + 1
        self._lowest = 0
        self._sums = np.zeros((0, self._width), np.int64)

    def add(self, numbers: Digits, first: Ints, past: Ints) -> None:
        if not len(first):
            return
        self._make_room(int(numbers.places.min()), int(numbers.places.max()) + len(numbers.digits))
        flat, lines = self._sums.reshape(-1), (numbers.places - self._lowest) * self._width
        for digit in numbers.digits:
            some = np.flatnonzero(digit)
            np.add.at(flat, lines[some] + first[some], digit[some])
            np.subtract.at(flat, lines[some] + past[some], digit[some])
            lines = lines + self._width

    def sums(self) -> "Sums":
        return Sums([np.cumsum(line[:-1]) for line in self._sums], self._lowest, self._width - 1)

    def _make_room(self, lowest: int, past: int) -> None:
        now = self._lowest + len(self._sums)
        if not len(self._sums):
            self._lowest = now = lowest
        below, above = max(0, self._lowest - lowest), max(0, past - now)
        if below or above:
            self._sums = np.concatenate(
                [np.zeros((below, self._width), np.int64), self._sums, np.zeros((above, self._width), np.int64)]
            )
            self._lowest -= below


class Sums:
    """Exact ones, as a sign and digits that are not negative, the lowest first."""

    def __init__(self, lines: list[Ints], lowest: int, count: int) -> None:
        self._lowest, self._count = lowest, count
        self.negative: Mask = _carried(lines, count)[1] < 0
        if self.negative.any():
            lines = [np.where(self.negative, -line, line) for line in lines]
        self._digits, top = _carried(lines, count)
        self._digits.append(top)

    def as_int64(self) -> tuple[Ints, Mask]:
        """Of integers: the sums, and which of them an int64 does not hold."""
        lines = [*self._digits, *([np.zeros(self._count, np.int64)] * 2)]
        low = lines[0].astype(np.uint64) + (lines[1].astype(np.uint64) << np.uint64(_BITS))
        beyond = low > np.where(self.negative, np.uint64(1 << 63), np.uint64((1 << 63) - 1))
        for line in lines[2:]:
            beyond |= line != 0
        sums = low.view(np.int64)
        return np.where(self.negative, -sums, sums), beyond

    def as_float64(self, *, of_floats: bool) -> Floats:
        """Rounded to the nearest, ties to even; beyond the greatest to infinity."""
        high, exponents = self._highest()
        with np.errstate(over="ignore"):
            magnitudes = np.ldexp(high.astype(np.float64), exponents + (_LOWEST if of_floats else 0))
        return np.where(self.negative, -magnitudes, magnitudes)

    def _highest(self) -> tuple[_Words, Ints]:
        """The 64 highest bits from the first that is set, and the exponent of the last of them. That one is set too where a bit
        below is, so that they are rounded as the whole would be."""
        lines = np.concatenate([np.zeros((3, self._count), np.int64), self._digits])
        set_ = lines != 0
        top = np.maximum(len(lines) - 1 - np.argmax(set_[::-1], axis=0), 3)
        all_slots = np.arange(self._count)
        first, second, third = (lines[top - below, all_slots].astype(np.uint64) for below in range(3))
        rest = np.logical_or.accumulate(set_)[top - 3, all_slots]
        missing = (_BITS - np.frexp(first.astype(np.float64))[1]).astype(np.uint64)
        left = np.uint64(_BITS) - missing
        high = ((first << np.uint64(_BITS) | second) << missing) | (third >> left)
        rest |= (third & ((np.uint64(1) << left) - np.uint64(1))) != 0
        return high | rest, (self._lowest + top - 3 - 1) * _BITS - missing.astype(np.int64)


def _carried(lines: list[Ints], count: int) -> tuple[list[Ints], Ints]:
    """Digits between 0 and 2^32, and what is left above them: negative where the number is."""
    digits, carry = [], np.zeros(count, np.int64)
    for line in lines:
        carried = line + carry
        digits.append(carried & _DIGIT)
        carry = carried >> _BITS
    return digits, carry
