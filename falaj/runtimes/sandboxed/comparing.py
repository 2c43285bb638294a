"""Held against each other, row by row: what the original answers, and what was made of it."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

TOLERANCE = 1e-3
MANY = 64  # among so many rows one may lie exactly between two labels, and fall either way once numbers are rounded


@dataclass
class Converted:
    """`gaps` say how far its answers are from the original's, row by row; `answers` says what they are, where that is not
    plain."""

    runtime: str
    file: str
    content: bytes
    gaps: Any
    answers: str = ""
    columns: list[str] = field(default_factory=list)

    @property
    def apart(self) -> float:
        return float(self.gaps.max())

    @property
    def beyond(self) -> int:
        """How many rows are further apart than they may be."""
        return int((~(self.gaps <= TOLERANCE)).sum())


def gaps(pairs: Iterable[tuple[Any, Any]]) -> Any:
    """Of each row the widest of all outputs, each given as the original's and ours."""
    found = [_gaps(*pair) for pair in pairs]
    by_row = len({len(one) for one in found}) == 1
    return np.max(np.stack(found), axis=0) if by_row else np.concatenate(found)


def _gaps(original: Any, ours: Any) -> Any:
    """Relative for numbers; 1 for another label."""
    first, second = np.asarray(original), np.asarray(ours)
    second = second.reshape(first.shape) if first.size == second.size else second
    if first.shape != second.shape or not first.size:
        return np.full(1, 0.0 if first.shape == second.shape else np.inf)
    is_number = first.dtype.kind in "fc" or second.dtype.kind in "fc"
    far = (_distances if is_number else _differences)(first, second)
    return far.reshape(len(far), -1).max(axis=1) if far.ndim else far.reshape(1)


def _distances(first: Any, second: Any) -> Any:
    first, second = first.astype(np.float64), second.astype(np.float64)
    same = (first == second) | (np.isnan(first) & np.isnan(second))
    with np.errstate(invalid="ignore"):
        far = np.abs(first - second) / np.maximum(np.abs(first), 1.0)
    return np.where(same, 0.0, np.nan_to_num(far, nan=np.inf))


def _differences(first: Any, second: Any) -> Any:
    differ = first.astype(str) != second.astype(str)
    forgiven = len(differ) >= MANY and differ.sum() == 1 if differ.ndim else False
    return np.zeros(differ.shape) if forgiven else differ.astype(np.float64)
