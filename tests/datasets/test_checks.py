"""Checks: what breaks one is quarantined with the rows that did it, and what was published before stays current."""

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

from falaj.base.clock import DAY, HOUR, Moment
from falaj.base.errors import Conflict, Forbidden, Invalid, NotFound, Unavailable
from falaj.datasets.operations import checks, reading, tidying, versions, writing
from falaj.datasets.operations.checks import Check
from falaj.governance.roles import Role
from tests.datasets.platform import CSV, PROJECT, Platform, arrow

ROWS = [(1, "well", 0.5), (2, "channel", 1.5), (3, "field", 2.5)]
BAD = b"id,name,score\n4,dam,99\n5,weir,3\n"
IN_RANGE = Check(name="score-in-range", kind="range", columns=("score",), least=0, most=10)


def declare(platform: Platform, *rules: Check, dataset: str = "flights", token: str = "") -> checks.Checks:
    return platform.call(checks.SET_CHECKS, checks.SetChecks(project=PROJECT, dataset=dataset, checks=rules), token)


def check(platform: Platform, word: str = "current", token: str = "", **fields: Any) -> checks.Checked:
    request = checks.CheckVersion(project=PROJECT, dataset="flights", version=word, **fields)
    return platform.call(checks.CHECK_VERSION, request, token)


def one(word: str) -> versions.OneVersion:
    return versions.OneVersion(project=PROJECT, dataset="flights", version=word)


def broken(found: checks.Checked) -> dict[str, int]:
    return {outcome.finding.check: outcome.finding.rows for outcome in found.outcomes if outcome.broken}


def quarantined(platform: Platform, content: bytes = BAD, **fields: Any) -> versions.Version:
    """One version that is current, and one behind it that is not."""
    platform.write(CSV)
    declare(platform, IN_RANGE)
    return platform.write(content, **fields)


def test_a_version_that_breaks_a_check_is_quarantined_and_the_last_good_one_stays_current(platform: Platform) -> None:
    version = quarantined(platform)
    assert (version.version, version.quarantined, version.current, version.rows, version.parent) == (2, True, False, 5, 1)
    assert [(one.check, one.rows, one.severity) for one in version.findings] == [("score-in-range", 1, "fail")]
    assert version.findings[0].says == "score must be at least 0 and at most 10"
    assert platform.dataset().current == 1
    assert platform.rows() == ROWS
    found = platform.call(checks.SHOW_FINDINGS, one("quarantined"))
    assert (found.version, found.passed, found.outcomes[0].examples) == (2, False, ((4, "dam", 99.0),))
    assert platform.leaves("dataset.commit")[-1]["facts"]["broken"] == ["score-in-range"]
    assert "dam" not in str(platform.leaves("dataset.findings"))
    good = platform.write(b"id,name,score\n6,pump,1\n")
    assert (good.version, good.parent, good.quarantined, good.findings) == (3, 1, False, ())
    assert platform.rows() == [*ROWS, (6, "pump", 1.0)]


@pytest.mark.parametrize("mode", ["append", "overwrite", "merge", "delete"])
def test_every_way_to_write_is_checked_as_a_whole_before_it_counts(small: Platform, mode: str) -> None:
    small.write(CSV)
    declare(
        small, Check(name="few", kind="sql", sql="SELECT id FROM flights WHERE id = 7 OR (SELECT count(*) FROM flights) < 3")
    )
    given = {"merge": {"keys": ("id",)}, "delete": {"where": "id = 1"}}.get(mode, {})
    pieces = [] if mode == "delete" else [b"id,name,score\n7,dam,1\n"]
    assert small.write(*pieces, mode=mode, **given).quarantined  # type: ignore[arg-type]
    assert small.rows() == ROWS
    good = {"delete": []}.get(mode, [b"id,name,score\n8,dam,1\n9,a,1\n10,b,1\n"])
    given = {"delete": {"where": "id = 99"}}.get(mode, given)
    assert not small.write(*good, mode=mode, **given).quarantined  # type: ignore[arg-type]


