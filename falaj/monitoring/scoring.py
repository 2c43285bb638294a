"""Joined rows as what figures are made of: which kind of answers a model gives, what was right, and what each row cost; pure.

The model's answers say of which kind they are, so that no label can turn numbers into classes; a truth that does not fit is
left out.
"""

import sys
from collections import Counter
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from falaj.base.values import value
from falaj.monitoring.joined import Joined, as_kind

Kind: TypeAlias = Literal["classes", "scores", "numbers", ""]
Numbers: TypeAlias = NDArray[np.float64]
_MOST_KINDS: Final = 20  # whole numbers of so many kinds, written as fractions, are classes


@value
class Classes:
    """Rows of a classifier. `order` names the columns of `chances`, which only rows at `told` have."""

    predicted: tuple[str, ...]
    truth: tuple[str, ...]
    order: tuple[str, ...]
    chances: tuple[tuple[float, ...], ...]
    told: tuple[int, ...]


def kind_of(rows: Sequence[Joined], positive: str = "") -> Kind:
    """`scores` are how likely one class is, where a model says nothing else. Where `positive` is named, truths may be texts."""
    known = [row for row in rows if row.truth is not None and row.said.answer is not None]
    if not known:
        return ""
    answers = [row.said.answer for row in known]
    if any(row.said.chances for row in known) or 2 * sum(isinstance(one, int | str) for one in answers) > len(answers):
        return "classes"
    truths = {as_kind(row.truth) for row in known}
    numbers = [float(one) for one in answers if isinstance(one, float)]
    if all(0 <= one <= 1 for one in numbers) and (truths <= {"0", "1"} or positive in truths):
        return "scores" if any(not one.is_integer() for one in numbers) else "classes"
    whole = all(one.is_integer() for one in numbers) and all(_is_whole(row.truth) for row in known)
    return "classes" if whole and len(truths) <= _MOST_KINDS else "numbers"


def fitting(rows: Sequence[Joined], kind: Kind) -> list[Joined]:
    """Those that figures of this kind can be made of."""
    known = [row for row in rows if row.truth is not None and row.said.answer is not None]
    if kind == "scores":
        return [row for row in known if isinstance(row.said.answer, float) and 0 <= row.said.answer <= 1]
    if kind == "numbers":
        return [row for row in known if isinstance(row.said.answer, int | float) and isinstance(row.truth, int | float)]
    return known if kind else []


def classes_of(rows: Sequence[Joined], kind: Kind, positive: str = "", order: Sequence[str] = ()) -> Classes:
    """Of rows that fit. `order` is that of the revision, where these are only some of its rows."""
    if kind == "scores":
        return _of_scores(rows, positive)
    names = tuple(order or order_of(rows))
    told = tuple(place for place, row in enumerate(rows) if names and len(row.said.chances) == len(names))
    return Classes(
        predicted=tuple(as_kind(row.said.answer) for row in rows),
        truth=tuple(as_kind(row.truth) for row in rows),
        order=names,
        chances=tuple(rows[place].said.chances for place in told),
        told=told,
    )


def _of_scores(rows: Sequence[Joined], positive: str) -> Classes:
    yes = positive or "1"
    scores = [float(row.said.answer or 0) for row in rows]
    others = [as_kind(row.truth) for row in rows if as_kind(row.truth) != yes]
    no = Counter(others).most_common(1)[0][0] if others else "0"
    return Classes(
        predicted=tuple(yes if score >= 0.5 else no for score in scores),
        truth=tuple(as_kind(row.truth) for row in rows),
        order=(no, yes),
        chances=tuple((1 - score, score) for score in scores),
        told=tuple(range(len(scores))),
    )


def order_of(rows: Sequence[Joined]) -> tuple[str, ...]:
    """Which class each chance is of, as the answers show: the class that is said where a chance is the largest. None where that
    cannot be told."""
    width = Counter(len(row.said.chances) for row in rows if row.said.chances).most_common(1)
    if not width:
        return ()
    votes: list[Counter[str]] = [Counter() for _ in range(width[0][0])]
    kinds = set()
    for row in rows:
        kinds |= {as_kind(one) for one in (row.truth, row.said.answer) if one is not None}
        if len(row.said.chances) == len(votes) and row.said.answer is not None:
            votes[row.said.chances.index(max(row.said.chances))][as_kind(row.said.answer)] += 1
    named = [vote.most_common(1)[0][0] if vote else "" for vote in votes]
    for usual in ([str(place) for place in range(len(votes))], sorted(kinds) if len(kinds) == len(votes) else []):
        if usual and all(name in ("", expected) for name, expected in zip(named, usual, strict=True)):
            return tuple(usual)
    return tuple(named) if len(set(named)) == len(named) and "" not in named else ()


def numbers_of(rows: Sequence[Joined]) -> tuple[Numbers, Numbers]:
    """Answers and truths of rows that fit."""
    found = np.array([(row.said.answer, row.truth) for row in rows], dtype=np.float64).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def confidences_of(rows: Sequence[Joined]) -> tuple[Numbers, NDArray[np.bool_]]:
    """How sure the model was of each answer whose chances it told, and whether it was right."""
    sure = [row for row in rows if row.truth is not None and row.said.answer is not None and row.said.chances]
    right = [as_kind(row.said.answer) == as_kind(row.truth) for row in sure]
    return np.array([max(row.said.chances) for row in sure], dtype=np.float64), np.array(right, dtype=np.bool_)


def error_of(row: Joined, kind: Kind) -> float | None:
    """What a row cost: 1 for a class that was wrong, or by how much a number was off. None where that is not known."""
    answer, truth = row.said.answer, row.truth
    if answer is None or truth is None or not kind:
        return None
    if kind == "classes":
        return float(as_kind(answer) != as_kind(truth))
    if not isinstance(answer, int | float) or not isinstance(truth, int | float):
        return None
    return float((answer >= 0.5) != (truth >= 0.5)) if kind == "scores" else off_by(float(answer), float(truth))


def off_by(answer: float, truth: float) -> float:
    """Never infinite: one answer that is worse than numbers can say would make sums of all into none."""
    return min(abs(answer - truth), sys.float_info.max)


def _is_whole(one: object) -> bool:
    return isinstance(one, int) or (isinstance(one, float) and one.is_integer())
