"""Catching up: what was materialised before, with those entities brought up to date that a survey names, is what materialising
everything gives; and nothing changes by itself before the moment that a survey names."""

import random
from datetime import timedelta

import pyarrow as pa

from falaj.base.errors import Invalid
from falaj.tables.joining.materialising import materialised
from falaj.tables.joining.surveying import Since, surveyed
from falaj.tables.joining.training_sets import Source
from tests.tables.joining.cases import START, made
from tests.tables.joining.oracle import bits, microseconds

Values = dict[tuple[object, ...], tuple[object, ...]]


def values(source: Source, at: int, entities: pa.Table | None = None) -> Values:
    keys = len(source.view.keys)
    rows = [
        tuple(bits(one) for one in row.values())
        for table in materialised(source, at=at, entities=entities)
        for row in table.to_pylist()
    ]
    return {row[:keys]: row[keys:] for row in rows}


def test_catching_up_with_later_pieces_and_moments_is_materialising_everything() -> None:
    compared, spared = 0, 0
    for seed in range(50):
        random_ = random.Random(seed)
        case = made(random_)
        first = microseconds(START + timedelta(minutes=random_.choice((0, 5, 20, 40, 70))))
        second = first + random_.choice((0, 1, 60_000_000, 600_000_000, 3_600_000_000))
        for source in case.sources:
            pieces = random_.randint(1, len(source.pieces))
            before = Source(view=source.view, pieces=source.pieces[:pieces])
            try:
                kept, whole = values(before, first), values(source, second)
                survey = surveyed(source, at=second, since=Since(at=first, pieces=pieces))
                changed = values(source, second, survey.entities)
            except Invalid:  # a sum beyond 64 bits
                continue
            assert kept | changed == whole
            everything = surveyed(source, at=second)
            assert (survey.newest, survey.changes) == (everything.newest, everything.changes)
            compared, spared = compared + len(whole), spared + len(whole) - len(changed)
    assert compared > 300
    assert spared > 60


def test_nothing_changes_by_itself_before_the_moment_that_is_said_and_something_may_then() -> None:
    looked, turned = 0, 0
    for seed in range(50):
        random_ = random.Random(seed)
        at = microseconds(START + timedelta(minutes=random_.choice((0, 5, 20, 40))))
        for source in made(random_).sources:
            changes = surveyed(source, at=at).changes
            if changes is None:
                continue
            try:
                now = values(source, at)
                assert values(source, changes - 1) == now
                turned += values(source, changes) != now
            except Invalid:
                continue
            looked += 1
    assert looked > 15
    assert turned > 5