def test_a_warning_is_told_and_stops_nothing(platform: Platform) -> None:
    platform.write(CSV)
    declare(platform, Check(name="low", kind="range", columns=("score",), most=2, severity="warn"))
    version = platform.write(b"id,name,score\n4,dam,1\n")
    assert (version.current, version.quarantined) == (True, False)
    assert [(one.check, one.rows) for one in version.findings] == [("low", 1)]
    assert platform.version().findings == version.findings
    with pytest.raises(NotFound, match="not in quarantine"):
        platform.call(checks.SHOW_FINDINGS, one("current"))


def test_what_is_in_quarantine_is_looked_at_and_not_handed_to_programs(small: Platform) -> None:
    quarantined(small)
    assert small.query('SELECT max(score) FROM "flights@2"').rows == ((99.0,),)
    preview = reading.Preview(project=PROJECT, dataset="flights", version="quarantined")
    assert len(small.call(reading.PREVIEW, preview).rows) == 5
    assert broken(check(small, "quarantined")) == {"score-in-range": 1}
    assert small.version("2").quarantined
    for attempt in (lambda: small.grant("2"), lambda: small.restore("2"), lambda: small.tag("good", "2")):
        with pytest.raises(Conflict, match="quarantine"):
            attempt()
    with pytest.raises(Invalid, match="no tag"):
        small.tag("quarantined", "1")


def test_a_version_is_released_by_somebody_who_may_and_is_current_then(platform: Platform) -> None:
    scientist, engineer = platform.person("amal", Role.SCIENTIST), platform.person("badr", Role.ENGINEER)
    quarantined(platform)
    with pytest.raises(Forbidden):
        platform.call(checks.RELEASE_VERSION, one("2"), scientist)
    released = platform.call(checks.RELEASE_VERSION, one("2"), engineer)
    assert (released.version, released.mode, released.rows, released.current) == (3, "release", 5, True)
    assert platform.rows()[3:] == [(4, "dam", 99.0), (5, "weir", 3.0)]
    with pytest.raises(NotFound, match="then it was released under another number"):
        platform.call(checks.RELEASE_VERSION, one("2"), engineer)
    with pytest.raises(NotFound, match="quarantine"):
        platform.call(checks.SHOW_FINDINGS, one("quarantined"))
    with pytest.raises(Conflict, match="is published"):
        platform.call(checks.RELEASE_VERSION, one("3"), engineer)


def test_what_was_appended_is_released_behind_what_came_since_and_anything_else_is_a_conflict(small: Platform) -> None:
    quarantined(small)
    replaced = small.write(b"id,name,score\n1,well,77\n", mode="merge", keys=("id",))
    assert replaced.quarantined
    small.write(b"id,name,score\n6,pump,1\n")
    assert small.call(checks.RELEASE_VERSION, one("2")).rows == 6
    assert [row[0] for row in small.rows()] == [1, 2, 3, 6, 4, 5]
    with pytest.raises(Conflict, match="came after"):
        small.call(checks.RELEASE_VERSION, one("3"))


def test_a_first_version_can_be_quarantined_and_released(small: Platform) -> None:
    small.open()
    declare(small, IN_RANGE)
    assert small.write(BAD).quarantined
    with pytest.raises(NotFound, match="no version yet"):
        small.rows()
    assert small.call(checks.RELEASE_VERSION, one("quarantined")).current
    assert len(small.rows()) == 2


def test_a_version_that_is_dropped_leaves_nothing_and_what_is_current_stays(platform: Platform) -> None:
    before = platform.objects()
    platform.write(CSV)
    kept = platform.objects()
    declare(platform, IN_RANGE)
    platform.write(BAD)
    assert len(platform.objects()) > len(kept) > len(before)
    platform.call(checks.DROP_VERSION, one("2"))
    platform.clock.forward(DAY)
    platform.room.step(platform.clock.now())
    platform.collector.step(platform.clock.now())
    assert platform.objects() == kept
    assert platform.rows() == ROWS
    with pytest.raises(NotFound, match="released under another number, or dropped"):
        platform.query('SELECT * FROM "flights@2"')


