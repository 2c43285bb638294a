"""What is concluded of what a test has come to."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.base.clock import Moment
from falaj.monitoring.abtests import standing
from falaj.monitoring.abtests.deciding import FALSE_MISMATCH, Conclusion, Look, concluded, metrics_of
from falaj.monitoring.abtests.designing import arms_of, back_of, shares_of
from falaj.monitoring.abtests.outcomes import Seen, gathered
from falaj.monitoring.abtests.standing import Calls, Standing
from falaj.monitoring.joined import Joined, Said
from falaj.monitoring.operations.abtests import Candidate, Design, Guardrail, Metric
from falaj.serving.operations.words import WHOLE, Arm
from falaj.statistics.intervals import Interval

NOW, LATER = Moment(0), Moment(1)
TWO = Design(candidates=(Candidate(revision=2),))


def stood(design: Design, *windows: dict[int, list[float]], calls: dict[int, Calls] | None = None) -> Standing:
    now = replace(standing.begun(len(metrics_of(design))), calls=calls or {})
    shares = shares_of(design, 1)
    for window in windows:
        units = [Seen(revision=arm, came=one) for arm, some in window.items() for one in some]
        now = replace(now, metrics=tuple(standing.grown(metric, one, units, 1, shares) for metric, one in _each(design, now)))
    return now


def _each(design: Design, now: Standing) -> list[tuple[Metric, standing.Followed]]:
    return list(zip(metrics_of(design), now.metrics, strict=True))


def conclusion(design: Design, now: Standing, at: Moment = NOW) -> Conclusion:
    return concluded(look(design, now), at, LATER)


def look(design: Design, now: Standing) -> Look:
    return Look(design, 1, shares_of(design, 1), now)


def some(right: int, rows: int) -> list[float]:
    return [1.0] * right + [0.0] * (rows - right)


def test_what_was_decided_is_what_the_interval_says() -> None:
    for right in range(0, 101, 4):
        now = stood(TWO, {1: some(50, 100), 2: some(right, 100)}, {1: some(50, 100), 2: some(right, 100)})
        interval, word = look(TWO, now).difference(2), look(TWO, now).word(2)
        expected = "winner" if interval.low > 0 else "loser" if interval.high < 0 else "open"
        assert word == expected


def test_standing_is_written_and_read_as_it_was() -> None:
    now = stood(TWO, {1: some(5, 10), 2: some(9, 10)}, calls={2: Calls(requests=3, errors=1)})
    now = replace(now, out={2: "loser"}, mismatch=True, stride=4)
    assert standing.decode(standing.encode(now)) == now


def test_a_broken_guardrail_goes_before_a_win() -> None:
    design = replace(TWO, guardrails=(Guardrail(of="errors"),))
    calls = {1: Calls(requests=1000, errors=1), 2: Calls(requests=1000, errors=200)}
    now = stood(design, *[{1: some(10, 100), 2: some(90, 100)}] * 4, calls=calls)
    assert conclusion(design, now).state == "broken"
    assert conclusion(design, replace(now, calls={})).state == "won"


def test_a_guardrail_of_calls_holds_while_labels_do_not_fit() -> None:
    design = replace(TWO, guardrails=(Guardrail(of="slow", worst=0.05),))
    calls = {1: Calls(requests=1000, slow=1), 2: Calls(requests=1000, slow=200)}
    now = stood(design, {1: some(5, 10), 2: some(300, 600)}, calls=calls)
    assert look(design, now).mismatch(2)
    assert conclusion(design, now).of == {2: "broken"}
    assert conclusion(design, replace(now, calls={})).of == {2: "mismatch"}


def test_a_guardrail_allows_what_was_allowed() -> None:
    calls = {1: Calls(requests=10_000, errors=100), 2: Calls(requests=10_000, errors=400)}
    for worst, broken in ((0.0, True), (0.01, True), (0.03, False), (0.2, False)):
        design = replace(TWO, guardrails=(Guardrail(of="errors", worst=worst),))
        (found,) = look(design, stood(design, calls=calls)).guarded(2)
        assert (found.broken, found.low > worst) == (broken, broken)
        assert found.harm == pytest.approx(0.03)


def test_candidates_and_guardrails_share_what_may_go_wrong() -> None:
    """So intervals get wider, the more is asked at once."""
    window = {1: some(50, 100), 2: some(60, 100)}
    widths = []
    for design in (
        TWO,
        replace(TWO, guardrails=(Guardrail(of="errors"),)),
        replace(TWO, candidates=(Candidate(revision=2, share=5000), Candidate(revision=3, share=1))),
    ):
        found = look(design, stood(design, window)).difference(2)
        widths.append(found.high - found.low)
    assert widths[0] < widths[1] < widths[2]


def test_of_several_winners_the_surest_is_the_one() -> None:
    design = Design(candidates=(Candidate(revision=2), Candidate(revision=3)))
    now = stood(design, *[{1: some(10, 100), 2: some(80, 100), 3: some(99, 100)}] * 5)
    assert conclusion(design, now).of == {2: "winner", 3: "winner"}
    assert conclusion(design, now).winner == 3


def test_time_that_is_over_ends_what_nobody_could_decide_and_says_why() -> None:
    assert conclusion(TWO, stood(TWO, {1: some(5, 10), 2: some(5, 10)}), LATER).state == "over"
    assert conclusion(TWO, stood(TWO, {1: some(5, 10), 2: some(300, 600)}), LATER).state == "mismatch"
    assert conclusion(TWO, stood(TWO), LATER).state == "over"


def test_a_mismatch_that_goes_away_lets_verdicts_come_again() -> None:
    """As where labels of one arm come first."""
    late = stood(TWO, {2: some(160, 200)})
    assert conclusion(TWO, late).of == {2: "mismatch"}
    both = stood(TWO, {2: some(160, 200)}, {1: some(20, 200)})
    assert conclusion(TWO, both).of == {2: "winner"}


def test_units_as_the_shares_say_are_seldom_called_a_mismatch() -> None:
    design = replace(TWO, candidates=(Candidate(revision=2, share=1000),))
    for rows in (10, 100, 1000, 10_000):
        assert not look(design, stood(design, {1: some(0, 9 * rows), 2: some(0, rows)})).mismatch(2)
    assert FALSE_MISMATCH < 0.01


# Units


def row(unit: str, revision: int = 2, at: int = 10, said: int = 1, truth: object = 1, **values: float) -> Joined:
    return Joined(revision=revision, at=at, unit=unit, said=Said(answer=said), truth=truth, values=values, groups={})  # type: ignore[arg-type]


def test_rows_of_one_unit_count_as_their_mean_and_for_the_arm_that_served_first() -> None:
    rows = [row("a"), row("a", truth=0), row("b", at=5), row("b", revision=1, at=3, truth=0), row("c", revision=9)]
    found = gathered(Metric(), rows, {1, 2}, 0)
    assert found.units == {"a": Seen(revision=2, came=0.5), "b": Seen(revision=1, came=0.0)}
    assert found.crossed == 1


def test_a_caller_that_chose_its_revision_does_not_count() -> None:
    rows = [row("a", truth=0), replace(row("a"), drawn=False), replace(row("b"), drawn=False)]
    assert gathered(Metric(), rows, {1, 2}, 0).units == {"a": Seen(revision=2, came=0.0)}


def test_what_is_not_about_the_metric_or_too_early_does_not_count() -> None:
    spent = Metric(of="value", value="spent", kind="mean")
    rows = [row("a", at=1, spent=3.0), row("b"), row("c", spent=math.nan), row("d", spent=2.0)]
    assert set(gathered(spent, rows, {2}, 5).units) == {"d"}
    texts = [row("a", truth="0.5"), row("b", truth="yes"), row("c", truth=None)]
    assert set(gathered(Metric(of="truth"), texts, {2}, 0).units) == {"a"}


def test_what_lies_outside_the_bounds_counts_as_the_nearest_and_is_told() -> None:
    found = gathered(Metric(of="value", value="x", kind="bounded", high=5.0), [row("a", x=9.0), row("b", x=-1.0)], {2}, 0)
    assert [one.came for one in found.units.values()] == [5.0, 0.0]
    assert found.outside == 2


ANY = st.one_of(st.floats(allow_nan=True, allow_infinity=True), st.integers(-(10**400), 10**400), st.text(max_size=5))


@given(st.lists(st.tuples(st.sampled_from([1, 2]), ANY, ANY, ANY), max_size=30), st.booleans(), st.booleans())
def test_whatever_labels_say_can_be_written_down_and_decided_on(
    rows: list[tuple[int, object, object, object]], ratio: bool, helped: bool
) -> None:
    metric = Metric(of="value", value="x", per="y" if ratio else "", covariate="z" if helped else "", kind="mean")
    design = replace(TWO, metric=metric, least_effect=1.0)
    usual = [row(f"usual-{place}", 1 + place % 2, x=float(place), y=1.0, z=1.0) for place in range(250)]
    wild = [row(f"{place}", arm, x=x, y=y, z=z) for place, (arm, x, y, z) in enumerate(rows)]  # type: ignore[arg-type]
    now = standing.begun(1)
    for some_rows in (usual, wild, usual):
        units = gathered(metric, some_rows, {1, 2}, 0).units.values()
        now = replace(now, metrics=(standing.grown(metric, now.metrics[0], units, 1, shares_of(design, 1)),))
        now = standing.decode(standing.encode(now))
        assert conclusion(design, now).state in ("running", "won", "lost", "same")
        assert look(design, now).difference(2) is not None


# Splits


@given(st.lists(st.integers(1, 9), min_size=1, max_size=9, unique=True))
def test_a_test_has_the_whole_traffic_and_gives_it_back(numbers: list[int]) -> None:
    design = Design(candidates=tuple(Candidate(revision=one + 1) for one in numbers))
    before = (Arm(revision=1, share=WHOLE),)
    arms = arms_of(design, 1, before)
    assert sum(arm.share for arm in arms) == WHOLE
    assert max(arm.share for arm in arms) - min(arm.share for arm in arms) <= len(arms)
    assert back_of(design, 1, before) == before
    assert back_of(design, 1, arms) == before


def test_an_interval_of_bounded_outcomes_lies_within_what_can_be() -> None:
    found = look(TWO, stood(TWO, {1: [1.0], 2: [0.0]})).difference(2)
    assert found == Interval(at=found.at, low=-1.0, high=1.0)
