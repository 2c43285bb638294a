"""Who is fit: shown on all rows and in every slice, or not at all."""

import math
from dataclasses import replace

import numpy as np
import pytest

from falaj.base.errors import Invalid
from falaj.optimisation.judging import fewest_rows, harder, judge, surer
from falaj.optimisation.operations.optimisations import Limits
from falaj.optimisation.operations.variants import CertifyVariant, Charged, Group
from falaj.optimisation.operations.words import Measures

ID = "0" * 32
MEASURES = Measures(
    drop=0.0,
    times=2.0,
    rows_per_s=1000.0,
    batch=16,
    p50_ms=1.0,
    p50_low=0.9,
    p50_high=1.1,
    p99_ms=2.0,
    p99_low=1.8,
    p99_high=2.5,
    size=1000,
    memory=1000,
    joules=1.0,
    energy="estimated",
    cost=0.0,
)


def counts(name: str, rows: int, lost: int, won: int) -> Group:
    return Group(name=name, rows=rows, both=rows - lost - won, original=lost, variant=won)


def evidence(*groups: Group) -> CertifyVariant:
    return CertifyVariant(
        project="p",
        optimisation=ID,
        job=ID,
        variant="int8",
        groups=groups,
        agreement=0.99,
        apart=0.01,
        measures=MEASURES,
        original_measures=MEASURES,
    )


def test_a_variant_that_loses_little_is_fit():
    verdict = judge(evidence(counts("", 10_000, 30, 25), counts("a", 5000, 15, 12)), "classes", Limits())
    assert verdict.fit
    assert verdict.reasons == ()
    assert verdict.overall.drop == pytest.approx(0.0005)
    assert verdict.overall.high < 0.005


def test_a_sabotaged_variant_is_refused_with_what_it_lost():
    verdict = judge(evidence(counts("", 1000, 880, 5)), "classes", Limits())
    assert not verdict.fit
    assert "worse by 87.50 points" in verdict.reasons[0]


def test_a_truth_that_says_nothing_of_the_model_certifies_only_what_says_the_same():
    """The original is never right by it, whoever always says the same is on a tenth of the rows."""
    nonsense = replace(evidence(Group(name="", rows=900, neither=900)), guessed=90.0)
    verdict = judge(replace(nonsense, agreement=0.3), "classes", Limits())
    assert not verdict.fit
    assert "tells nothing of the model" in verdict.reasons[0]
    assert judge(replace(nonsense, agreement=0.999), "classes", Limits()).fit
    rare = replace(evidence(counts("", 10_000, 0, 0)), guessed=10_000.0, agreement=1.0)  # one class is nearly all there is
    assert judge(rare, "classes", Limits()).fit


def test_one_slice_that_suffers_is_named_though_all_rows_together_look_well():
    groups = (counts("", 20_000, 60, 50), counts("origin=JFK", 10_000, 10, 40), counts("origin=LGA", 400, 40, 0))
    verdict = judge(evidence(*groups), "classes", Limits())
    assert not verdict.fit
    assert verdict.overall.ok
    assert verdict.worst is not None
    assert verdict.worst.name == "origin=LGA"
    assert "origin=LGA" in verdict.reasons[0]


def test_a_slice_with_too_few_rows_to_show_anything_is_told_how_many_it_takes():
    verdict = judge(evidence(counts("", 20_000, 6, 5), counts("origin=EWR", 20, 0, 0)), "classes", Limits())
    assert not verdict.fit
    assert f"{fewest_rows(0.02, surer(0.95, harder(0))):,} or more" in verdict.reasons[0]


def test_many_slices_are_asked_more_of():
    """What one slice alone would show is not shown where it is the best of fifty."""
    one = counts("s0", 230, 0, 0)
    alone = judge(evidence(counts("", 20_000, 6, 5), one), "classes", Limits())
    many = (counts(f"s{number}", 230, 0, 0) for number in range(50))
    among = judge(evidence(counts("", 20_000, 6, 5), *many), "classes", Limits())
    assert alone.fit
    assert not among.fit


def test_fewest_rows_is_the_border():
    for refused, sure in ((0, 1 - 0.05 * 0.225), (3, 1 - 0.05 * 0.225), (4, 1 - 0.05 / 20), (5, 1 - 0.05 / 60)):
        rows = fewest_rows(0.005, sure)
        assert judge(evidence(counts("", rows, 0, 0)), "classes", Limits(), refused).fit
        few = judge(evidence(counts("", rows - 1, 0, 0)), "classes", Limits(), refused)
        assert f"that takes {rows:,} or more" in few.reasons[0]


def test_however_many_are_tried_on_the_same_rows_the_chance_that_one_is_certified_wrongly_stays():
    """Bad ones, each worse by all that may be lost, with good ones among them that are certified: all draws are seeded."""
    random, lucky, tries = np.random.default_rng(21), 0, 20_000
    for chances in random.random((tries, 40)):
        refused = 0
        for place, chance in enumerate(chances):
            certified = bool(place % 2) or chance <= 0.05 / harder(refused)
            if certified and not place % 2:
                lucky += 1
                break
            refused += not certified
    assert 0.03 < lucky / tries < 0.05 + 3 * math.sqrt(0.05 * 0.95 / tries)
    assert sum(1 / harder(refused) for refused in range(10_000)) < 1


