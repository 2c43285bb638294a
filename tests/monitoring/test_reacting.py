"""What an alert makes happen: as often as was wished for and no more, and what is left out is said."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from falaj.base.clock import DAY, HOUR, MINUTE, SECOND, Moment
from falaj.monitoring.operations.words import Act
from falaj.monitoring.reacting import Earlier, looked_back, reactions

NOW = Moment.parse("2026-11-15T09:30:00Z")
BACK = Act(do="roll-back")


def ago(by: int) -> Moment:
    return Moment(NOW - by)


def test_only_what_is_wished_for_this_kind_of_alert_happens() -> None:
    acts = (BACK, Act(do="retrain", on=("quality",), job="1"), Act(do="pause-canary", on=("drift", "service")))
    assert [one.act.do for one in reactions(acts, "drift", (), NOW).wanted] == ["roll-back", "pause-canary"]
    assert reactions(acts, "schema", (), NOW).wanted == ()


def test_what_needs_approval_waits_and_the_rest_is_ready() -> None:
    acts = (BACK, Act(do="retrain", job="1", approval=True))
    assert [one.state for one in reactions(acts, "drift", (), NOW).wanted] == ["ready", "waiting"]


def test_it_rests_for_its_cool_down_and_says_so() -> None:
    resting = reactions((BACK,), "drift", [Earlier(act=BACK, at=ago(59 * MINUTE))], NOW)
    assert resting.wanted == ()
    assert resting.left_out == (
        "Rolling back is left out: it was decided upon at 2026-11-15T08:31:00Z, and rests for 3600 seconds.",
    )
    assert len(reactions((BACK,), "drift", [Earlier(act=BACK, at=ago(HOUR))], NOW).wanted) == 1


def test_it_happens_so_many_times_a_day_and_says_when_that_is_over() -> None:
    act = Act(do="roll-back", cooldown=0, most=2)
    twice = [Earlier(act=act, at=ago(by)) for by in (HOUR, DAY - SECOND)]
    limited = reactions((act,), "drift", twice, NOW)
    assert (limited.wanted, limited.left_out) == (
        (),
        ("Rolling back is left out: it may happen 2 times a day, and did.",),
    )
    assert len(reactions((act,), "drift", [Earlier(act=act, at=ago(by)) for by in (HOUR, DAY)], NOW).wanted) == 1


def test_two_jobs_are_two_things_and_the_same_job_wished_for_twice_is_one() -> None:
    acts = tuple(Act(do="retrain", job=job) for job in ("1", "2", "1"))
    found = reactions(acts, "drift", [Earlier(act=acts[1], at=ago(MINUTE))], NOW)
    assert [one.act.job for one in found.wanted] == ["1"]
    assert len(found.left_out) == 2


@given(
    st.lists(st.integers(0, 2 * DAY // SECOND), max_size=30),
    st.integers(0, 7200),
    st.integers(1, 5),
)
def test_however_alerts_come_no_rule_is_broken_and_nothing_is_dropped_silently(
    gaps: list[int], cooldown: int, most: int
) -> None:
    act, now, done = Act(do="roll-back", cooldown=cooldown, most=most), NOW, list[Earlier]()
    for gap in gaps:
        now = Moment(now + gap * SECOND)
        known = [one for one in done if one.at >= looked_back((act,), now)]
        found = reactions((act,), "drift", known, now)
        assert len(found.wanted) + len(found.left_out) == 1
        done += [Earlier(act=one.act, at=now) for one in found.wanted]
        assert len([one for one in done if one.at > now - DAY]) <= most
    for one, after in pairwise(done):
        assert after.at - one.at >= cooldown * SECOND
