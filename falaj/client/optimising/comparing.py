"""A variant held against its original on the same rows: how much worse it is, on how many rows they agree, slice by slice."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.optimisation.making.answers import Reading, calibration_error, errors
from falaj.optimisation.making.parity import distance
from falaj.optimisation.making.scores import certain, charged
from falaj.optimisation.making.values import Array, CannotBeMade
from falaj.optimisation.operations.variants import FARTHEST, Charged, Group
from falaj.optimisation.operations.words import MOST_GROUPS, ScoreKind

_NEARLY_ALL: Final = 0.99
_NEAR: Final = 0.01
_MISREAD: Final = 0.8  # of what guessing would have right: below that, answers are rather misread than bad


@value
class Seen:
    """What was counted of one variant: of all rows and each slice, and of each class."""

    groups: tuple[Group, ...]
    classes: tuple[Group, ...]
    agreement: float
    apart: float
    calibration_error: float


class Comparison:
    """With an original on some rows; what it said and what is true is worked out once. Where nobody knows the truth, the
    original is right: of classes; of numbers, it is as far off as its answers lie from their mean. Rows of numbers tell
    something where what the original says and the truth are finite: an error without end would outweigh all others. Raises
    `Invalid` where none does."""

    def __init__(self, reading: Reading, original: Sequence[Array], truth: Array | None) -> None:
        self._reading = reading
        self._numbers = reading.task == "numbers"
        self._known = truth is not None
        self._original = original
        self._beside: list[int] = []
        if self._numbers:
            said = reading.numbers(original)
            self._truth = said if truth is None else truth
            self._telling: Array = np.isfinite(np.hstack([said, self._truth])).all(axis=1)
            if not self._telling.any():
                raise Invalid("There is no row for which the original gives a finite number and the truth is one.")
            self._errors = errors(said, said[self._telling].mean(axis=0) if truth is None else truth)
        else:
            self._telling = np.ones(len(original[0]), dtype=bool)
            self._beside = [place for place in range(len(original)) if self._is_label(place, original)]
            self._said = reading.said(original)
            self._truth = self._said if truth is None else truth
            self._right = self._said == self._truth
            self._charges = self._charged(original)
        self._others = [
            place
            for place, one in enumerate(original)
            if place not in (reading.output, *self._beside) and np.asarray(one).dtype.kind in "fiu"
        ]

    @property
    def score(self) -> float:
        """The original's: its share of right answers, or its mean error."""
        return float((self._errors if self._numbers else self._right)[self._telling].mean())

    @property
    def original_calibration_error(self) -> float:
        return self._calibration_error(self._original)

    @property
    def guessed(self) -> float:
        """What whoever always says the same would have: rows that are right, or the sum of errors; -1 where nobody knows the
        truth."""
        if not self._known:
            return -1.0
        if not self._numbers:
            return float(np.unique(self._truth, return_counts=True)[1].max(initial=0))
        truth = self._truth[self._telling]
        return float(errors(truth, np.median(truth, axis=0)).sum())

    def doubts(self) -> tuple[str, ...]:
        """What people have to know of the comparison itself."""
        found, rows = [], len(self._telling)
        if silent := int((~self._telling).sum()):
            found.append(
                f"{silent:,} of {rows:,} held-out rows are not judged: what the original says to them, or the truth, is not "
                "finite."
            )
        commonest = 0.0 if self._numbers else self.guessed / rows
        if self.score < _MISREAD * commonest:
            found.append(
                f"The original is right on {self.score:.1%} of the held-out rows, and always saying the commonest class on "
                f"{commonest:.1%}: look whether its answers are read as they are meant, and by the right column."
            )
        if others := ", ".join(str(place + 1) for place in self._others):
            found.append(
                f"Output {self._reading.output + 1} alone is judged: of output {others}, certificates say how far it is apart."
            )
        return tuple(found)

    def drop(self, outputs: Sequence[Array]) -> float:
        self._check(outputs)
        if self._numbers:
            base = float(self._errors[self._telling].mean())
            return float(self._variant_errors(outputs)[self._telling].mean()) / base - 1 if base > 0 else 0.0
        return float(self._right.mean() - self._are_right(outputs).mean())

    def changes(self, outputs: Sequence[Array]) -> float:
        """The share of other rows whose answer will be another, about. Few of a few hundred are, but all tell how far it moves
        what leads. What an original has learnt from it is surer of than of other rows, where leads are taken to be spread
        evenly. -1 where nothing tells."""
        shares = [self._reading.probabilities(one, self._original) for one in (self._original, outputs)]
        if self._numbers or shares[0] is None or shares[1] is None:
            return -1.0
        leads, left = (_lead(one, self._said) for one in shares if one is not None)
        return float(np.clip(np.nan_to_num(leads - left, nan=1.0), 0.0, 1.0).mean())

    def seen(self, outputs: Sequence[Array], slices: Mapping[str, Array]) -> Seen:
        self._check(outputs)
        group = self._counted(outputs)
        groups = [group("", self._telling)]
        for names in slices.values():
            groups += [group(name, self._telling & (names == name)) for name in sorted(set(names.tolist()))]
        far = distance(self._plain(self._original), self._plain(outputs))
        beside = [distance(self._original[place], outputs[place]) for place in self._others]
        same = self._near(outputs) if self._numbers else self._all_say(outputs, self._said)
        return Seen(
            groups=tuple(groups),
            classes=() if self._numbers else tuple(self._by_class(outputs)),
            agreement=float(same.mean()),
            apart=min(max(float(one.max(initial=0.0)) for one in (far, *beside)), float(FARTHEST)),
            calibration_error=self._calibration_error(outputs),
        )

    def _by_class(self, outputs: Sequence[Array]) -> Iterator[Group]:
        """The commonest classes, where there are more than can be told."""
        right = self._are_right(outputs)
        found, rows = np.unique(self._truth[self._truth >= 0], return_counts=True)
        for number in sorted(found[np.argsort(-rows, kind="stable")][:MOST_GROUPS].tolist()):
            are = self._truth == number
            yield _of_answers(self._reading.classes[number], self._right[are], right[are], ())

    def _near(self, outputs: Sequence[Array]) -> Array:
        """Whether numbers are the original's, within a hundredth of how far those lie from their mean, column by column; where
        they are all the same, within a hundredth of that."""
        said, given = self._reading.numbers(self._original), self._reading.numbers(outputs)
        known = said[np.isfinite(said).all(axis=1)]
        spread = np.abs(known - known.mean(axis=0)).mean(axis=0)
        wide = np.where(spread > 0, spread, np.abs(known).mean(axis=0))
        with np.errstate(invalid="ignore"):
            near = np.abs(said - given) <= _NEAR * wide
        found: Array = (near | (said == given) | (np.isnan(said) & np.isnan(given))).all(axis=1)
        return found

    def _are_right(self, outputs: Sequence[Array]) -> Array:
        return self._all_say(outputs, self._truth)

    def _all_say(self, outputs: Sequence[Array], classes: Array) -> Array:
        """Whether the scores and every label beside them say this class."""
        found: Array = self._reading.said(outputs) == classes
        for place in self._beside:
            found &= _labels(self._reading, outputs[place]) == classes
        return found

    def _is_label(self, place: int, original: Sequence[Array]) -> bool:
        """Of another output than the one that is read: whether it names the class that this one says."""
        one = np.asarray(original[place])
        if place == self._reading.output or one.size != len(one) or one.dtype.kind == "f":
            return False
        return bool((_labels(self._reading, one) == self._reading.said(original)).mean() > _NEARLY_ALL)

    def _plain(self, outputs: Sequence[Array]) -> Array:
        if self._reading.kind == "label":
            return self._reading.said(outputs).astype(np.float64)[:, None]
        return self._reading.numbers(outputs)

    def _check(self, outputs: Sequence[Array]) -> None:
        shapes, wanted = [one.shape for one in outputs], [one.shape for one in self._original]
        if shapes != wanted:
            raise CannotBeMade(f"it answers with shapes {shapes}, and the original with {wanted}")

    def _variant_errors(self, outputs: Sequence[Array]) -> Array:
        found = errors(self._reading.numbers(outputs), self._truth)
        return found if self._known else found + self._errors

    def _counted(self, outputs: Sequence[Array]) -> Callable[[str, Array], Group]:
        """Counts of the rows that are named."""
        if self._numbers:
            far = self._variant_errors(outputs)
            return lambda name, rows: _of_errors(name, self._errors[rows], far[rows])
        right, charges = self._are_right(outputs), self._charged(outputs)

        def count(name: str, rows: Array) -> Group:
            pairs = [(by, self._charges[by][rows], mine[rows]) for by, mine in charges.items()]
            return _of_answers(name, self._right[rows], right[rows], tuple(_charge(*pair) for pair in pairs))

        return count

    def _charged(self, outputs: Sequence[Array]) -> Mapping[ScoreKind, Array]:
        probabilities, original = (self._reading.probabilities(one, self._original) for one in (outputs, self._original))
        if probabilities is None or original is None:
            return {}
        return charged(probabilities, certain(self._truth, original.shape[1]) if self._known else original)

    def _calibration_error(self, outputs: Sequence[Array]) -> float:
        probabilities = self._reading.probabilities(outputs, self._original)
        return -1.0 if probabilities is None or not self._known else calibration_error(probabilities, self._truth)


def _of_errors(name: str, first: Array, second: Array) -> Group:
    return Group(
        name=name,
        rows=len(first),
        original_error=float(first.sum()),
        variant_error=float(second.sum()),
        original_squares=float((first * first).sum()),
        variant_squares=float((second * second).sum()),
        products=float((first * second).sum()),
    )


def _of_answers(name: str, first: Array, second: Array, scores: tuple[Charged, ...]) -> Group:
    return Group(
        name=name,
        rows=len(first),
        both=int((first & second).sum()),
        original=int((first & ~second).sum()),
        variant=int((~first & second).sum()),
        neither=int((~first & ~second).sum()),
        scores=scores,
    )


def _charge(by: ScoreKind, original: Array, variant: Array) -> Charged:
    apart = variant - original
    return Charged(by=by, original=float(original.sum()), variant=float(variant.sum()), squares=float((apart * apart).sum()))


def _lead(shares: Array, classes: Array) -> Array:
    """Of these classes before the best of the others."""
    rows, others = np.arange(len(shares)), shares.copy()
    others[rows, classes] = -np.inf
    found: Array = shares[rows, classes] - others.max(axis=1)
    return found


def _labels(reading: Reading, output: Array) -> Array:
    return replace(reading, kind="label", output=0).said([output])
