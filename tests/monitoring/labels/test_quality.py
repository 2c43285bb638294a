"""Figures are what numpy says of the same rows, for each revision and span, with intervals; and no more is told than may be."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from falaj.base.clock import DAY, HOUR
from falaj.base.errors import Forbidden, NotFound
from falaj.governance.identity.operations import CREATE_TOKEN, CreateToken
from falaj.governance.roles import Role
from falaj.monitoring import quality
from falaj.monitoring.operations.labels import ADD_LABELS, READ_QUALITY, AddLabels, Label, ReadQuality
from falaj.monitoring.operations.words import QualityBound
from falaj.serving.operations.endpoints import CONFIGURE, Configure, Options
from tests.monitoring.drift.platform import QUICK, Watched, rows_of
from tests.monitoring.labels.labelled import Labelled, figures
from tests.serving.control.platform import PROJECT, Platform, called

SEED = 20_261_115


def classifier(random: np.random.Generator, rows: int) -> tuple[list[dict[str, object]], np.ndarray, np.ndarray]:
    """Answers with chances, the chances of yes, and truths that come true as often as is said."""
    yes = random.beta(2, 2, rows).round(6)
    truth = np.where(random.random(rows) < yes, "yes", "no")
    answers = [{"label": ["yes" if one >= 0.5 else "no"], "probabilities": [[1 - one, one]]} for one in yes.tolist()]
    return answers, yes, truth


def test_figures_of_classes_are_what_numpy_says(labelled: Labelled):
    answers, yes, truth = classifier(np.random.default_rng(SEED), 600)
    labelled.predicted(answers, truth.tolist())
    (bucket,) = labelled.quality(span="whole").items
    found, said, true = figures(bucket), yes >= 0.5, truth == "yes"
    assert (bucket.kind, bucket.rows, bucket.revision) == ("classes", 600, 1)
    assert found["accuracy"].at == pytest.approx((said == true).mean())
    recalls = [(said == kind)[true == kind].mean() for kind in (True, False)]
    assert found["balanced accuracy"].at == pytest.approx(np.mean(recalls))
    f1 = [2 * ((said == kind) & (true == kind)).sum() / ((said == kind).sum() + (true == kind).sum()) for kind in (True, False)]
    assert found["F1"].at == pytest.approx(np.mean(f1))
    above = yes[true][:, None] - yes[~true][None, :]
    assert found["AUC"].at == pytest.approx((above > 0).mean() + (above == 0).mean() / 2)
    assert found["log loss"].at == pytest.approx(-np.log(np.where(true, yes, 1 - yes)).mean())
    assert found["Brier score"].at == pytest.approx(((yes - true) ** 2).mean())
    assert found["calibration error"].low == 0.0  # it is calibrated
    assert all(one.low <= one.at <= one.high and one.rows == 600 for one in bucket.figures)


def test_figures_of_numbers_are_what_numpy_says_and_so_are_business_values(labelled: Labelled):
    random = np.random.default_rng(SEED + 1)
    truth, spent = random.normal(50, 10, 400), random.exponential(20, 400)
    said = truth + random.normal(0, 2, 400)
    calls = [labelled.call(f"call-{place}", {"y": [[one]]}) for place, one in enumerate(said.tolist())]
    labelled.log(*calls)
    labels = [
        Label(id=f"call-{place}", truth=one, values={"spent": spent.tolist()[place]})
        for place, one in enumerate(truth.tolist())
    ]
    labelled.add(*labels)
    (bucket,) = labelled.quality(span="whole").items
    found, errors = figures(bucket), said - truth
    assert bucket.kind == "numbers"
    assert found["RMSE"].at == pytest.approx(np.sqrt((errors**2).mean()))
    assert found["MAE"].at == pytest.approx(np.abs(errors).mean())
    assert found["R2"].at == pytest.approx(1 - (errors**2).sum() / ((truth - truth.mean()) ** 2).sum())
    assert found["mean spent"].at == pytest.approx(spent.mean())
    assert found["mean spent"].low < 20 < found["mean spent"].high
    assert set(found) == {"RMSE", "MAE", "R2", "mean spent"}


def test_a_model_that_tells_a_score_alone_is_judged_as_a_classifier(small: Labelled):
    random = np.random.default_rng(SEED + 2)
    score = random.random(300)
    truth = (random.random(300) < score).astype(int)
    small.predicted([{"y": [[one]]} for one in score.tolist()], truth.tolist())
    (bucket,) = small.quality(span="whole").items
    found = figures(bucket)
    assert bucket.kind == "classes"
    assert found["accuracy"].at == pytest.approx(((score >= 0.5) == truth).mean())
    assert found["Brier score"].at == pytest.approx(((score - truth) ** 2).mean())


def test_a_score_of_texts_is_judged_once_somebody_says_which_text_it_is_of(small: Labelled):
    small.predicted([{"y": [[one]]} for one in (0.9, 0.8, 0.2, 0.4) * 5], ["churned", "churned", "stayed", "churned"] * 5)
    assert small.quality(span="whole").items[0].figures == ()
    assert "20 truths are no numbers" in small.quality(span="whole").remarks[0]
    found = figures(small.quality(span="whole", positive="churned").items[0])
    assert found["accuracy"].at == 0.75


def test_buckets_are_by_revision_and_by_hour_or_day_of_the_prediction_newest_first(labelled: Labelled):
    labelled.platform.deploy(labelled.platform.register().version)
    for revision, answer in ((1, 1), (1, 0), (2, 1)):
        labelled.predicted([answer] * 20, [1] * 20, revision=revision)
        labelled.clock.forward(HOUR)
    hours = labelled.quality(span="hour").items
    assert [(one.revision, figures(one)["accuracy"].at) for one in hours] == [(2, 1.0), (1, 0.0), (1, 1.0)]
    assert all(one.at % HOUR == 0 for one in hours)
    days = labelled.quality(span="day").items
    assert [(one.revision, one.rows, one.at % DAY) for one in days] == [(2, 20, 0), (1, 40, 0)]
    assert [one.revision for one in labelled.quality(span="day", revision=2).items] == [2]
    labelled.clock.forward(3 * DAY)
    assert labelled.quality(days=1).items == ()


def test_gaps_between_groups_are_told_with_intervals_and_small_groups_are_not_named(small: Labelled):
    random = np.random.default_rng(SEED + 3)
    for city, right, rows in (("Sur", 0.95, 150), ("Nizwa", 0.6, 150), ("Rustaq", 0.5, 3)):
        truth = random.integers(0, 2, rows)
        said = np.where(random.random(rows) < right, truth, 1 - truth)
        small.predicted([{"y": [one]} for one in said.tolist()], truth.tolist(), inputs={"city": [city], "x": [[0.5, 1.5]]})
    (bucket,) = small.quality(span="whole", slices=("city",)).items
    gap = next(one for one in bucket.gaps if one.figure == "right")
    assert (gap.slice, gap.lowest, gap.highest) == ("city", "Nizwa", "Sur")
    assert 0.2 < gap.difference.low < gap.difference.at < 0.5
    assert gap.left_out == ("1 groups of fewer than 50 rows",)
    assert "Rustaq" not in str(small.quality(span="whole", slices=("city",)))
    assert "age" in small.quality(slices=("age",)).remarks[0]


def test_of_numbers_the_errors_of_groups_are_compared(small: Labelled):
    random = np.random.default_rng(SEED + 4)
    for city, spread, rows in (("Sur", 1.0, 150), ("Nizwa", 4.0, 150), ("Rustaq", 90.0, 3)):
        truth = random.normal(50, 20, rows)
        said = truth + random.normal(0, spread, rows)
        small.predicted([{"y": [one]} for one in said.tolist()], truth.tolist(), inputs={"city": [city], "x": [[0.5, 1.5]]})
    found = small.quality(span="whole", slices=("city",))
    (bucket,) = found.items
    assert [(one.figure, one.lowest, one.highest) for one in bucket.gaps] == [
        ("RMSE", "Sur", "Nizwa"),
        ("MAE", "Sur", "Nizwa"),
    ]
    assert 2 < bucket.gaps[0].difference.low < 3 < bucket.gaps[0].difference.high < 4
    assert bucket.gaps[0].left_out == ("1 groups of fewer than 50 rows",)
    assert (found.remarks, "Rustaq" in str(found)) == ((), False)


def test_classes_that_no_chance_is_known_of_cost_what_a_surprise_costs(small: Labelled):
    answers = [{"label": [0], "probabilities": [[0.75, 0.25]]}, {"label": [1], "probabilities": [[0.25, 0.75]]}]
    small.predicted(answers * 10, [0, 2] * 10)
    found = figures(small.quality(span="whole").items[0])
    assert found["log loss"].at == pytest.approx((-np.log(0.75) - np.log(1e-15)) / 2)


def test_more_rows_than_are_looked_at_are_left_out_and_counted(small: Labelled, monkeypatch: pytest.MonkeyPatch):
    for _ in range(3):
        small.predicted([1] * 10, [1] * 10)
    monkeypatch.setattr(quality, "MOST_ROWS", 25)
    found = small.quality(span="whole")
    assert (found.items[0].rows, found.left_out, found.labels) == (20, 10, 30)


def test_an_endpoint_without_labels_has_no_quality_and_says_so(small: Labelled):
    found = small.quality()
    assert (found.items, found.labels, found.unknown) == ((), 0, 0)


def test_what_a_few_rows_have_is_told_nobody(small: Labelled):
    ids = [f"call-{number}" for number in range(20)]
    small.log(*(small.call(id, {"y": [123.5]}) for id in ids))
    for id in ids[:19]:
        small.add(Label(id=id, truth=0.5))
    small.add(Label(id="call-0", values={"spent": 77.0}))
    found = small.quality(span="whole")
    assert [(one.rows, one.figures) for one in found.items] == [(19, ())]
    assert "too few to be told" in found.remarks[0]
    small.add(Label(id="call-19", truth=0.5))
    assert set(figures(small.quality(span="whole").items[0])) == {"RMSE", "MAE", "R2"}


@pytest.mark.parametrize("by", ["what it is held against", "what it was made from"])
def test_groups_are_not_named_by_a_column_that_the_reader_may_not_see(by: str, tmp_path: Path):
    platform = Platform(tmp_path)
    try:
        watched = Watched(platform)
        options = Options(log_share=10_000)
        platform.call(CONFIGURE, Configure(project=PROJECT, endpoint="scores", options=options))
        made = watched.write(rows_of(1, 3000))
        if by == "what it was made from":
            watched.trained_on(made)
        else:
            watched.apply(replace(QUICK, reference="orders"))
        now, ids = platform.clock.now(), [f"call-{number}" for number in range(120)]
        inputs = [json.dumps({"age": [number % 2]}) for number in range(120)]
        told = {"outputs": json.dumps({"y": [1]})}
        watched.plane.report(
            calls=[called(watched.endpoint, id, now, inputs=one, **told) for id, one in zip(ids, inputs, strict=True)]
        )
        labels = tuple(Label(id=id, truth=1) for id in ids)
        platform.call(ADD_LABELS, AddLabels(project=PROJECT, endpoint="scores", labels=labels))
        viewer = platform.person("vera", Role.VIEWER)
        asked = ReadQuality(project=PROJECT, endpoint="scores", span="whole", slices=("age",))
        assert platform.call(READ_QUALITY, asked, viewer).items[0].gaps
        watched.classify("age")
        with pytest.raises(Forbidden, match="You may not see age of 'orders'"):
            platform.call(READ_QUALITY, asked, viewer)
        assert platform.call(READ_QUALITY, replace(asked, slices=()), viewer).items[0].figures
        narrow = platform.call(CREATE_TOKEN, CreateToken(scopes=("monitor.write", "monitor.read"))).token
        gap = QualityBound(figure="gap", slice="age", side="at most", limit=0.1)
        with pytest.raises(Forbidden, match="You may not see age of 'orders'"):
            watched.apply(replace(QUICK, quality=(gap,)), token=narrow)
        assert platform.call(READ_QUALITY, asked).items[0].gaps
    finally:
        platform.close()


def test_another_project_reads_nothing(small: Labelled):
    small.platform.project("other")
    outsider = small.platform.person("eve", Role.ADMIN, project="other")
    request = ReadQuality(project="other", endpoint="scores")
    with pytest.raises(NotFound):
        small.platform.call(READ_QUALITY, request, outsider)
    with pytest.raises(Exception, match=r"default|not"):
        small.platform.call(READ_QUALITY, replace(request, project=PROJECT), outsider)
