"""Windows of traffic: learnt from, decided on and told of, whatever comes and in whatever order."""

import json
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sqlalchemy import Engine, delete, event, update

from falaj.base.clock import DAY, HOUR, MINUTE, SECOND, Moment
from falaj.base.errors import Corrupt, FalajError, Misconfigured, Unavailable
from falaj.monitoring.pieces import decode_pieces, encode_pieces
from falaj.monitoring.store import tables
from falaj.serving.operations.planes import SketchReport, WatchReport
from falaj.serving.store.tables import revisions
from tests.monitoring.drift.platform import QUICK, ROWS, Watched, rows_of, texts


class Killed(BaseException):
    """As nobody catches it."""


def spoken(alert: Any) -> str:
    return " ".join(alert.sentences)


def test_planted_drift_makes_an_alert_that_names_the_columns_and_says_how_far_and_is_in_the_ledger(watched: Watched):
    watched.apply()
    watched.learn()
    assert watched.show().health == "well"
    watched.traffic(rows_of(seed) for seed in range(2000, 2003))
    assert watched.alerts() == {}
    began = watched.now
    watched.traffic(rows_of(seed, amount=30) for seed in range(3000, 3003))
    assert list(watched.alerts()) == ["drift"]
    alert = watched.alerts()["drift"]
    assert alert.title == "Revision 1: amount drifts, and so do its answers"
    assert alert.columns[0].column == "amount" or "amount" in {one.column for one in alert.columns}
    assert not {"age", "items"} & {one.column for one in alert.columns}
    assert "its median moved from 9" in spoken(alert)
    assert "All 500 rows of the window were counted." in spoken(alert)
    assert "revision 1 (fraud v1) was deployed" in spoken(alert)
    assert alert.since is not None
    assert abs(alert.since - began) <= MINUTE
    assert watched.show().health == "drifting"
    [leaf] = watched.platform.leaves("alert.raise")
    assert "amount" in json.dumps(leaf.facts)


def test_what_the_model_answers_may_drift_though_what_it_is_asked_does_not(small: Watched):
    small.apply()
    small.learn()
    sure = np.tile(np.array([0.02, 0.98], np.float32), (ROWS, 1))
    for seed in range(2000, 2003):
        small.window(rows_of(seed), sure)
    alert = small.alerts()["drift"]
    assert alert.title.startswith("Revision 1: its answers drift")
    assert "though what it is asked is" in alert.sentences[0]
    assert {one.column.split()[0] for one in alert.columns} == {"prediction"}


def test_pieces_in_any_order_and_any_parts_come_to_the_same_verdict(small: Watched):
    small.apply()
    small.learn()

    def played(order: random.Random | None) -> tuple[Any, ...]:
        for seed in range(4000, 4004):
            told = [one for part in np.array_split(rows_of(seed, age=6), 7) for one in small.counted(part)]
            if order is not None:
                order.shuffle(told)
            for one in told if order is not None else ():
                small.send([one])
            if order is None:
                small.send(told)
            small.over()
        shown = [(one.rows, one.missed, one.columns) for one in small.windows(limit=4).items]
        small.apply(replace(QUICK, ignore=("nothing at all",)))  # all is learnt anew, of the same rows
        small.apply()
        small.learn()
        return tuple(shown)

    first = played(None)
    assert any(one.drifting for _, _, columns in first for one in columns)
    assert {rows for rows, _, _ in first} == {ROWS}
    for seed in (1, 2):
        shuffled = played(random.Random(seed))
        assert [(rows, missed) for rows, missed, _ in shuffled] == [(rows, missed) for rows, missed, _ in first]
        assert [{one.column for one in columns if one.drifting} for _, _, columns in shuffled] == [
            {one.column for one in columns if one.drifting} for _, _, columns in first
        ]


