"""What an alert says beyond the columns: what it probably does to accuracy, and what changed upstream of the revision."""

import numpy as np
import pyarrow as pa

from falaj.datasets.operations.features import APPLY_VIEW, MATERIALISE, ApplyView, Materialise
from falaj.monitoring.operations.labels import ADD_LABELS, AddLabels, Label
from falaj.serving.operations.endpoints import CONFIGURE, Configure, Options
from falaj.tables.joining.views import Feature, Key
from tests.monitoring.drift.platform import Watched, answers_to, rows_of
from tests.serving.control.platform import PROJECT, called, live


def spoken(watched: Watched) -> str:
    return " ".join(watched.alerts()["drift"].sentences)


def label_some(watched: Watched) -> None:
    """Predictions as the monitor learnt them, with what turned out to be true."""
    options = Options(log_share=10_000)
    watched.platform.call(CONFIGURE, Configure(project=PROJECT, endpoint="scores", options=options))
    watched.apply()
    watched.learn()
    chances = answers_to(rows_of(5, 400)).astype(float)
    truths = np.random.default_rng(8).random(400) < chances[:, 1]
    calls = [
        called(watched.endpoint, f"c{place}", watched.clock.now(), outputs=f'{{"probabilities": [[{no}, {yes}]]}}')
        for place, (no, yes) in enumerate(chances.tolist())
    ]
    watched.plane.report(calls=calls)
    labels = tuple(Label(id=f"c{place}", truth=int(one)) for place, one in enumerate(truths))
    watched.platform.call(ADD_LABELS, AddLabels(project=PROJECT, endpoint="scores", labels=labels))


def test_where_labels_have_come_the_likely_effect_on_accuracy_is_told_with_what_it_assumes(watched: Watched):
    label_some(watched)
    watched.traffic(rows_of(seed, amount=15) for seed in range(3000, 3006))
    assert "Its likely effect: accuracy about " in spoken(watched)
    assert "unlike" not in spoken(watched)
    assert "assuming that a prediction of a given confidence is right as often as it was" in spoken(watched)


def test_of_rows_beyond_anything_seen_no_effect_is_promised(watched: Watched):
    label_some(watched)
    watched.traffic(rows_of(seed, amount=4000) for seed in range(3000, 3003))
    assert "Its likely effect cannot be estimated: these rows are unlike those that labels are known of." in spoken(watched)
    assert "accuracy about" not in spoken(watched)


def test_views_that_are_looked_up_splits_and_new_revisions_are_named(small: Watched):
    at = pa.array([1_700_000_000_000_000] * 10, pa.timestamp("us", "UTC"))
    small.write(name="people", user=list(range(10)), at=at, age=[float(one) for one in range(10)])
    features = (Feature(name="age", column="age"),)
    view = ApplyView(
        project=PROJECT, view="by-user", dataset="people", keys=(Key(column="user"),), event="at", features=features
    )
    small.platform.call(APPLY_VIEW, view)
    small.platform.call(MATERIALISE, Materialise(project=PROJECT, view="by-user"))
    for _ in range(2):
        small.platform.deploy(small.platform.register(files=small.files).version, features=("by-user",))
    small.apply()
    small.learn(revision=3)
    small.platform.split(live(2, 2000), live(3, 8000))
    small.platform.split(live(2, 1000), live(3, 9000))
    for seed in range(3000, 3003):
        small.window(rows_of(seed, amount=40), revision=3)
    told = spoken(small)
    assert "the view by-user@1 was filled from people@1" in told
    assert "revision 3 (fraud v3) was deployed" in told
    assert told.count("a split by ") == 1
    assert " gave 10 % to revision 2 and 90 % to revision 3 (" in told
    assert "(revision 3 gives 90 % of its answers)" in told


def test_of_a_reference_that_is_traffic_new_versions_of_what_the_model_was_made_from_are_named(small: Watched):
    small.trained_on(small.write(rows_of(1)), small.write(rows_of(2), name="more"))
    small.write(rows_of(3), name="others")
    assert small.apply().watching[0].source == "traffic"
    small.learn()
    for name in ("more", "others"):
        small.write(rows_of(4, amount=40), name=name)
    small.traffic(rows_of(seed, amount=40) for seed in range(3000, 3003))
    told = spoken(small)
    assert "more got version 2 (" in told
    assert "orders got" not in told
    assert "others got" not in told
