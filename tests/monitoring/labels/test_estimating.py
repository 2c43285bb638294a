"""Accuracy is known before labels are, where confidences drift and what they mean does not."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from falaj.base.clock import HOUR
from falaj.base.values import value
from falaj.database.work import UnitOfWork
from falaj.monitoring import estimating
from falaj.monitoring.operations.labels import ADD_LABELS, READ_QUALITY, AddLabels, Label, Quality, ReadQuality
from falaj.monitoring.plane import frames
from falaj.monitoring.plane.frames import CONFIDENCE
from falaj.monitoring.references import Column, edges_of
from falaj.serving.operations.endpoints import CONFIGURE, Configure, Options
from falaj.statistics.estimation import Estimate
from falaj.tables.bin_counts import count_bins
from tests.monitoring.drift.platform import Watched, answers_to, rows_of
from tests.monitoring.labels.labelled import Labelled
from tests.serving.control.platform import PROJECT, Platform, called

SEED = 31
EDGES = edges_of(np.linspace(0.5, 1.0, 21).tolist())
COLUMN = Column(name=CONFIDENCE, is_output=True, edges=EDGES, settled=True)


@value
class Drawn:
    """Chances, how sure they are, and whether each was right: less often than is said, for the model is too sure of itself."""

    answers: list[dict[str, object]]
    sure: np.ndarray
    right: np.ndarray


def drawn(random: np.random.Generator, rows: int, sharpness: float) -> Drawn:
    sure = 0.5 + 0.5 * random.beta(sharpness, 2, rows)
    right = random.random(rows) < 0.5 + 0.8 * (sure - 0.5)
    answers = [{"label": [1], "probabilities": [[1 - one, one]]} for one in sure.tolist()]
    return Drawn(answers=answers, sure=sure, right=right)


def estimate(labelled: Labelled, sure: np.ndarray, column: Column = COLUMN, revision: int = 1) -> Estimate | None:
    counts = count_bins(sure, column.edges).tolist() if column.edges else []

    def read(work: UnitOfWork) -> Estimate | None:
        room = labelled.platform.app.monitoring
        return room.estimating.of(labelled.context(work), labelled.row(work), revision, column, counts)

    return labelled.platform.app.database.read(read)


def test_planes_call_it_so():
    assert frames.CONFIDENCE == CONFIDENCE


def test_the_estimate_is_close_to_the_truth_when_confidences_drift(labelled: Labelled):
    random = np.random.default_rng(SEED)
    before = drawn(random, 1500, 4.0)
    labelled.predicted(before.answers, [int(one) for one in before.right])
    later = drawn(random, 4000, 1.0)
    found = estimate(labelled, later.sure)
    assert found is not None
    assert found.accuracy.at == pytest.approx(later.right.mean(), abs=0.04)
    assert found.accuracy.low < later.right.mean() < found.accuracy.high
    assert found.change.high < 0
    assert found.reference.at == pytest.approx(before.right.mean())


def test_nothing_is_estimated_from_too_few_labels_or_of_anything_else(small: Labelled):
    random = np.random.default_rng(SEED + 1)
    some = drawn(random, estimating.LEAST_ROWS - 1, 4.0)
    small.predicted(some.answers, [int(one) for one in some.right])
    assert estimate(small, some.sure) is None
    one = drawn(random, 1, 4.0)
    small.predicted(one.answers, [1])
    assert estimate(small, some.sure) is not None
    assert estimate(small, some.sure, revision=2) is None
    assert estimate(small, some.sure, replace(COLUMN, name="y[0]")) is None
    assert estimate(small, some.sure, replace(COLUMN, is_output=False)) is None
    assert estimate(small, np.array([])) is None


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    platform = Platform(tmp_path)
    yield Watched(platform)
    platform.close()


def test_spans_without_labels_are_told_with_an_estimate_and_what_it_assumes(watched: Watched):
    platform, random = watched.platform, np.random.default_rng(SEED + 2)
    platform.call(CONFIGURE, Configure(project=PROJECT, endpoint="scores", options=Options(log_share=10_000)))
    watched.apply()
    watched.learn()
    chances = answers_to(rows_of(5, 400)).astype(float)
    truth = (random.random(400) < chances[:, 1]).astype(int)
    calls = [
        called(watched.endpoint, f"c{place}", watched.clock.now(), outputs=f'{{"probabilities": [[{no}, {yes}]]}}')
        for place, (no, yes) in enumerate(chances.tolist())
    ]
    watched.plane.report(calls=calls)
    labels = tuple(Label(id=f"c{place}", truth=int(one)) for place, one in enumerate(truth))
    platform.call(ADD_LABELS, AddLabels(project=PROJECT, endpoint="scores", labels=labels))
    watched.clock.forward(HOUR)
    shifted = rows_of(6, 500, amount=60.0)
    watched.window(shifted)
    found: Quality = platform.call(READ_QUALITY, ReadQuality(project=PROJECT, endpoint="scores", span="hour"))
    newest, labelled = found.items[0], found.items[-1]
    assert [one.name for one in newest.figures] == ["estimated accuracy"]
    assert (newest.rows, newest.kind, newest.at % HOUR) == (500, "", 0)
    assert "accuracy" in {one.name for one in labelled.figures}
    expected = answers_to(shifted).max(axis=1).mean()  # the model is as often right as it says
    assert newest.figures[0].at == pytest.approx(expected, abs=0.06)
    assert newest.figures[0].low <= expected <= newest.figures[0].high
    assert "no concept drift" in found.remarks[0]
