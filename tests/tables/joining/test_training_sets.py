"""The join against nested loops, on thousands of small cases."""

import itertools
import random
from typing import Any

import pytest

from falaj.base.errors import Invalid
from falaj.tables.joining import distincts, latest, rows, training_sets
from falaj.tables.joining.training_sets import training_set
from tests.tables.joining.cases import Case, made
from tests.tables.joining.oracle import bits, expected


def joined(case: Case) -> list[dict[str, Any]]:
    tables = list(training_set(case.labels, time="t", sources=case.sources))
    return [row for table in tables for row in table.to_pylist()]


def agree(case: Case, where: object) -> int:
    """How many values were compared. Sums beyond 64 bits are refused, by nested loops as well."""
    wanted = expected(case.plain_labels, "t", case.plain_views)
    beyond = any(
        isinstance(row[feature.name], int) and not -(2**63) <= row[feature.name] < 2**63
        for view, _ in case.plain_views
        for feature in view.features
        if feature.function == "sum"
        for row in wanted
    )
    if beyond:
        with pytest.raises(Invalid, match="beyond what an int64 holds"):
            joined(case)
        return 0
    found = joined(case)
    assert len(found) == len(wanted), where
    for one, other in zip(found, wanted, strict=True):
        assert {name: bits(value) for name, value in one.items()} == {name: bits(value) for name, value in other.items()}, where
    return sum(len(row) for row in wanted)


@pytest.fixture
def tiny_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks, passes and what is held are all so small that every case has many."""
    monkeypatch.setattr(rows, "BLOCK_ROWS", 5)
    monkeypatch.setattr(training_sets, "_FEWEST", 4)
    monkeypatch.setattr(training_sets, "_bytes_for_each", lambda _: training_sets.MEMORY)
    monkeypatch.setattr(latest, "_SPARE", 3)
    monkeypatch.setattr(distincts, "_WAITING", 3)


def test_the_join_agrees_with_nested_loops() -> None:
    compared = sum(agree(made(random.Random(seed)), seed) for seed in range(300))
    assert compared > 100_000


@pytest.mark.usefixtures("tiny_pieces")
def test_the_join_agrees_with_nested_loops_in_many_pieces() -> None:
    compared = sum(agree(made(random.Random(seed)), seed) for seed in range(10_000, 10_090))
    assert compared > 50_000


def test_the_cases_are_worth_something() -> None:
    """Ties, late arrivals and nulls are in them, and most labels see something."""
    seen = hidden = tied = 0
    for seed in range(60):
        case = made(random.Random(seed))
        for (view, rows_), row in itertools.product(case.plain_views, case.plain_labels):
            mine = [one for one in rows_ if all(one[key.column] == row[key.in_labels] is not None for key in view.keys)]
            known = [(one[view.event], one[view.known or "__known"]) for one in mine]
            pairs = [pair for pair in known if None not in pair and row["t"] is not None and pair[0] <= row["t"]]
            seen += any(pair[1] <= row["t"] for pair in pairs)
            hidden += any(pair[1] > row["t"] for pair in pairs)
            tied += len(pairs) > len(set(pairs))
    assert min(seen, hidden, tied) > 500
