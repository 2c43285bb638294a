"""Canaries judged every second: what sends one back, and how seldom one goes back by mistake."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from falaj.base.clock import SECOND
from falaj.base.errors import Unavailable
from falaj.database.work import Context
from falaj.monitoring.canaries import FALSE_ROLLBACKS, CanaryVerdict, Known, Step, counted_in, judged
from falaj.monitoring.joined import Joined, Said
from falaj.monitoring.labels import LabelService
from falaj.monitoring.losing import Standing
from falaj.monitoring.operations.labels import ADD_LABELS, AddLabels, Label
from falaj.monitoring.store.tables import Found
from falaj.serving.counts import Counts
from falaj.serving.latencies import BUCKETS, bucket_of
from falaj.serving.operations.endpoints import Options
from falaj.serving.operations.words import Steps
from falaj.serving.store import endpoints as endpoint_store
from falaj.serving.verdicts import Trial
from tests.servers.migrating import migrations_as_before
from tests.serving.control.platform import PROJECT, Platform, called, live, said


def trial(candidate: Counts, incumbent: Counts) -> Trial:
    return Trial(
        project="p",
        endpoint="e",
        candidate=2,
        incumbent=1,
        since=0,
        latency_ms=100,
        of_candidate=candidate,
        of_incumbent=incumbent,
    )


def took(**seconds: int) -> Counts:
    """Calls by how many milliseconds they took."""
    latencies = [0] * BUCKETS
    for name, calls in seconds.items():
        latencies[bucket_of(int(name[2:]) / 1000)] += calls
    return Counts(requests=sum(latencies), latencies=tuple(latencies))


def word(candidate: Counts, incumbent: Counts, new: Known | None = None, old: Known | None = None) -> str:
    step = Step(number=1, since=0, new=new or Known(), old=old or Known())
    return judged(trial(candidate, incumbent), [step]).word


@pytest.mark.parametrize(
    ("candidate", "incumbent", "expected"),
    [
        (Counts(), Counts(), "well"),
        (Counts(), Counts(requests=10), "unsure"),
        (Counts(requests=10), Counts(), "well"),
        (Counts(requests=1000, errors=1), Counts(requests=9000, errors=9), "well"),
        (Counts(requests=100, errors=1), Counts(requests=900), "well"),
        (Counts(requests=100, errors=20), Counts(requests=900, errors=9), "worse"),
        (Counts(requests=20, errors=20), Counts(requests=180), "worse"),
        (Counts(requests=1000, errors=10), Counts(requests=9000, errors=900), "well"),
        (Counts(requests=10, errors=10), Counts(), "well"),  # nothing to compare with
        (took(ms400=1000), took(ms10=1000), "worse"),
        (took(ms400=1000), took(ms400=1000), "well"),
        (took(ms400=4, ms10=996), took(ms10=100_000), "well"),  # more than the incumbent, and within the objective
        (took(ms400=200, ms10=800), took(ms10=1000), "worse"),
    ],
)
def test_what_fails_or_is_slow_more_often_than_the_incumbent_is_worse(
    candidate: Counts, incumbent: Counts, expected: str
) -> None:
    assert word(candidate, incumbent) == expected


def test_what_is_wrong_more_often_is_worse_once_labels_say_so() -> None:
    calls = Counts(requests=1000)
    assert word(calls, calls, Known(rows=300, wrong=150), Known(rows=300, wrong=30)) == "worse"
    assert word(calls, calls, Known(rows=300, wrong=33), Known(rows=300, wrong=30)) == "well"
    assert word(calls, calls, Known(rows=300, wrong=150), Known()) == "well"


# What labels say


def joined(answer: float | str, truth: float, unit: str = "", revision: int = 2, at: int = 5) -> Joined:
    return Joined(revision=revision, at=at, unit=unit, said=Said(answer=answer), truth=truth, values={}, groups={})


def test_scores_are_wrong_on_the_other_side_of_a_half() -> None:
    rows = [joined(score, truth, f"{place}") for place, (score, truth) in enumerate([(0.9, 1), (0.2, 1), (0.7, 0), (0.1, 0)])]
    assert counted_in(rows, (0,), Standing()) == ({2: Known(rows=4, wrong=2)},)


def test_numbers_cost_by_how_far_they_are_off_once_it_is_known_how_far_is_usual() -> None:
    rows = [joined(10.5, 10.5, "a"), joined(12.5, 10.5, "b"), joined(1e300, -1e300, "c")]
    assert counted_in(rows, (0,), Standing()) == ({},)
    (found,) = counted_in(rows, (0,), Standing(kind="numbers", scale=2.0))
    assert found[2].rows == 3
    assert found[2].wrong == pytest.approx(1.5)


def test_predictions_whose_caller_chose_the_revision_say_nothing_of_a_canary() -> None:
    rows = [joined("no", 1, "a"), replace(joined("no", 1, "b"), drawn=False)]
    assert counted_in(rows, (0,), Standing()) == ({2: Known(rows=1, wrong=1.0)},)


def test_a_unit_counts_once_in_a_step_by_the_mean_of_its_rows() -> None:
    rows = [joined("yes", 1, "a"), joined("1", 1, "a"), joined("1", 1, "b"), joined("no", 1, "a", at=15)]
    found = counted_in(rows, (0, 10), Standing())
    assert found == ({2: Known(rows=2, wrong=0.5)}, {2: Known(rows=1, wrong=1.0)})
    assert counted_in([joined("no", 1, f"{place}", at=-1) for place in range(3)], (0,), Standing()) == ({},)


def test_numbers_that_are_farther_off_send_a_canary_back_and_it_is_told_how_far() -> None:
    random, usual = np.random.default_rng(11), Standing(kind="numbers", scale=1.0)
    rows = [
        joined(float(error), 0.0, f"{revision}-{place}", revision)
        for revision, spread in ((1, 1.0), (2, 4.0))
        for place, error in enumerate(random.normal(0, spread, 300))
    ]
    (known,) = counted_in(rows, (0,), usual)
    found = judged(
        trial(Counts(requests=300), Counts(requests=300)), [Step(number=1, since=0, new=known[2], old=known[1], numbers=True)]
    )
    assert found.word == "worse"
    assert "Revision 2 was farther off than revision 1" in found.reason


def test_numbers_that_are_no_farther_off_stay_however_often_they_are_looked_at() -> None:
    random, back = np.random.default_rng(2_311_357_666), 0
    for _ in range(100):
        losses = random.beta(0.5, 1.0, (2, 50, 10)).sum(axis=2).cumsum(axis=1)
        words = {
            word(
                Counts(requests=1),
                Counts(),
                Known(rows=10 * at + 10, wrong=losses[0, at]),
                Known(rows=10 * at + 10, wrong=losses[1, at]),
            )
            for at in range(50)
        }
        back += "worse" in words
    assert back <= 1


def test_a_canary_that_is_no_worse_stays_however_often_it_is_looked_at() -> None:
    random = np.random.default_rng(3134536940)
    back = 0
    for _ in range(100):
        new, old = random.integers(0, 20, 200), random.integers(0, 180, 200)
        wrong = random.binomial(new, 0.02).cumsum(), random.binomial(old, 0.02).cumsum()
        rows = new.cumsum(), old.cumsum()
        words = {
            word(
                Counts(requests=int(rows[0][at]), errors=int(wrong[0][at])),
                Counts(requests=int(rows[1][at]), errors=int(wrong[1][at])),
            )
            for at in range(200)
        }
        back += "worse" in words
    assert back <= 1
    assert FALSE_ROLLBACKS <= 1e-3


@pytest.fixture(params=["sqlite", "postgres"])
def platform(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Platform]:
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else ""
    with migrations_as_before():
        opened = Platform(tmp_path, url)
    yield opened
    opened.close()


def test_a_canary_whose_predictions_prove_wrong_goes_back_by_itself(platform: Platform) -> None:
    assert isinstance(platform.app.serving._rollouts._verdict, CanaryVerdict)
    platform.deploy(platform.register().version, options=Options(log_share=10_000))
    endpoint = platform.deploy(1, mode="canary", steps=Steps(shares=(5000, 10_000), seconds=60)).endpoint
    plane = platform.plane()
    platform.clock.forward(SECOND)
    for revision, right in ((1, 190), (2, 20)):
        now = platform.clock.now()
        calls = [
            called(endpoint, f"{revision}-{place}", now, revision=revision, outputs=json.dumps({"y": [1]}))
            for place in range(200)
        ]
        plane.report(said(endpoint, 1, requests=200), said(endpoint, 2, requests=200), calls=calls)
        labels = tuple(Label(id=call.id, truth=float(place < right)) for place, call in enumerate(calls))
        platform.call(ADD_LABELS, AddLabels(project=PROJECT, endpoint="scores", labels=labels))
    platform.step()
    assert platform.show().arms == (live(1),)
    assert "was wrong in 180 of 200 predictions whose truth came" in platform.history()[-1].reason


class Unreadable(LabelService):
    """Whose storage does not answer."""

    def __init__(self) -> None:
        self.tried = 0

    def rows(self, context: Context, endpoint: Found, batches: object) -> list[Joined]:
        self.tried += 1
        raise Unavailable("The storage does not answer.")


def test_labels_that_cannot_be_read_leave_calls_to_decide_and_are_not_asked_for_all_the_time(platform: Platform) -> None:
    platform.deploy(platform.register().version, options=Options(log_share=10_000))
    endpoint = platform.deploy(1, mode="canary", steps=Steps(shares=(5000, 10_000), seconds=60)).endpoint
    plane, now = platform.plane(), platform.clock.now()
    plane.report(calls=[called(endpoint, "one", now, revision=2, outputs=json.dumps({"y": [1]}))])
    label = Label(id="one", truth=1.0)
    platform.call(ADD_LABELS, AddLabels(project=PROJECT, endpoint="scores", labels=(label,)))
    labels, ticks = Unreadable(), [100.0]
    verdict = CanaryVerdict(platform.app.database, labels, lambda: ticks[0])
    row = platform.app.database.read(lambda work: endpoint_store.find_by_id(work, endpoint.id))
    assert row is not None
    asked = replace(trial(Counts(requests=20, errors=20), Counts(requests=180)), endpoint=row.id, project=row.project)
    fine = replace(asked, of_candidate=Counts(requests=20))
    assert [verdict.judge(fine).word, verdict.judge(asked).word] == ["well", "worse"]
    assert labels.tried == 1
    ticks[0] += 31
    assert verdict.judge(fine).word == "well"
    assert labels.tried == 2


def test_an_outage_that_hits_everybody_alike_does_not_send_back_a_canary_that_has_more_of_the_traffic_by_then(
    platform: Platform,
) -> None:
    platform.deployed()
    endpoint = platform.deploy(1, mode="canary", steps=Steps(shares=(100, 5000, 10_000), seconds=60)).endpoint
    plane = platform.plane()
    plane.report(said(endpoint, 1, requests=9900), said(endpoint, 2, requests=100))
    platform.clock.forward(61 * SECOND)
    platform.step()
    platform.clock.forward(20 * SECOND)
    plane.report(said(endpoint, 1, requests=1000, errors=200), said(endpoint, 2, requests=1000, errors=205))
    platform.step()
    assert {arm.revision: arm.share for arm in platform.show().arms} == {1: 5000, 2: 5000}
    platform.clock.forward(10 * SECOND)
    plane.report(said(endpoint, 1, requests=1000, errors=200), said(endpoint, 2, requests=1000, errors=700))
    platform.step()
    assert platform.show().arms == (live(1),)


def test_false_rollbacks_of_all_steps_together_are_no_more_than_was_said() -> None:
    parts = [3 * np.exp(-Step(number=one, since=0).enough) for one in range(1, 10_000)]
    assert sum(parts) <= FALSE_ROLLBACKS