def test_an_answer_that_takes_too_long_is_a_reason_of_its_own():
    verdict = judge(evidence(counts("", 10_000, 3, 2)), "classes", Limits(latency_ms=1.5))
    assert not verdict.fit
    assert "1.5 ms was the bound" in verdict.reasons[0]


def test_a_latency_that_may_be_beyond_the_bound_is_refused_though_it_was_measured_within():
    verdict = judge(evidence(counts("", 10_000, 3, 2)), "classes", Limits(latency_ms=2.2))
    assert not verdict.fit
    assert verdict.reasons == (
        "One answer in a hundred takes longer than 2 ms, and that may be 2.5 ms, where 2.2 ms was the bound.",
    )
    assert judge(evidence(counts("", 10_000, 3, 2)), "classes", Limits(latency_ms=2.5)).fit


def test_numbers_are_judged_by_their_errors():
    good = Group(rows=1000, original_error=100, variant_error=100.1, original_squares=12, variant_squares=12.03, products=12.01)
    assert judge(evidence(good), "numbers", Limits()).fit
    assert not judge(evidence(replace(good, variant_error=110.0)), "numbers", Limits()).fit


@pytest.mark.parametrize(
    "groups",
    [
        (counts("a", 10, 0, 0),),
        (counts("", 10, 0, 0), counts("", 10, 0, 0)),
        (counts("", 10, 0, 0), counts("a", 11, 0, 0)),
        (Group(rows=10, both=3),),
    ],
)
def test_counts_that_cannot_be_are_refused(groups):
    with pytest.raises(Invalid):
        judge(evidence(*groups), "classes", Limits())


def test_a_slice_of_numbers_without_rows_is_too_small_and_not_worse():
    sums = {"original_squares": 20.0, "variant_squares": 20.0, "products": 20.0}
    whole = Group(name="", rows=100, original_error=30.0, variant_error=30.0, **sums)
    found = judge(evidence(whole, Group(name="x=missing", rows=0)), "numbers", Limits())
    (reason,) = found.reasons
    assert reason.startswith("In the slice x=missing there are 0 rows, too few to show a drop of at most 2.00 % of the error")


def of_numbers(name: str, first: list[float], second: list[float]) -> Group:
    return Group(
        name=name,
        rows=len(first),
        original_error=sum(first),
        variant_error=sum(second),
        original_squares=sum(one * one for one in first),
        variant_squares=sum(one * one for one in second),
        products=sum(one * other for one, other in zip(first, second, strict=True)),
    )


def test_two_rows_of_a_slice_of_numbers_certify_nothing_though_they_are_alike():
    errors = [1.0, 1.1] * 500
    found = judge(evidence(of_numbers("", errors, errors), of_numbers("a", [1.0, 1.1], [1.0, 1.1])), "numbers", Limits())
    (reason,) = found.reasons
    assert reason.startswith(
        "In the slice a there are 2 rows, too few to show a drop of at most 2.00 % of the error: that takes 30"
    )


def test_an_original_that_is_never_off_is_said_to_be_so():
    errors, none = [1.0, 1.1] * 500, [0.0] * 200
    same = judge(evidence(of_numbers("", errors, errors), of_numbers("zero", none, none)), "numbers", Limits())
    assert same.fit
    assert same.slices[0].high == 0
    found = judge(evidence(of_numbers("", errors, errors), of_numbers("zero", none, [1e-9] * 200)), "numbers", Limits())
    (reason,) = found.reasons
    assert "In the slice zero what it is held against is never off, and it is by 1e-09 on average" in reason
    assert "inf" not in reason


def test_probabilities_of_a_few_rows_are_too_few_whatever_is_allowed():
    charged = (Charged(by="brier", original=0.2, variant=0.2, squares=0.0),)
    groups = (replace(counts("", 20_000, 6, 5), scores=charged), replace(counts("a", 20, 0, 0), scores=charged))
    found = judge(evidence(*groups), "classes", Limits(max_slice_drop=0.3))
    (reason,) = found.reasons
    assert (
        reason
        == "In the slice a there are 20 rows, too few to judge the Brier score of its probabilities by: that takes 30 or more."
    )


def test_many_classes_of_few_rows_are_no_reason_and_those_that_are_given_up_are_named():
    whole, kept = counts("", 20_000, 6, 5), [counts(f"kept {number}", 12, number % 2, 0) for number in range(90)]
    assert judge(replace(evidence(whole), classes=tuple(kept)), "classes", Limits()).fit
    lost = [counts(f"lost {number}", 12, 12, 0) for number in range(7)]
    found = judge(replace(evidence(whole), classes=(*kept, *lost)), "classes", Limits())
    assert len(found.reasons) == 6
    assert found.reasons[0] == "Of 12 rows of the class lost 0 it has 0 right, the original 12."
    assert found.reasons[-1] == "So it is in 2 more classes."
    with pytest.raises(Invalid, match="do not sum up"):
        judge(replace(evidence(whole), classes=(Group(name="a", rows=10, both=3),)), "classes", Limits())