def test_what_comes_after_its_window_was_closed_counts_as_late_and_changes_nothing(small: Watched):
    small.apply()
    small.learn()
    told = small.counted(rows_of(2000))
    small.send(told)
    late = small.counted(rows_of(2001, amount=500))
    small.over()
    before, standing = small.last(), small.reference().standing
    small.send(late)
    small.step()
    assert small.last() == before
    assert small.reference().standing == standing
    assert small.show().watching[0].late == ROWS
    assert small.rows(tables.pieces) == []


def test_rows_of_a_clock_that_is_ahead_or_of_windows_of_another_length_are_stated_and_not_believed(small: Watched):
    small.apply()
    small.learn()
    [told] = small.counted(rows_of(2000))
    small.send(
        [replace(told, at=Moment(told.at + 10 * MINUTE)), replace(told, seconds=61), replace(told, at=Moment(told.at + 1))]
    )
    assert small.rows(tables.pieces) == []
    assert small.show().watching[0].late == 3 * ROWS
    small.send([replace(told, at=Moment(told.at + MINUTE))])  # a little ahead: it waits for its time
    small.over()
    assert small.last().at < told.at + MINUTE
    small.over()
    assert (small.last().at, small.last().rows) == (told.at + MINUTE, ROWS)


def test_what_planes_kept_back_while_the_platform_was_down_is_put_together_before_it_is_closed(watched: Watched):
    watched.apply()
    watched.learn()
    windows = len(watched.rows(tables.windows))
    told = [one for seed in range(2000, 2004) for one in watched.counted(rows_of(seed))]
    watched.clock.forward(3 * HOUR)
    for one in told:
        watched.send([one])
        watched.clock.forward(5 * SECOND)
        watched.step()
    assert len(watched.rows(tables.windows)) == windows
    watched.clock.forward(13 * SECOND)
    watched.step()
    assert (len(watched.rows(tables.windows)), watched.last().rows) == (windows + 1, 4 * ROWS)
    assert watched.show().watching[0].late == 0


def test_rows_that_were_missed_or_counted_by_another_plan_are_stated(small: Watched):
    small.apply()
    small.learn()
    for seed in range(2000, 2003):
        [told] = small.counted(rows_of(seed, amount=40))
        small.send([replace(told, missed=300), replace(told, plan="another")])
        small.over()
    assert (small.last().rows, small.last().missed) == (ROWS, 300 + ROWS)
    assert "Counted were 500 of 1300 rows of the window; 62 % were not looked at." in spoken(small.alerts()["drift"])


