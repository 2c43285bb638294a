"""Figures of joined rows, with intervals: by revision and span of time; pure."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from falaj.base.clock import DAY, HOUR, Moment
from falaj.monitoring import scoring
from falaj.monitoring.joined import Joined
from falaj.monitoring.operations.labels import Bucket, Figure, Gap, Span
from falaj.monitoring.scoring import Classes, Kind
from falaj.statistics import fairness, quality
from falaj.statistics.intervals import Interval, mean_of_rows

MOST_GROUPS: Final = 50  # of a slice, those with the most rows
LEAST_OF_A_GROUP: Final = 50  # rows; smaller ones are not even named
LEAST_ROWS: Final = 20  # of a figure that is told: of one row, it would be what that row has
_SPANS: Final[Mapping[Span, int]] = {"hour": HOUR, "day": DAY, "whole": 0}


def begins(at: int, span: Span) -> int:
    """When the span began that a moment lies in; 0 for the whole."""
    seconds = _SPANS[span]
    return at - at % seconds if seconds else 0


def buckets_of(
    rows: Sequence[Joined], span: Span, slices: Sequence[str] = (), positive: str = "", confidence: float = 0.95
) -> list[Bucket]:
    """The newest first. What kind of answers a revision gives, and which chance is of which class, all its rows tell
    together."""
    found = []
    for revision, some in _parted(rows, lambda row: row.revision).items():
        kind, order = scoring.kind_of(some, positive), scoring.order_of(some)
        for start, inside in _parted(some, lambda row: begins(row.at, span)).items():
            first = start or min(row.at for row in inside)
            with np.errstate(over="ignore", invalid="ignore"):  # a sum that is too large is told as infinite, or as none
                found.append(_bucket(revision, first, inside, kind, order, slices, positive, confidence))
    return sorted(found, key=lambda one: (-one.at, -one.revision))


def _bucket(
    revision: int,
    at: int,
    rows: Sequence[Joined],
    kind: Kind,
    order: Sequence[str],
    slices: Sequence[str],
    positive: str,
    confidence: float,
) -> Bucket:
    figures, gaps = list[Figure](), list[Gap]()
    known = scoring.fitting(rows, kind)
    if known and kind == "numbers":
        figures = figures_of_numbers(known, confidence)
        gaps = [gap for column in slices for gap in gaps_of_numbers(known, column, confidence)]
    elif known:
        classes = scoring.classes_of(known, kind, positive, order)
        figures = figures_of_classes(classes, positive, confidence)
        gaps = [gap for column in slices for gap in gaps_of(known, classes, column, positive, confidence)]
    return Bucket(
        revision=revision,
        at=Moment(at),
        rows=len(known) or sum(bool(row.values) for row in rows),
        kind="" if not known else "numbers" if kind == "numbers" else "classes",
        figures=tuple(one for one in (*figures, *_means(rows, confidence)) if one.rows >= LEAST_ROWS),
        gaps=tuple(gaps),
    )


def figures_of_classes(classes: Classes, positive: str = "", confidence: float = 0.95) -> list[Figure]:
    said, true = np.array(classes.predicted), np.array(classes.truth)
    rows = len(true)
    found = [
        _figure("accuracy", quality.accuracy(said, true, confidence), rows),
        _figure("balanced accuracy", quality.balanced_accuracy(said, true, confidence), rows),
        _figure("F1", quality.f1(said, true, confidence), rows),
    ]
    if not classes.told:
        return found
    told = list(classes.told)
    chances, came = np.array(classes.chances, dtype=np.float64), true[told]
    right = np.array([_place(name, classes.order) for name in came])
    watched = positive or _usual_positive(classes)
    if watched in classes.order:
        found.append(
            _figure("AUC", quality.auc(chances[:, classes.order.index(watched)], came == watched, confidence), len(told))
        )
    # A class that the model does not know has had no chance.
    widened = np.concatenate([chances, np.zeros((len(told), 1))], axis=1)
    two = len(classes.order) == 2 and bool((right < 2).all())
    brier = quality.brier(chances[:, 1] if two else widened, right, confidence)
    return [
        *found,
        _figure("log loss", quality.log_loss(widened, right, confidence), len(told)),
        _figure("Brier score", brier, len(told)),
        _figure("calibration error", quality.calibration_error(chances.max(axis=1), said[told] == came, confidence), len(told)),
    ]


def figures_of_numbers(rows: Sequence[Joined], confidence: float = 0.95) -> list[Figure]:
    said, true = scoring.numbers_of(rows)
    return [
        _figure("RMSE", quality.rmse(said, true, confidence), len(true)),
        _figure("MAE", quality.mae(said, true, confidence), len(true)),
        _figure("R2", quality.r2(said, true, confidence), len(true)),
    ]


def gaps_of(rows: Sequence[Joined], classes: Classes, column: str, positive: str = "", confidence: float = 0.95) -> list[Gap]:
    """Between the groups that a column of the inputs tells apart. Small groups are counted, and not named: their names may be
    those of people. Of more than two classes, who is selected can be compared only where `positive` says for what."""
    places, groups = _grouped(rows, column)
    if not places:
        return []
    watched = positive or _usual_positive(classes)
    said, true = (np.array([some[place] for place in places]) for some in (classes.predicted, classes.truth))
    found = fairness.gaps(said, true, groups, positive=watched, least=LEAST_OF_A_GROUP, confidence=confidence)
    return [_gap(column, one, len(places)) for one in found if watched or one.figure == "right"]


def gaps_of_numbers(rows: Sequence[Joined], column: str, confidence: float = 0.95) -> list[Gap]:
    """Of errors, between the same groups."""
    places, groups = _grouped(rows, column)
    if not places:
        return []
    said, true = (some[places] for some in scoring.numbers_of(rows))
    found = fairness.gaps_of_errors(said, true, groups, least=LEAST_OF_A_GROUP, confidence=confidence)
    return [_gap(column, one, len(places)) for one in found]


def _grouped(rows: Sequence[Joined], column: str) -> tuple[list[int], list[str]]:
    """Rows of the groups with the most of them, by their places, and the group of each."""
    named = [row.groups.get(column, "") for row in rows]
    common = {name for name, _ in Counter(name for name in named if name).most_common(MOST_GROUPS)}
    places = [place for place, name in enumerate(named) if name in common]
    return places, [named[place] for place in places]


def _gap(column: str, one: fairness.Gap | fairness.ErrorGap, rows: int) -> Gap:
    return Gap(
        slice=column,
        figure=one.figure,
        lowest=one.lowest,
        highest=one.highest,
        difference=_figure(one.figure, one.difference, rows),
        left_out=(f"{len(one.left_out)} groups of fewer than {LEAST_OF_A_GROUP} rows",) if one.left_out else (),
    )


def _usual_positive(classes: Classes) -> str:
    """Of two classes the second: 1 of 0 and 1, yes of no and yes."""
    kinds = classes.order or tuple(sorted({*classes.predicted, *classes.truth}))
    return kinds[1] if len(kinds) == 2 else ""


def _means(rows: Sequence[Joined], confidence: float) -> list[Figure]:
    """Of what matters to the business."""
    values: dict[str, list[float]] = {}
    for row in rows:
        for name, number in row.values.items():
            values.setdefault(name, []).append(number)
    return [
        _figure(f"mean {name}", mean_of_rows(np.array(some, dtype=np.float64), confidence), len(some))
        for name, some in sorted(values.items())
    ]


def _place(name: str, order: Sequence[str]) -> int:
    return order.index(name) if name in order else len(order)


def _figure(name: str, one: Interval, rows: int) -> Figure:
    return Figure(name=name, at=one.at, low=one.low, high=one.high, rows=rows)


def _parted(rows: Sequence[Joined], key: Callable[[Joined], int]) -> dict[int, list[Joined]]:
    found: dict[int, list[Joined]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found
