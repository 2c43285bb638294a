"""Checks of dataset versions on a small platform: counted by data workers behind their walls, recorded, and blind to what the
caller may not see."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from falaj.base.errors import Invalid, NotFound
from falaj.base.ids import new_id
from falaj.database.work import Context
from falaj.datasets.operations import OPERATIONS as DATASETS
from falaj.datasets.operations import classes
from falaj.datasets.workers import DataWorkers
from falaj.governance.gate import Gatekeeper
from falaj.governance.operations import OPERATIONS as GOVERNANCE
from falaj.governance.passes import Passes
from falaj.governance.profiles import PROFILES
from falaj.governance.roles import Role
from falaj.keys.signing import SigningKeys
from falaj.monitoring.checks import CheckService
from falaj.monitoring.drawing import drawn
from falaj.monitoring.operations import checks as declared
from falaj.monitoring.operations.monitors import Wishes
from falaj.monitoring.operations.words import Season
from falaj.monitoring.references import Column, slot_of
from falaj.operations.dispatcher import Call, Dispatcher
from tests.datasets.platform import PROJECT, Platform, arrow

ROWS = 3000
HOURS = [f"{hour:02d}" for hour in range(4, 24)]


@pytest.fixture(scope="module")
def workers() -> Iterator[DataWorkers]:
    opened = DataWorkers(workers=1, memory_bytes=2 << 30, threads=1)
    yield opened
    opened.close()


@pytest.fixture
def platform(tmp_path: Path, workers: DataWorkers) -> Iterator[Platform]:
    opened = Platform(tmp_path, None, workers)
    yield opened
    opened.database.close()


def check(platform: Platform, token: str = "", service: type[CheckService] = CheckService, **fields: object) -> declared.Check:
    """By the platform's dispatcher, with this operation more."""
    gate = Gatekeeper(
        operations=(*GOVERNANCE, *DATASETS, *declared.OPERATIONS),
        profile=PROFILES["solo"],
        passes=Passes(issuer="falaj", keys=SigningKeys(platform.ring)),
    )
    bound = service(platform.room.reading).bindings()
    dispatcher = Dispatcher(database=platform.database, gate=gate, clock=platform.clock, bindings=bound)
    request = declared.CheckVersion(**{"project": PROJECT, "dataset": "flights@2", "reference": "flights@1", **fields})  # type: ignore[arg-type]
    call = Call(credentials=token or platform.owner, request_id=new_id(platform.clock.now()), chunks=None)
    return dispatcher.call(declared.CHECK_VERSION, request, call)


def draw(platform: Platform, names: list[str], wishes: Wishes) -> tuple[Column, ...]:
    """A reference, as whoever may read the dataset is given it."""
    found: list[tuple[Column, ...]] = []

    class Drawing(CheckService):
        def check(self, context: Context, request: declared.CheckVersion) -> declared.Check:
            found.append(drawn(platform.room.reading, context, request.reference, names, wishes).columns)
            return super().check(context, request)

    check(platform, service=Drawing, dataset="flights", reference="flights")
    return found[0]


def rows(seed: int, by: float = 0.0, hours: int = 24) -> bytes:
    random = np.random.default_rng(seed)
    return arrow(
        x=random.normal(size=ROWS) + by,
        y=random.normal(size=ROWS),
        city=random.choice(["Ajman", "Dubai"], ROWS),
        at=pa.array(random.integers(0, hours, ROWS) * 3_600_000_000, pa.timestamp("us", "UTC")),
    )


def test_a_version_is_held_against_another_and_what_was_read_is_on_record(platform: Platform) -> None:
    platform.write(rows(1))
    platform.write(rows(2, by=0.6), mode="overwrite")
    found = check(platform, sampled=500)
    assert (found.dataset, found.reference, found.rows, found.reference_rows) == ("flights@2", "flights@1", ROWS, ROWS)
    assert (found.columns[0].told.column, found.columns[0].told.drifting) == ("x", True)
    assert sum(one.told.drifting for one in found.columns) == 1
    assert found.columns[0].distances["wasserstein"] == pytest.approx(0.6, abs=0.15)
    assert (found.drifting, found.changed, found.uncounted) == (True, (), ("at",))
    assert "1 of 3 columns drifted: x (" in found.sentence
    assert found.together is not None
    assert found.together.columns[0].column == "x"
    (leaf,) = platform.leaves("monitor.check")
    assert (leaf["facts"]["dataset"], leaf["facts"]["reference"]) == ("flights@2", "flights@1")


def test_a_version_against_itself_does_not_drift_and_ignored_columns_are_left_out(platform: Platform) -> None:
    platform.write(rows(1))
    found = check(platform, dataset="flights", reference="flights", ignore=("y",))
    assert not found.drifting
    assert {one.told.column for one in found.columns} == {"x", "city"}
    assert "None of 2 columns drifted" in found.sentence


def test_columns_that_changed_are_told(platform: Platform) -> None:
    platform.write(arrow(a=[1, 2], b=["x", "y"], gone=[1, 2]), dataset="before")
    platform.write(arrow(a=["one", "two"], b=["x", "y"], new=[1.5, 2.5]), dataset="after")
    found = check(platform, dataset="after", reference="before")
    assert {(one.column, one.before, one.after) for one in found.changed} == {
        ("a", "int64", "text"),
        ("gone", "int64", ""),
        ("new", "", "float64"),
    }
    assert ([one.told.column for one in found.columns], found.uncounted) == (["b"], ("a", "gone"))


def test_nothing_is_said_of_columns_that_the_caller_may_not_see(platform: Platform) -> None:
    viewer = platform.person("amal", Role.VIEWER)
    platform.write(rows(1))
    platform.write(rows(2, by=0.6), mode="overwrite")
    hidden = classes.ClassifyColumns(
        project=PROJECT, dataset="flights", columns=(classes.Classified(column="x", kind="personal"),), clear=()
    )
    platform.call(classes.CLASSIFY_COLUMNS, hidden)
    found = check(platform, viewer, sampled=100)
    assert {one.told.column for one in found.columns} == {"y", "city"}
    assert not found.drifting
    assert "x" not in {one.column for one in found.changed} | set(found.uncounted)


def test_a_stranger_and_an_unknown_version_are_refused(platform: Platform) -> None:
    platform.write(rows(1))
    with pytest.raises(NotFound):
        check(platform)
    with pytest.raises(NotFound):
        check(platform, platform.person("badr"), dataset="flights", reference="flights")


@pytest.mark.parametrize(("season", "slots"), [("none", [""]), ("hour", HOURS), ("week", [f"3-{hour}" for hour in HOURS])])
def test_a_reference_is_drawn_by_the_hours_of_its_season(platform: Platform, season: Season, slots: list[str]) -> None:
    """The first of January 1970 was a Thursday, and in Dubai it is four hours later."""
    platform.write(rows(1, hours=20))
    columns = draw(platform, ["x", "city", "at"], Wishes(season=season, time="at", timezone="Asia/Dubai"))
    assert [(one.name, one.settled, one.rows) for one in columns] == [("x", True, ROWS), ("city", True, ROWS)]
    for one in columns:
        assert sorted(one.counts) == slots
        assert {len(counts) for counts in one.counts.values()} == {one.bins}
    sample = {slot_of(hour * 3_600_000_000, season, "Asia/Dubai") for hour in range(20)}
    assert sample == set(slots)


def test_a_season_without_a_column_of_moments_is_refused(platform: Platform) -> None:
    platform.write(rows(1))
    with pytest.raises(Invalid, match="no column of moments 'x'"):
        draw(platform, ["y"], Wishes(season="hour", time="x"))