def test_who_dies_between_reading_and_writing_leaves_all_or_nothing(watched: Watched, monkeypatch: pytest.MonkeyPatch):
    watched.apply()
    watched.learn()
    raising = watched.platform.app.monitoring.raising
    watched.send(watched.counted(rows_of(2000, amount=200)))
    every = (tables.pieces, tables.windows, tables.references, tables.detectors, tables.alerts)
    before = [watched.rows(table) for table in every]

    def die(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(raising, "sight", die)
        watched.clock.forward(73 * SECOND)
        with pytest.raises(Killed):
            watched.step()
    assert [watched.rows(table) for table in every] == before
    watched.step()
    assert watched.rows(tables.pieces) == []
    assert list(watched.alerts()) == ["drift"]


def test_two_who_close_the_same_window_close_it_once(watched: Watched, monkeypatch: pytest.MonkeyPatch):
    watched.apply()
    watched.learn()
    watched.send(watched.counted(rows_of(2000)))
    watched.clock.forward(73 * SECOND)
    closing: Any = watched.platform.app.monitoring._closing
    load, windows = closing._load, len(watched.rows(tables.windows))

    def loaded(*given: Any) -> Any:
        found = load(*given)
        with monkeypatch.context() as patch:
            patch.setattr(closing, "_load", load)
            watched.step()  # the other one is faster
        return found

    with monkeypatch.context() as patch:
        patch.setattr(closing, "_load", loaded)
        closing.step(watched.clock.now())
    assert len(watched.rows(tables.windows)) == windows + 1
    assert watched.show().watching[0].late == 0


def test_a_column_that_is_missing_has_an_alert_of_its_own_and_a_critical_one_once_it_is_gone(small: Watched):
    small.apply()
    small.learn()
    for seed in range(2000, 2003):
        rows = rows_of(seed)
        rows[: ROWS // 3, 1] = np.nan
        small.window(rows)
    assert {kind: one.severity for kind, one in small.alerts().items()} == {"missing": "warning"}
    assert "age is missing in 33 % of the rows, was in 0 %" in spoken(small.alerts()["missing"])
    assert json.loads(small.rows(tables.windows)[-1].found)["missing"] == {"age": pytest.approx(0.332)}
    for seed in range(2003, 2005):
        rows = rows_of(seed)
        rows[:, 1] = np.nan
        small.window(rows)
    assert {kind: one.severity for kind, one in small.alerts().items()} == {"missing": "critical"}
    assert small.alerts()["missing"].title == "Revision 1: age gone altogether"


def test_windows_of_nothing_but_nan_and_infinity_are_told_of_and_break_nothing(small: Watched):
    small.apply()
    small.learn()
    small.window(np.full((ROWS, 3), np.nan))
    small.window(np.full((ROWS, 3), np.inf))
    assert small.last().rows == ROWS
    assert {"drift", "missing"} <= set(small.alerts())
    assert set(small.column("amount").distances) == {"ks", "wasserstein", "psi", "jensen-shannon", "cramers-v"}


def test_a_constant_column_is_watched_as_any_other(small: Watched):
    small.apply()

    def constant(seed: int, at: float = 7.0) -> np.ndarray:
        rows = rows_of(seed)
        rows[:, 2] = at
        return rows

    small.learn(usual=constant)
    small.traffic(constant(seed) for seed in range(2000, 2004))
    assert small.alerts() == {}
    small.traffic(constant(seed, 8.0) for seed in range(3000, 3002))
    assert [one.column for one in small.alerts()["drift"].columns] == ["items"]


def test_tiny_windows_raise_no_alarm_by_chance_and_find_drift_together(small: Watched):
    small.apply()
    small.learn()
    small.traffic(rows_of(seed, 4) for seed in range(2000, 2030))
    assert small.alerts("all") == {}
    small.traffic(rows_of(seed, 4, amount=45) for seed in range(3000, 3012))
    assert "amount" in {one.column for one in small.alerts()["drift"].columns}


def test_an_empty_window_is_none(small: Watched):
    small.apply()
    small.learn()
    windows = len(small.rows(tables.windows))
    small.over()
    small.over()
    assert len(small.rows(tables.windows)) == windows


def city(seed: int, kinds: str = "abc") -> list[np.ndarray]:
    rows, draw = rows_of(seed), np.random.default_rng(seed)
    return [rows[:, 0].astype(np.float32), rows[:, 1].astype(np.float32), texts(draw.choice([*kinds], ROWS))]


def test_kinds_that_nobody_has_seen_are_told_without_their_names(small: Watched):
    small.apply()
    small.learn(columns=city)
    small.traffic([])
    for seed in range(2000, 2003):
        small.window(rows_of(seed), columns=city(seed, "abcSECRET"))
    found = small.alerts()
    assert {"drift", "schema"} <= set(found)
    assert "of the rows have a value of items that the traffic it learnt from does not have" in spoken(found["schema"])
    assert "SECRET" not in json.dumps([row.told for row in small.rows(tables.alerts)])
    assert "kinds that the reference does not have went from 0 %" in spoken(found["drift"])


def test_texts_where_numbers_were_are_told_as_such(small: Watched):
    small.apply()
    small.learn(columns=lambda seed: [one.astype(np.float32) for one in rows_of(seed).T])
    rows = rows_of(2000)
    for _ in range(2):
        given = [rows[:, 0].astype(np.float32), texts(["n/a"] * ROWS), rows[:, 2].astype(np.float32)]
        small.window(rows, columns=given)
    assert "age was numbers, and is text in 100 % of the sampled rows." in spoken(small.alerts()["schema"])
    assert small.alerts()["schema"].severity == "critical"


def test_a_poisoned_burst_does_not_move_what_traffic_is_held_against(small: Watched):
    small.apply()
    small.learn()
    before = small.reference()
    small.traffic(rows_of(seed, 20_000, amount=300, age=300) for seed in range(2000, 2003))
    after = small.reference()
    assert (after.blob, after.key) == (before.blob, before.key)
    for seed in range(3000, 3012):
        small.window(rows_of(seed))
    assert small.alerts() == {}
    assert small.show().health == "well"


def test_a_plane_that_lies_teaches_nothing_and_keeps_nobody_from_being_watched(small: Watched):
    small.apply()
    [told] = small.counted(rows_of(1))
    broken = tuple(SketchReport(name=one.name, output=one.output, sketch="nonsense") for one in told.columns)
    rows = tuple(replace(one, row="[1,") for one in told.sampled)
    huge = tuple(replace(one, total=1e308, squares=1e308, counts=(5,)) for one in told.columns)
    small.send([replace(told, sketches=broken, sampled=rows), replace(told, columns=huge), replace(told, columns=huge)])
    small.over()
    small.learn()
    assert small.show().health == "well"


def test_what_is_odd_about_one_monitor_waits_and_keeps_nobody_else_from_being_watched(small: Watched):
    small.apply()
    small.learn()
    kept = small.rows(tables.detectors)
    write: Any = small.platform.app.database.write
    write(lambda work: work.execute(update(tables.detectors).values(standing="nonsense")))
    windows = len(small.rows(tables.windows))
    small.window(rows_of(2000))
    assert (len(small.rows(tables.windows)), len(small.rows(tables.pieces))) == (windows, 1)
    write(lambda work: work.execute(update(tables.detectors).values(standing=kept[0].standing)))
    small.clock.forward(31 * SECOND)
    small.step()
    assert (len(small.rows(tables.windows)), len(small.rows(tables.pieces))) == (windows + 1, 0)


def test_what_cannot_be_read_now_waits_and_what_never_can_is_given_up_and_stated(
    small: Watched, monkeypatch: pytest.MonkeyPatch
):
    small.apply()
    small.learn()
    documents: Any = small.platform.app.monitoring._closing._documents

    def failing(error: FalajError) -> None:
        def read(*_: object) -> bytes:
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(documents, "read", read)
            small.clock.forward(MINUTE)
            small.step()

    small.send(small.counted(rows_of(2000)))
    failing(Unavailable("the key ring does not answer"))
    failing(Misconfigured("there is no such storage"))
    assert (len(small.rows(tables.pieces)), small.show().watching[0].late) == (1, 0)
    failing(Corrupt("it was cut"))
    assert (len(small.rows(tables.pieces)), small.show().watching[0].late) == (0, ROWS)


def test_rows_that_could_not_be_sealed_are_stated_as_late(small: Watched, monkeypatch: pytest.MonkeyPatch):
    def receive(*_: object) -> None:
        raise Unavailable("the key ring does not answer")

    small.apply()
    small.learn()
    [told] = small.counted(rows_of(2000))
    documents: Any = small.platform.app.monitoring._closing._documents
    with monkeypatch.context() as patch:
        patch.setattr(documents, "receive", receive)
        small.send([replace(told, missed=7), told])
    assert small.rows(tables.pieces) == []
    assert small.show().watching[0].late == 2 * ROWS + 7


def test_drift_is_not_over_because_nobody_calls_but_because_enough_windows_were_looked_at(watched: Watched):
    watched.apply()
    watched.learn()
    watched.traffic(rows_of(seed, amount=60) for seed in range(2000, 2003))
    assert list(watched.alerts()) == ["drift"]
    for _ in range(30):
        watched.over()
    assert list(watched.alerts()) == ["drift"]
    for seed in range(3000, 3060):
        watched.window(rows_of(seed))
        if not watched.alerts():
            break
    last = watched.alerts("all")["drift"]
    assert last.resolved is not None
    assert (seed, watched.last().columns[0].drifting) >= (3004, False)
    watched.traffic(rows_of(seed, amount=60) for seed in range(4000, 4003))
    assert list(watched.alerts()) == ["drift"]
    watched.clock.forward(DAY)
    watched.step()
    assert list(watched.alerts()) == ["drift"]
    watched.clock.forward(10 * MINUTE)
    watched.step()
    assert watched.alerts() == {}


def test_drift_of_a_revision_that_serves_no_more_is_over_though_nothing_is_looked_at(small: Watched):
    small.apply()
    small.learn()
    small.traffic(rows_of(seed, amount=60) for seed in range(2000, 2003))
    assert list(small.alerts()) == ["drift"]
    small.platform.app.database.write(lambda work: work.execute(update(revisions).values(used=False)))
    small.step()
    small.clock.forward(10 * MINUTE)
    small.step()
    assert small.alerts() == {}


def test_since_when_is_known_though_the_windows_before_lie_far_back_or_were_forgotten(small: Watched):
    small.apply()
    small.learn()
    began, drifting = small.now - small.now % MINUTE, 0
    while not small.alerts():
        small.window(rows_of(2000 + drifting, 25, amount=15))
        drifting += 1
        small.platform.app.database.write(lambda work: work.execute(delete(tables.windows)))
    assert drifting > 1
    assert small.alerts()["drift"].since == began


def test_a_window_that_is_too_old_is_deleted_once(small: Watched):
    said: list[str] = []

    def hear(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        said.append(statement)

    small.apply()
    small.window(rows_of(1))
    small.clock.forward(100 * DAY)
    event.listen(Engine, "before_cursor_execute", hear)
    try:
        small.platform.app.monitoring.clean(small.now)
    finally:
        event.remove(Engine, "before_cursor_execute", hear)
    assert len([one for one in said if one.startswith("DELETE FROM monitoring_windows")]) == 1
    assert small.rows(tables.windows) == []


def test_with_a_season_each_hour_is_held_against_its_own(small: Watched):
    small.apply(replace(QUICK, window=3600, season="hour", timezone="Asia/Dubai"))

    def hour(seed: int, **shifts: float) -> np.ndarray:
        night = (int(small.now) // HOUR) % 24 < 12
        return rows_of(seed, 1000, **{"amount": 60 if night else 0, **shifts})

    small.clock.forward(HOUR - int(small.now) % HOUR)
    for seed in range(28):
        small.window(hour(seed), seconds=3600)
    assert not small.show().watching[0].learning
    for seed in range(100, 124):
        small.window(hour(seed), seconds=3600)
    assert small.alerts("all") == {}
    while (int(small.now) // HOUR) % 24 != 3:
        small.clock.forward(HOUR)
    for seed in range(200, 203):  # as it is at noon
        small.window(hour(seed, amount=0), seconds=3600)
    assert "amount" in {one.column for one in small.alerts()["drift"].columns}
    assert len(small.rows(tables.detectors)) == 24


def test_columns_that_go_together_no_more_are_found_though_each_is_as_before(small: Watched):
    def linked(seed: int, sign: float = 1.0) -> np.ndarray:
        rows = rows_of(seed)
        rows[:, 1] = 40 + sign * (rows[:, 0] - 100) / 2
        return rows

    small.apply()
    small.learn(usual=linked)
    small.traffic(linked(seed) for seed in range(2000, 2008))
    assert small.alerts("all") == {}
    assert small.show().watching[0].together is not None
    small.traffic(linked(seed, -1.0) for seed in range(3000, 3008))
    alert = small.alerts()["drift"]
    assert alert.columns == ()
    assert "No column drifts by itself" in alert.sentences[0]
    assert "amount" in alert.sentences[0]
    assert "age" in alert.sentences[0]
    small.traffic(linked(seed) for seed in range(4000, 4014))
    assert small.alerts() == {}


def test_what_planes_sent_is_sealed_and_read_back_as_it_was(small: Watched):
    small.apply()
    told = small.counted(rows_of(1))
    assert decode_pieces(encode_pieces(told)) == tuple(told)
    assert all(isinstance(one, WatchReport) and one.sampled for one in told)
