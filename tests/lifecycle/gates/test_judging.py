"""Judging what was measured: figures in, a finding out, and absence of proof is a no."""

import json
from typing import Any

import pytest

from falaj.base.encoding import canonical
from falaj.lifecycle.gates.definitions import completed
from falaj.lifecycle.gates.judging import judge
from falaj.lifecycle.gates.values import Finding
from falaj.lifecycle.operations.gates import Gate, GroupCount, Sighting, Told
from falaj.optimisation.operations.variants import Group
from falaj.optimisation.operations.words import Measures

QUALITY = completed(Gate(name="quality", kind="quality", on="later", label="left"))
FAIR = completed(
    Gate(
        name="fair",
        kind="fairness",
        on="later",
        label="left",
        groups=("sex",),
        positive="1",
        figures=("selected",),
        max_gap=0.1,
    )
)
LEAKS = completed(Gate(name="apart", kind="leakage", on="later", label="left"))


def counted(rows: int, only_first: int, only_second: int, name: str = "", neither: int = 0) -> Group:
    both = rows - only_first - only_second - neither
    return Group(name=name, rows=rows, both=both, original=only_first, variant=only_second, neither=neither)


def judged(gate: Gate, incumbent: str = "champion v1", **told: Any) -> Finding:
    found = judge(gate, Told(**told), incumbent)
    json.loads(canonical(found.document))  # it can be kept
    return found


def measures(**fields: Any) -> Measures:
    usual: dict[str, Any] = {
        "drop": 0.0,
        "times": 1.0,
        "rows_per_s": 1e4,
        "batch": 8,
        "size": 100,
        "memory": 100,
        "joules": 1.0,
    }
    usual |= dict.fromkeys(("p50_ms", "p50_low", "p50_high", "p99_ms", "p99_low", "p99_high"), 1.0)
    return Measures(**(usual | {"energy": "told", "cost": 0.5} | fields))


def test_one_as_good_passes_and_says_within_what() -> None:
    found = judged(QUALITY, counted=(counted(5000, 20, 21, neither=100), counted(2000, 8, 8, "country=ae")))
    assert found.passed
    assert found.words.startswith("Not worse than champion v1 within 1.00 points over all and 5.00 points in 1 slice")
    assert found.document["overall"]["rows"] == 5000


@pytest.mark.parametrize(
    ("groups", "why"),
    [
        ((counted(5000, 300, 20),), "Over all rows it is worse by 5.60 points"),
        ((counted(50, 0, 0),), "too few to show a drop"),
        ((counted(5000, 20, 20), counted(300, 60, 2, "country=om")), "In the slice country=om it is worse by"),
        ((counted(5000, 20, 20), counted(9, 0, 0, "country=om")), "In the slice country=om there are 9 rows, too few"),
    ],
)
def test_one_that_is_worse_or_not_shown_to_be_as_good_does_not(groups: tuple[Group, ...], why: str) -> None:
    found = judged(QUALITY, counted=groups)
    assert not found.passed
    assert why in found.words


@pytest.mark.parametrize(
    "told",
    [
        {},
        {"counted": (counted(10, 0, 0, "a"),)},
        {"counted": (Group(rows=100, both=10),)},
        {"counted": (counted(100, 0, 0), counted(200, 0, 0, "more"))},
        {"problem": "There was no model."},
        {"task": "numbers", "counted": (Group(rows=100, original_error=float("nan")),)},
    ],
)
def test_what_cannot_be_has_failed(told: dict[str, Any]) -> None:
    assert not judged(QUALITY, **told).passed


def test_the_first_version_of_all_has_to_be_better_than_always_saying_the_same() -> None:
    assert judged(QUALITY, "", counted=(counted(1000, 10, 300),)).passed
    found = judged(QUALITY, "", counted=(counted(1000, 100, 105),))
    assert not found.passed
    assert "not shown to be better than always saying the same" in found.words


def test_a_floor_holds_whatever_stands() -> None:
    floor = completed(Gate(name="quality", kind="quality", on="later", label="left", least=0.9))
    groups = (counted(5000, 10, 10, neither=1000),)
    assert judged(QUALITY, counted=groups).passed
    found = judged(floor, counted=groups)
    assert not found.passed
    assert "It is right on 79.80% of the rows, and 90.00% are needed." in found.words


def test_gaps_between_groups_have_to_be_shown_to_be_small() -> None:
    def groups(**shares: tuple[int, int]) -> tuple[GroupCount, ...]:
        return tuple(
            GroupCount(column="sex", group=name, figure="selected", hits=hits, rows=rows)
            for name, (hits, rows) in shares.items()
        )

    assert judged(FAIR, groups=groups(f=(1000, 5000), m=(1010, 5000))).passed
    wide = judged(FAIR, groups=groups(f=(1000, 5000), m=(2000, 5000)))
    assert "20.0 points apart" in wide.words
    unsure = judged(FAIR, groups=groups(f=(12, 60), m=(12, 60)))
    assert not unsure.passed
    few = judged(FAIR, groups=groups(f=(1000, 5000), m=(1000, 5000), x=(1, 3)))
    assert "fewer than 50 rows to tell how many are selected of: x" in few.words
    assert not few.passed
    assert not judged(FAIR, groups=groups(f=(1000, 5000))).passed
    assert not judged(FAIR).passed
    assert not judged(FAIR, groups=(*groups(f=(10, 100)), *groups(f=(90, 100), m=(10, 100)))).passed
    assert not judged(FAIR, groups=groups(f=(200, 100), m=(100, 100))).passed


def test_a_small_group_in_the_middle_may_be_farther_off_than_the_ends() -> None:
    def count(group: str, hits: int, rows: int) -> GroupCount:
        return GroupCount(column="sex", group=group, figure="selected", hits=hits, rows=rows)

    ends = (count("f", 1000, 5000), count("m", 1010, 5000))
    assert judged(FAIR, groups=ends).passed
    found = judged(FAIR, groups=(*ends, count("x", 12, 60)))
    assert not found.passed
    assert "0.2 points apart (f, m), and may be" in found.words
    assert "x" in found.document["gaps"][0]["farthest"]


def test_latency_is_bounded_by_what_it_may_be_and_not_by_what_was_seen() -> None:
    gate = completed(Gate(name="fast", kind="latency", on="later", p99_ms=2.0, budget=1.0))
    assert judged(gate, measures=measures()).passed
    assert "may be 3 ms" in judged(gate, measures=measures(p99_high=3.0)).words
    assert "A million predictions cost 2" in judged(gate, measures=measures(cost=2.0)).words
    assert not judged(gate, measures=measures(p99_ms=float("nan"), p99_high=float("nan"), cost=float("nan"))).passed
    assert not judged(gate).passed


def test_rows_that_leak_are_told_and_what_was_not_looked_for_has_not_passed() -> None:
    def saw(check: str, severity: Any = "fine") -> Sighting:
        return Sighting(check=check, severity=severity, sentence=f"{check} is {severity}.")

    assert judged(LEAKS, sightings=(saw("leakage.duplicates"), saw("leakage.scaling", "warning"))).passed
    assert judged(LEAKS, sightings=(saw("leakage.duplicates", "problem"),)).words == "leakage.duplicates is problem."
    assert not judged(LEAKS, sightings=(saw("leakage.target"),)).passed
    keyed = completed(Gate(name="apart", kind="leakage", on="later", label="left", keys=("id",)))
    assert not judged(keyed, sightings=(saw("leakage.duplicates"),)).passed
    assert judged(keyed, sightings=(saw("leakage.duplicates"), saw("leakage.keys"))).passed
