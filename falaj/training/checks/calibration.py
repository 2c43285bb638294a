"""Whether probabilities mean what they say, and whether predicted numbers are as spread as the truth."""

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from falaj.statistics.distributions import student_quantile
from falaj.statistics.intervals import Interval
from falaj.training.checks.findings import Finding, Severity
from falaj.training.checks.truth import Judged

CHANCE: Final = 0.01  # how often a calibrated model is said not to be
SMALL: Final = 0.02  # an error that is of no consequence, however sure
LARGE: Final = 0.1
LEAST: Final = 50  # rows
SLOPE: Final = 0.1  # by which the slope of numbers may differ from 1
_BINS: Final = 15
_DRAWS: Final = 1000
_FEW: Final = 20_000  # rows up to which each is drawn by itself


def calibration(judged: Judged, seed: int = 0) -> Iterator[Finding]:
    if len(judged.wrong) < LEAST:
        return
    if not judged.classes:
        yield of_numbers(judged.truth.astype(np.float64), judged.said)
    elif judged.confidence is not None and judged.hit is not None:
        yield of_probabilities(judged.confidence, judged.hit, judged.brier or 0.0, seed)


def of_probabilities(confidence: NDArray[np.float64], hit: NDArray[np.float64], brier: float, seed: int = 0) -> Finding:
    """The expected error over bins of equal size. A calibrated model has one, too: chance's is drawn, and stands beside it."""
    order = np.lexsort((hit, confidence))  # what is drawn must not depend on the order of rows
    confidence, hit = confidence[order], hit[order]
    bins = _bins(confidence)
    counts, said, came = (np.bincount(bins, weights) for weights in (None, confidence, hit))
    error = float(np.abs(said - came).sum() / len(hit))
    random = np.random.default_rng(seed)
    by_chance = np.abs(_drawn(confidence, bins, random) - said).sum(axis=1) / len(hit)
    chance = (1 + int((by_chance >= error).sum())) / (1 + len(by_chance))
    spread = np.sqrt(np.maximum(came * (1 - came / counts), 0.25))
    again = np.abs(random.normal(came, spread, (_DRAWS, len(counts))) - said).sum(axis=1) / len(hit)
    low, high = np.quantile(2 * error - again, [0.025, 0.975])  # drawing again adds chance's own error, taken off so
    interval = Interval(at=error, low=max(0.0, float(low)), high=max(error, min(1.0, float(high))))
    usual = float(by_chance.mean())
    off = chance < CHANCE and error - usual >= SMALL
    severity: Severity = "fine" if not off else "problem" if error - usual >= LARGE else "warning"
    way = "too sure" if np.abs(came - counts / 2).sum() < np.abs(said - counts / 2).sum() else "not sure enough"
    told = f"probabilities are off by {interval} on average, and chance alone makes {usual:.2g}"
    told = f"{told}: they are {way}" if off else f"probabilities mean what they say: {told}"
    figures = {"error": error, "low": interval.low, "high": interval.high, "by_chance": usual, "brier": brier, "chance": chance}
    rows = zip(counts, said / counts, came / counts, strict=True)
    bins_told = tuple({"rows": int(count), "said": float(mean), "came": float(share)} for count, mean, share in rows)
    return Finding(check="calibration", severity=severity, sentence=told, figures=figures, details=bins_told)


def _bins(confidence: NDArray[np.float64]) -> NDArray[np.int64]:
    """Of about equally many rows; equal probabilities are never parted."""
    count = int(np.clip(len(confidence) // 20, 2, _BINS))
    edges = np.unique(np.quantile(confidence, np.linspace(0, 1, count + 1)[1:-1]))
    found: NDArray[np.int64] = np.unique(np.searchsorted(edges, confidence, side="left"), return_inverse=True)[1]
    return found


def _drawn(confidence: NDArray[np.float64], bins: NDArray[np.int64], numbers: np.random.Generator) -> NDArray[np.float64]:
    """How many hits each bin would have if probabilities were true, many times over."""
    if len(confidence) > _FEW:
        wide = np.sqrt(np.bincount(bins, confidence * (1 - confidence)))
        return numbers.normal(np.bincount(bins, confidence), wide, (_DRAWS, len(wide)))
    size = bins[-1] + 1  # sorted by confidence, and so are bins
    starts = np.searchsorted(bins, np.arange(size))
    hits = [
        np.add.reduceat(numbers.uniform(size=len(confidence)) < confidence, starts, dtype=np.float64)
        for _ in range(_DRAWS // 5)
    ]
    return np.array(hits)


def of_numbers(truth: NDArray[np.float64], said: NDArray[np.float64]) -> Finding:
    """The slope of the truth over what was said: below 1, predictions are too extreme; above, too timid. And their bias."""
    rows, centred = len(said), said - said.mean()
    spread = float((centred**2).sum())
    if not spread:
        sentence = f"the same is predicted for all {rows} rows, {said[0]:.4g}"
        return Finding(check="calibration", severity="warning", sentence=sentence, figures={"slope": 0.0})
    slope = float((centred * (truth - truth.mean())).sum()) / spread
    bias = float((said - truth).mean())
    left = truth - truth.mean() - slope * centred
    # Where errors grow with what is predicted, the plain formula is too sure; this one is not (White's).
    sure = float(np.sqrt(((centred * left) ** 2).sum())) / spread * np.sqrt(rows / max(1, rows - 2))
    reach, strict = (student_quantile(1 - chance / 2, max(1, rows - 2)) for chance in (0.05, CHANCE / 2))
    biased = abs(bias) > strict * float(np.std(said - truth, ddof=1)) / np.sqrt(rows)
    large_bias = bool(biased and abs(bias) > 0.1 * float(np.std(truth)))
    off = bool(abs(slope - 1) > strict * sure and abs(slope - 1) > SLOPE)
    interval = Interval(at=slope, low=slope - reach * sure, high=slope + reach * sure)
    told = f"the truth goes up by {interval} where predictions go up by 1; they are {bias:+.4g} off on average"
    words = ["too extreme" if slope < 1 else "too timid"] * off + [f"too {'high' if bias > 0 else 'low'}"] * large_bias
    severity: Severity = "warning" if words else "fine"
    sentence = f"predictions are {' and '.join(words)}: {told}" if words else told
    figures = {"slope": slope, "low": float(interval.low), "high": float(interval.high), "bias": bias}
    return Finding(check="calibration", severity=severity, sentence=sentence, figures=figures)