def test_a_dataset_that_is_deleted_takes_its_evidence_along(small: Platform) -> None:
    quarantined(small)
    small.delete()
    small.clock.forward(DAY)
    while small.room.step(small.clock.now()):
        pass
    small.collector.step(small.clock.now())
    assert small.objects() == set()


def test_pruning_leaves_what_waits_in_quarantine(small: Platform) -> None:
    quarantined(small)
    small.write(b"id,name,score\n6,pump,1\n", mode="overwrite")
    small.write(b"id,name,score\n7,pump,1\n", mode="overwrite")
    pruned = small.call(tidying.PRUNE_VERSIONS, tidying.PruneVersions(project=PROJECT, dataset="flights", keep=1))
    assert pruned.versions == (1, 3)
    assert small.query('SELECT count(*) FROM "flights@2"').rows == ((5,),)


def test_the_same_commit_again_answers_the_same(small: Platform) -> None:
    small.write(CSV)
    declare(small, IN_RANGE)
    write = small.open()
    small.send(write, BAD)
    first = small.commit(write)
    assert small.commit(write) == first
    assert first.quarantined


AT = [Moment.parse("2026-11-15T08:00:00Z"), Moment.parse("2026-11-14T08:00:00Z"), None]
TABLE = arrow(
    id=[1, 2, 2],
    name=["a", "b", None],
    ratio=[0.5, float("nan"), None],
    at=pa.array(AT, pa.timestamp("us", "UTC")),
    city=["Dubai", "Al Ain", "dubai"],
    a_b=["it's", "x", None],
)


@pytest.mark.parametrize(
    ("rule", "rows"),
    [
        (Check(name="c", kind="range", columns=("id",), least=1, most=2), 0),
        (Check(name="c", kind="range", columns=("id",), most=1), 2),
        (Check(name="c", kind="range", columns=("id", "ratio"), least=0.6), 2),
        (Check(name="c", kind="range", columns=("at",), least="2026-11-15T00:00:00Z"), 1),
        (Check(name="c", kind="set", columns=("city",), values=("Dubai", "Al Ain")), 1),
        (Check(name="c", kind="set", columns=("a_b",), values=("it's", "x")), 0),
        (Check(name="c", kind="set", columns=("id",), values=(1,)), 2),
        (Check(name="c", kind="unique", columns=("id",)), 2),
        (Check(name="c", kind="unique", columns=("id", "name")), 0),
        (Check(name="c", kind="nulls", columns=("name",)), 1),
        (Check(name="c", kind="nulls", columns=("name",), share=0.34), 0),
        (Check(name="c", kind="nulls", columns=("name", "id"), share=0.33), 1),
        (Check(name="c", kind="fresh", columns=("at",), seconds=2 * HOUR // 1_000_000), 0),
        (Check(name="c", kind="fresh", columns=("at",), seconds=60), 1),
        (Check(name="c", kind="refers", columns=("city",), dataset="cities", references=("name",)), 1),
        (Check(name="c", kind="refers", columns=("id",), dataset="flights", references=("id",)), 0),
        (Check(name="c", kind="sql", sql="SELECT f.id FROM flights f JOIN cities ON cities.name = f.city -- theirs\n;"), 2),
        (Check(name="c", kind="sql", sql="SELECT 1 WHERE false"), 0),
    ],
)
def test_rows_that_break_a_check_are_counted(small: Platform, rule: Check, rows: int) -> None:
    small.write(arrow(name=["Dubai", "Al Ain"]), dataset="cities")
    small.write(TABLE)
    declare(small, rule)
    found = check(small)
    assert broken(found) == ({"c": rows} if rows else {}), found
    assert found.passed is (rows == 0)
    assert not found.outcomes[0].detail
    assert bool(found.outcomes[0].examples) is (rows > 0)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (Check(name="c", kind="sql", sql="SELECT nothing FROM flights"), "nothing"),
        (Check(name="c", kind="sql", sql="SELECT * FROM read_csv('/etc/passwd')"), "read_csv"),
        (Check(name="c", kind="range", columns=("city",), least=5), "Dubai|convert|compare"),
        (Check(name="c", kind="refers", columns=("id",), dataset="nowhere", references=("id",)), "no dataset 'nowhere'"),
    ],
)
def test_a_check_that_cannot_be_run_is_broken_and_says_why_without_a_value_in_the_database(
    small: Platform, rule: Check, words: str
) -> None:
    small.write(TABLE)
    declare(small, rule)
    found = check(small)
    assert not found.passed
    outcome = found.outcomes[0]
    assert outcome.finding.says == "it could not be run"
    assert re.search(words, outcome.detail), outcome.detail
    version = small.write(TABLE)
    assert version.quarantined
    assert version.findings == (outcome.finding,)


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ((IN_RANGE, IN_RANGE), "two checks called"),
        ((Check(name="c", kind="range", least=1),), "needs columns"),
        ((Check(name="c", kind="range", columns=("id",)),), "least, most, or both"),
        ((Check(name="c", kind="range", columns=("id",), least=float("nan")),), "no bound"),
        ((Check(name="c", kind="unique", columns=("id",), least=0),), "has no least"),
        ((Check(name="c", kind="refers", columns=("id",), dataset="x", references=("a", "b")),), "2 references"),
        ((Check(name="c", kind="nulls", columns=("id",), share=5.0),), "between 0 and 1"),
        ((Check(name="c", kind="fresh", columns=("id", "name"), seconds=1),), "one column"),
        ((Check(name="c", kind="unique", columns=("depth",)),), "no column 'depth'"),
    ],
)
def test_checks_that_make_no_sense_are_refused(small: Platform, rules: tuple[Check, ...], words: str) -> None:
    small.write(CSV)
    with pytest.raises(Invalid, match=words):
        declare(small, *rules)
    shown = small.call(checks.SHOW_CHECKS, checks.OneDataset(project=PROJECT, dataset="flights"))
    assert shown.checks == ()


