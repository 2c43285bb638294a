"""One alert of many sightings, and few messages of one alert: people are told what is so, and are not told it all day long."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.base.clock import DAY, HOUR, MINUTE, SECOND, Moment
from falaj.monitoring.alerting import GRACE, SILENCE, Alert, Change, Post, Rules, Sighting, rules_of, updated
from falaj.monitoring.operations.monitors import Wishes
from falaj.monitoring.operations.words import Severity

START = Moment.parse("2026-11-15T09:30:00Z")
RULES = Rules(channels=("team",))
STRICT = replace(RULES, escalate_to=("boss", "team"), escalate_after=1800)
OVER = RULES.quiet * RULES.window * SECOND


def sighting(severity: Severity = "warning", sentence: str = "amount is 0.31 away.") -> Sighting:
    return Sighting(
        key="drift/1",
        kind="drift",
        severity=severity,
        title="amount drifts",
        sentences=(sentence,),
        facts={"effect": 0.31},
    )


def after(ticks: int) -> Moment:
    return Moment(START + ticks)


def raised(rules: Rules = RULES, severity: Severity = "warning") -> Alert:
    return alert_of(updated(None, sighting(severity), rules, START))


def alert_of(change: Change) -> Alert:
    assert change.alert is not None
    return change.alert


def whats(change: Change) -> list[str]:
    return [post.what for post in change.posts]


def test_a_first_sighting_is_an_alert_and_a_message() -> None:
    change = updated(None, sighting(), RULES, START)
    assert change.is_new
    assert change.posts == (Post(what="raised", channels=("team",)),)
    alert = alert_of(change)
    assert (alert.severity, alert.raised, alert.seen, alert.sightings) == ("warning", START, START, 1)
    assert (alert.notified, alert.posted) == (START, (START,))


def test_nothing_seen_is_nothing() -> None:
    assert updated(None, None, RULES, START) == Change(alert=None)


def test_what_is_seen_again_is_the_same_alert_and_no_message() -> None:
    change = updated(raised(), sighting(sentence="amount is 0.33 away."), RULES, after(MINUTE))
    assert change.posts == ()
    alert = alert_of(change)
    assert (alert.raised, alert.seen, alert.sightings) == (START, after(MINUTE), 2)
    assert alert.last.sentences == ("amount is 0.33 away.",)


def test_only_what_got_worse_is_told_at_once() -> None:
    worse = updated(raised(), sighting("critical"), RULES, after(MINUTE))
    assert whats(worse) == ["worse"]
    better = updated(worse.alert, sighting("info"), RULES, after(2 * MINUTE))
    assert (alert_of(better).severity, whats(better)) == ("critical", [])


def test_people_are_reminded_until_somebody_sees_to_it() -> None:
    alert = replace(raised(), seen=after(DAY))
    assert whats(updated(alert, None, RULES, after(DAY - 1))) == []
    reminded = updated(alert, None, RULES, after(DAY))
    assert whats(reminded) == ["reminded"]
    assert whats(updated(reminded.alert, sighting(), RULES, after(DAY + HOUR))) == []
    seen_to = replace(alert, acknowledged=after(HOUR))
    assert whats(updated(seen_to, None, RULES, after(DAY))) == []
    assert whats(updated(alert, None, replace(RULES, remind_after=0), after(DAY))) == []


def test_what_nobody_sees_to_goes_to_others_too_and_once() -> None:
    alert = raised(STRICT)
    assert whats(updated(alert, sighting(), STRICT, after(30 * MINUTE - 1))) == []
    change = updated(alert, sighting(), STRICT, after(30 * MINUTE))
    assert change.posts == (Post(what="escalated", channels=("boss", "team")),)
    assert whats(updated(change.alert, sighting(), STRICT, after(HOUR))) == []
    worse = updated(change.alert, sighting("critical"), STRICT, after(HOUR))
    assert worse.posts == (Post(what="worse", channels=("team", "boss")),)
    assert whats(updated(replace(alert, acknowledged=after(MINUTE)), sighting(), STRICT, after(HOUR))) == []


def test_what_nobody_looked_for_is_not_over_until_a_long_silence_and_that_is_told_as_what_it_is() -> None:
    for looked in (0, RULES.quiet - 1):
        assert whats(updated(raised(), None, RULES, after(OVER), looked)) == []
    seen_well = updated(raised(), None, RULES, after(OVER), RULES.quiet)
    assert (whats(seen_well), seen_well.over) == (["resolved"], "It was not seen again since 2026-11-15T09:30:00Z.")
    rules = replace(RULES, remind_after=0)
    assert whats(updated(raised(), None, rules, after(OVER + SILENCE - 1), 0)) == []
    silent = updated(raised(), None, rules, after(OVER + SILENCE), 0)
    assert whats(silent) == ["resolved"]
    assert silent.over.startswith("Too little was looked at since 2026-11-15T09:30:00Z to say whether it is still so")


def test_others_may_be_told_at_once() -> None:
    change = updated(None, sighting(), replace(STRICT, escalate_after=0), START)
    assert whats(change) == ["raised", "escalated"]
    assert alert_of(change).escalated == START


def test_what_is_not_seen_for_some_windows_is_over_and_all_who_know_of_it_are_told() -> None:
    alert = replace(raised(STRICT), escalated=START)
    assert updated(alert, None, STRICT, after(OVER - 1)) == Change(alert=alert)
    change = updated(alert, None, STRICT, after(OVER))
    assert change.posts == (Post(what="resolved", channels=("team", "boss")),)
    assert alert_of(change).resolved == after(OVER)
    assert updated(change.alert, None, STRICT, after(9 * DAY)) == Change(alert=change.alert)


def test_a_window_that_is_looked_at_late_does_not_end_an_alert() -> None:
    rules = replace(RULES, quiet=1, grace=20)
    assert whats(updated(raised(rules), None, rules, after(MINUTE + 20 * SECOND - 1))) == []
    assert whats(updated(raised(rules), None, rules, after(MINUTE + 20 * SECOND))) == ["resolved"]


def test_what_comes_back_soon_is_the_same_alert_and_later_another_one() -> None:
    over = replace(raised(), acknowledged=START, resolved=after(OVER))
    soon = updated(over, sighting("critical"), RULES, after(OVER + HOUR))
    assert (whats(soon), soon.is_new) == (["reopened"], False)
    alert = alert_of(soon)
    assert (alert.resolved, alert.raised, alert.sightings, alert.severity) == (None, START, 2, "critical")
    assert alert.opened == after(OVER + HOUR)
    late = updated(over, sighting(), RULES, after(OVER + HOUR + 1))
    assert late.is_new
    assert (alert_of(late).raised, alert_of(late).acknowledged) == (after(OVER + HOUR + 1), None)


def test_what_comes_and_goes_all_day_stays_open_instead() -> None:
    alert: Alert | None = None
    told: list[str] = []
    for hour in range(24):
        for minutes, seen in ((0, sighting()), (10, None)):
            change = updated(alert, seen, RULES, after(hour * HOUR + minutes * MINUTE))
            alert, told = change.alert, [*told, *whats(change)]
    assert told == ["raised", "resolved", *["reopened", "resolved"] * 3, "reopened"]
    assert alert is not None
    assert alert.resolved is None
    assert whats(updated(alert, None, RULES, after(2 * DAY))) == ["resolved"]


def test_an_alert_that_nobody_is_told_of_is_one_all_the_same() -> None:
    change = updated(None, sighting(), replace(RULES, channels=()), START)
    assert change.posts == (Post(what="raised", channels=()),)


def test_a_clock_that_goes_back_changes_nothing() -> None:
    change = updated(raised(), sighting(), RULES, Moment(START - HOUR))
    assert (alert_of(change).seen, change.posts) == (START, ())
    assert updated(raised(), None, RULES, Moment(START - HOUR)).posts == ()


def test_one_message_a_day_is_too_few() -> None:
    with pytest.raises(ValueError, match="most_a_day is 1"):
        Rules(channels=(), most_a_day=1)


def test_the_rules_are_as_wished() -> None:
    wishes = Wishes(channels=("a",), escalate_to=("b",), escalate_after=7, remind_after=8, quiet=9, window=10)
    expected = Rules(channels=("a",), escalate_to=("b",), escalate_after=7, remind_after=8, quiet=9, window=10, grace=GRACE)
    assert rules_of(wishes) == expected


Step = tuple[int, Severity | None, bool]  # minutes later; what is seen, if anything; whether somebody acknowledges it then
_SEEN = st.sampled_from(["info", "warning", "critical", None, None])
_STEPS = st.lists(st.tuples(st.sampled_from([1, 4, 7, 70, 700]), _SEEN, st.integers(0, 9).map(lambda n: n == 0)), max_size=60)
_RULES = st.builds(
    Rules,
    channels=st.just(("team",)),
    escalate_to=st.sampled_from([(), ("boss",)]),
    escalate_after=st.sampled_from([0, 600, 7200]),
    remind_after=st.sampled_from([0, 60, 86_400]),
    quiet=st.sampled_from([1, 5]),
    most_a_day=st.integers(2, 6),
)


def lived(rules: Rules, steps: Sequence[Step]) -> Iterator[tuple[Moment, Alert | None, Severity | None, Change]]:
    alert, now = None, START
    for minutes, severity, sees_to_it in steps:
        now = Moment(now + minutes * MINUTE)
        if sees_to_it and alert is not None and alert.resolved is None:
            alert = replace(alert, acknowledged=now)
        change = updated(alert, None if severity is None else sighting(severity), rules, now)
        yield now, alert, severity, change
        alert = change.alert


@given(_RULES, _STEPS)
def test_people_know_what_is_so(rules: Rules, steps: list[Step]) -> None:
    known, severity = "resolved", None
    for _, _, _, change in lived(rules, steps):
        for post in change.posts:
            if post.what in ("raised", "reopened", "worse"):
                known, severity = "open", alert_of(change).severity
            elif post.what == "resolved":
                known = "resolved"
        assert known == ("open" if change.alert is not None and change.alert.resolved is None else "resolved")
        assert change.alert is None or change.alert.severity == severity


@given(_RULES, _STEPS)
def test_no_day_has_more_messages_than_are_allowed_beside_those_that_cannot_wait(rules: Rules, steps: list[Step]) -> None:
    posts = [(now, post.what) for now, _, _, change in lived(rules, steps) for post in change.posts]
    for end, _ in posts:
        day = [what for at, what in posts if end - DAY < at <= end]
        assert len([what for what in day if what not in ("worse", "escalated")]) <= rules.most_a_day


@given(_RULES, _STEPS)
def test_each_alert_is_raised_once_escalated_once_and_left_to_who_sees_to_it(rules: Rules, steps: list[Step]) -> None:
    told: list[str] = []
    for _, before, _, change in lived(rules, steps):
        told = [] if change.is_new else told
        told += whats(change)
        assert told.count("escalated") <= 1
        assert told.count("worse") <= 2
        assert change.alert is None or told.count("raised") == 1
        if before is not None and before.acknowledged is not None and not change.is_new:
            assert not {"escalated", "reminded"} & set(whats(change))


@given(_RULES, _STEPS)
def test_sightings_are_counted_and_the_worst_and_the_last_are_kept(rules: Rules, steps: list[Step]) -> None:
    seen: list[tuple[Moment, Severity]] = []
    for now, _, severity, change in lived(rules, steps):
        seen = [] if change.is_new else seen
        seen += [] if severity is None else [(now, severity)]
        if change.alert is not None:
            assert change.alert.sightings == len(seen)
            assert (change.alert.seen, change.alert.last.severity) == seen[-1]
            assert change.alert.severity == max((one for _, one in seen), key=["info", "warning", "critical"].index)


@given(_RULES, _STEPS)
def test_what_is_over_is_told_to_be_in_the_end(rules: Rules, steps: list[Step]) -> None:
    alert = None
    for now, _, _, change in lived(rules, steps):
        alert = change.alert
        if alert is not None:
            assert alert_of(updated(alert, None, rules, Moment(now + DAY + HOUR))).resolved is not None
