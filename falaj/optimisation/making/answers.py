"""What a model's answers mean, found out once from the original, so that every variant is read in the same way.

A model gives scores of classes, the share of one of two, a label, or a number; files do not say which, answers and labels do.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal

import numpy as np

from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.optimisation.making.meanings import Meaning
from falaj.optimisation.making.values import Array

_BINS: Final = 15
_MOST_SHOWN: Final = 6
_FARTHEST: Final = 1e100
Kind = Literal["scores", "share", "logit", "label", "number"]


@value
class Reading:
    """`output` is the one that is read. `classes` are what the numbers of classes stand for, as texts, in order."""

    kind: Kind
    output: int
    classes: tuple[str, ...] = ()

    @property
    def task(self) -> Literal["classes", "numbers"]:
        return "numbers" if self.kind == "number" else "classes"

    @property
    def words(self) -> str:
        shown = ", ".join(self.classes[:_MOST_SHOWN]) + (", ..." if len(self.classes) > _MOST_SHOWN else "")
        which, last = f"Output {self.output + 1}", "".join(self.classes[-1:])
        return {
            "scores": f"{which} holds a score for each of {len(self.classes)} classes ({shown}); the largest wins.",
            "share": f"{which} is the probability of {last}; from one half on it wins.",
            "logit": f"{which} is a score; above 0 it says {last}.",
            "label": f"{which} is the label itself.",
            "number": f"{which} is a number.",
        }[self.kind]

    def numbers(self, outputs: Sequence[Array]) -> Array:
        """One column or several for each row."""
        found = np.asarray(outputs[self.output], dtype=np.float64)
        return found.reshape(len(found), -1)

    def said(self, outputs: Sequence[Array]) -> Array:
        """The number of the class that each row is said to be."""
        if self.kind == "label":
            known = {name: number for number, name in enumerate(self.classes)}
            return np.array([known.get(_text(one), -1) for one in np.asarray(outputs[self.output]).ravel()], dtype=np.int64)
        scores = self.numbers(outputs)
        if self.kind == "scores":
            broken = ~np.isfinite(scores).all(axis=1)
            return np.where(broken, -1, np.argmax(np.where(np.isfinite(scores), scores, -np.inf), axis=1))
        above = scores[:, 0] >= 0.5 if self.kind == "share" else scores[:, 0] > 0
        return np.where(np.isfinite(scores[:, 0]), above.astype(np.int64), -1)

    def probabilities(self, outputs: Sequence[Array], original: Sequence[Array]) -> Array | None:
        """A column for each class; None where the model gives none. Whether scores are shares already, the original's tell:
        in fewer bits they no longer sum up to one."""
        if self.kind in ("label", "number"):
            return None
        scores = self.numbers(outputs)
        if self.kind == "scores":
            return scores if _are_shares(self.numbers(original)) else _softmax(scores)
        share = scores[:, 0] if self.kind == "share" else 1 / (1 + np.exp(-np.clip(scores[:, 0], -500, 500)))
        return np.column_stack([1 - share, share])

    def truth_of(self, labels: Array) -> Array:
        """What a column of labels says, as numbers of classes or as numbers. Raises `Invalid` for a label no class has."""
        if self.kind == "number":
            try:
                return np.asarray(labels, dtype=np.float64).reshape(len(labels), -1)
            except (TypeError, ValueError):
                shown = next((one for one in labels if not isinstance(one, int | float)), labels[0])
                raise Invalid(
                    f"The model answers with a number, and the column with the truth has {str(shown)[:100]!r}: name one of "
                    "numbers, or a model that answers with classes."
                ) from None
        known = {name: number for number, name in enumerate(self.classes)}
        texts = [_text(one) for one in labels]
        if unknown := sorted({one for one in texts if one not in known}):
            raise Invalid(
                f"The labels have {', '.join(map(repr, unknown[:_MOST_SHOWN]))}, and the model answers with the classes "
                f"{', '.join(map(repr, self.classes[:_MOST_SHOWN]))}: name the column that the model was trained on."
            )
        return np.array([known[one] for one in texts], dtype=np.int64)


def read(
    outputs: Sequence[Array],
    names: Sequence[str],
    known: Mapping[str, Sequence[Any]],
    labels: Array | None,
    others: Array | None = None,
    meaning: Meaning = Meaning(),  # noqa: B008 - a frozen value
) -> Reading:
    """From the original's outputs on some rows, what they are called, the classes that it knows of itself by the name of an
    output, and the labels of the rows, where there are any. `others` are labels of further rows: a class may be rare. Raises
    `Invalid` where nobody can tell."""
    if meaning.told == "class numbers":
        return Reading(kind="label", output=0, classes=tuple(map(str, range(meaning.classes))))
    plain = [np.asarray(one) for one in outputs]
    every = labels if labels is None or others is None else np.concatenate([labels, others])
    scored = [place for place, one in enumerate(plain) if one.ndim == 2 and one.shape[1] > 1 and one.dtype.kind in "fiu"]
    if scored and not _is_vector(labels) and meaning.told != "numbers":
        place = scored[-1]
        own = known.get(names[place])
        if not own and labels is None and meaning.told != "scores" and not _are_of_classes(plain, place):
            raise Invalid(_either(plain[place].shape[1]))
        classes = tuple(_text(one) for one in own) if own else _classes(plain, place, every)
        return Reading(kind="scores", output=place, classes=classes)
    single = next((place for place, one in enumerate(plain) if one.dtype.kind == "f" and one.size == len(one)), None)
    distinct = () if every is None else tuple(sorted({_text(one) for one in every}, key=_order))
    if single is not None and len(distinct) > 2 and _are_labels(plain[single], distinct):
        return Reading(kind="label", output=single, classes=distinct)
    if single is not None and labels is not None and len(distinct) == 2 and not _is_real(every):
        values = _finite(plain[single].reshape(-1, 1))
        inside = bool(((values >= 0) & (values <= 1)).all())
        return _either_way(Reading(kind="share" if inside else "logit", output=single, classes=distinct), plain, labels)
    if single is None and plain[0].size == len(plain[0]):
        said = {_text(one) for one in plain[0].ravel()}
        return Reading(kind="label", output=0, classes=tuple(sorted({*distinct, *said}, key=_order)))
    number = Reading(kind="number", output=single if single is not None else (scored[-1] if scored else 0))
    _check_width(number.numbers(plain), labels)
    return number


def _are_of_classes(plain: Sequence[Array], place: int) -> bool:
    """Probabilities, or what stands beside a label."""
    labelled = any(one.size == len(one) and one.dtype.kind != "f" for other, one in enumerate(plain) if other != place)
    return labelled or _are_shares(plain[place])


def _either(width: int) -> str:
    return (
        f"The model gives {width} numbers for each row, which are no probabilities: they may be scores of {width} classes, or "
        f"{width} answers. Name the column with what it should say by --truth: a class for each row, or a list of {width} "
        "numbers."
    )


def _check_width(numbers: Array, labels: Array | None) -> None:
    if labels is None:
        return
    given, wanted = int(np.asarray(labels).size / max(1, len(labels))), numbers.shape[1]
    if given != wanted:
        raise Invalid(
            f"The model gives {wanted} numbers for each row, and the column with the truth has {given}: name one that holds as "
            "many for each row, as a list."
        )


def _either_way(reading: Reading, plain: Sequence[Array], labels: Array) -> Reading:
    """Which of two names is meant by a high number only the labels tell; of 0 and 1 it is 1."""
    if reading.classes == ("0", "1"):
        return reading
    said = reading.said(plain)
    right = (said == reading.truth_of(labels))[said >= 0]
    return reading if 2 * right.sum() >= len(right) else replace(reading, classes=reading.classes[::-1])


def _are_labels(values: Array, distinct: Sequence[str]) -> bool:
    """Whole numbers that are all among the labels: a class by its number, written with a point."""
    found = _finite(values.reshape(-1, 1))
    return bool((found == np.round(found)).all()) and {_text(one) for one in found.ravel()} <= set(distinct)


def _classes(plain: Sequence[Array], place: int, labels: Array | None) -> tuple[str, ...]:
    """Of a table of scores: by the label that the model gives beside it; by the labels there are; or simply counted."""
    width = plain[place].shape[1]
    beside = next((one for other, one in enumerate(plain) if other != place and one.size == len(one)), None)
    counted = tuple(map(str, range(width)))
    if beside is not None:
        known = np.isfinite(plain[place]).all(axis=1)
        paired = {
            int(at): _text(one) for at, one in zip(plain[place].argmax(axis=1)[known], beside.ravel()[known], strict=True)
        }
        if len(paired) == width and len(set(paired.values())) == width:
            return tuple(paired[at] for at in range(width))
    distinct = sorted({_text(one) for one in labels}, key=_order) if labels is not None else []
    if not distinct or set(distinct) <= set(counted):
        return counted
    if len(distinct) == width:
        return tuple(distinct)
    raise Invalid(
        f"The model has {width} classes, and the labels have {len(distinct)} values, such as {distinct[0]!r}: number them from "
        "0, or take rows with all classes."
    )


def calibration_error(probabilities: Array, truth: Array) -> float:
    """How far the confidence in what is said lies from how often that is right, on average (by fifteen bins)."""
    known = np.isfinite(probabilities).all(axis=1)
    probabilities, truth = probabilities[known], truth[known]
    confidence, said = probabilities.max(axis=1, initial=0.0), probabilities.argmax(axis=1) if len(truth) else truth
    bins = np.clip((confidence * _BINS).astype(np.int64), 0, _BINS - 1)
    rows = np.bincount(bins, minlength=_BINS)
    right = np.bincount(bins, weights=(said == truth).astype(np.float64), minlength=_BINS)
    sure = np.bincount(bins, weights=confidence, minlength=_BINS)
    return float(np.abs(right - sure).sum() / max(1, rows.sum()))


def errors(numbers: Array, truth: Array) -> Array:
    """Of each row, over its columns; what is no number counts as far off as anything, and can still be squared and summed."""
    with np.errstate(invalid="ignore", over="ignore"):
        far = np.abs(numbers - truth).mean(axis=1)
    return np.where(np.isfinite(far), np.minimum(far, _FARTHEST), _FARTHEST)


def _text(one: Any) -> str:
    if isinstance(one, bytes):
        return one.decode(errors="replace")
    if isinstance(one, bool | np.bool_):
        return str(int(one))
    return str(int(one)) if isinstance(one, float | np.floating) and float(one).is_integer() else str(one)


def _order(text: str) -> tuple[int, float, str]:
    try:
        return 0, float(text), text
    except ValueError:
        return 1, 0.0, text


def _is_real(labels: Array | None) -> bool:
    """Labels that are measured, not counted."""
    if labels is None or np.asarray(labels).dtype.kind != "f":
        return False
    return not bool((np.asarray(labels) == np.round(np.asarray(labels))).all())


def _is_vector(labels: Array | None) -> bool:
    return labels is not None and np.asarray(labels).ndim > 1


def _finite(scores: Array) -> Array:
    """The rows that tell something: a row that the model has no answer to says nothing of what its answers are."""
    found: Array = scores[np.isfinite(scores).all(axis=1)]
    return found


def _are_shares(scores: Array) -> bool:
    known = _finite(scores)
    inside = bool(((known >= -1e-6) & (known <= 1 + 1e-6)).all())
    return bool(len(known)) and inside and bool((np.abs(known.sum(axis=1) - 1) < 1e-3).all())


def _softmax(scores: Array) -> Array:
    """Of scores that are not finite there are no shares."""
    with np.errstate(invalid="ignore"):
        shifted = np.exp(scores - scores.max(axis=1, keepdims=True))
        found: Array = shifted / shifted.sum(axis=1, keepdims=True)
    return found