def test_a_dataset_without_checks_says_so_and_checks_can_be_taken_back(small: Platform) -> None:
    quarantined(small)
    assert declare(small).checks == ()
    with pytest.raises(NotFound, match="No checks are declared"):
        check(small)
    assert small.write(BAD).current


def test_what_was_checked_before_another_version_came_is_checked_again(platform: Platform) -> None:
    """Of two appends with the same key at once, one at most is published."""
    platform.write(CSV)
    declare(platform, Check(name="ids", kind="unique", columns=("id",)))
    writes = [platform.open(), platform.open()]
    for write in writes:
        platform.send(write, b"id,name,score\n9,dam,1\n")
    start = threading.Barrier(2)

    def commit(write: writing.Write) -> versions.Version:
        start.wait()
        while True:
            try:
                return platform.commit(write)
            except Unavailable:
                continue

    with ThreadPoolExecutor(2) as pool:
        made = list(pool.map(commit, writes))
    assert sorted(version.quarantined for version in made) == [False, True]
    assert platform.rows() == [*ROWS, (9, "dam", 1.0)]


def test_checks_follow_a_column_that_is_renamed(small: Platform) -> None:
    small.write(CSV)
    declare(small, IN_RANGE)
    small.rename(score="points")
    assert check(small).passed
    version = small.write(b"id,name,points\n4,dam,99\n")
    assert version.findings[0].says == "points must be at least 0 and at most 10"


def test_a_version_that_is_restored_is_held_against_the_checks_of_today(platform: Platform) -> None:
    platform.write(b"id\n500\n")
    platform.write(b"id\n1\n", mode="overwrite")
    platform.write(b"id\n2\n", mode="overwrite")
    declare(platform, Check(name="small", kind="range", columns=("id",), most=100))
    back = platform.restore("1")
    assert (back.version, back.mode, back.quarantined, back.current) == (4, "restore", True, False)
    assert [found.check for found in back.findings] == ["small"]
    assert platform.dataset().current == 3
    good = platform.restore("2")
    assert (good.version, good.quarantined, good.findings) == (5, False, ())
    assert platform.rows() == [(1,)]
    declare(platform, Check(name="small", kind="range", columns=("id",), most=100, severity="warn"))
    warned = platform.restore("1")
    assert (warned.current, [found.check for found in warned.findings]) == (True, ["small"])
