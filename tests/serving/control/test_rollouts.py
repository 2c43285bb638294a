"""What the platform does by itself: canaries that grow or go back, revisions that are put away."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.base.clock import SECOND, Moment
from falaj.base.errors import Conflict
from falaj.governance.projects.operations import DELETE_PROJECT, RESTORE_PROJECT, OneProject
from falaj.serving.changing import Growth, first_step
from falaj.serving.counts import Counts
from falaj.serving.operations import planes
from falaj.serving.operations.words import WHOLE, Steps
from falaj.serving.rollouts import Act, Broken, Growing, Snapshot, apply, decide
from falaj.serving.splits import Arms, beside, everything_to, share_of
from falaj.serving.verdicts import Judgement, Trial
from tests.serving.control.platform import PROJECT, Platform, live, said

NOW = Moment.parse("2026-11-15T09:00:00Z")
FIRST = everything_to(1)
STEPS = Steps(shares=(1_000, 2_500, 5_000, WHOLE), seconds=60)


class Says:
    """A verdict that is always the same."""

    def __init__(self, word: str) -> None:
        self._word = word

    def judge(self, trial: Trial) -> Judgement:
        return Judgement(word=self._word, reason=f"{trial.candidate} is {self._word}")  # type: ignore[arg-type]


def growing(growth: Growth, arms: Arms | None = None, back: Arms = FIRST) -> Growing:
    trial = Trial(
        project="p",
        endpoint="e",
        candidate=2,
        incumbent=1,
        since=NOW,
        latency_ms=100,
        of_candidate=Counts(),
        of_incumbent=Counts(),
    )
    return Growing(endpoint="e", serial=7, arms=arms or beside(back, 2, 1_000), back=back, growth=growth, trial=trial)


# Deciding


@given(st.lists(st.integers(1, WHOLE - 1), max_size=8, unique=True), st.integers(1, 1000), st.integers(0, 3000))
def test_a_canary_that_does_well_takes_every_step_in_its_time_and_then_has_everything(
    shares: list[int], seconds: int, late: int
) -> None:
    steps = Steps(shares=(*sorted(shares), WHOLE), seconds=seconds)
    now, growth = NOW, first_step(2, steps, NOW)
    arms = beside(everything_to(1), 2, steps.shares[0])
    for share in steps.shares[1:]:
        assert growth.until is not None
        early = Moment(growth.until - 1)
        assert decide(Snapshot(growing=(growing(growth, arms),)), Says("well"), early) == ()
        now = Moment(growth.until + late * SECOND)
        (act,) = decide(Snapshot(growing=(growing(growth, arms),)), Says("well"), now)
        assert (act.kind, share_of(act.arms, 2)) == ("step", share)
        assert sum(arm.share for arm in act.arms) == WHOLE
        assert act.growth is not None
        growth, arms = act.growth, act.arms
    if len(steps.shares) > 1:
        assert arms == everything_to(2)
        assert growth.until is None


def test_a_canary_that_is_worse_goes_back_at_once_and_one_nobody_is_sure_of_waits() -> None:
    growth = first_step(2, STEPS, NOW)
    (act,) = decide(Snapshot(growing=(growing(growth),)), Says("worse"), NOW)
    assert (act.kind, act.arms, act.reason) == ("rollback", everything_to(1), "2 is worse")
    assert decide(Snapshot(growing=(growing(growth),)), Says("unsure"), Moment(NOW + 999 * SECOND)) == ()
    assert decide(Snapshot(growing=(growing(growth, back=()),)), Says("worse"), Moment(NOW + 999 * SECOND)) == ()


def broken(arms: Arms, back: Arms, revision: int = 2) -> Broken:
    return Broken(endpoint="e", serial=7, arms=arms, back=back, revision=revision, why="it broke")


@pytest.mark.parametrize(
    ("arms", "back", "after"),
    [
        (everything_to(2), everything_to(1), everything_to(1)),
        (beside(everything_to(1), 2, 3_000), everything_to(1), everything_to(1)),
        (beside(everything_to(3), 2, 3_000), everything_to(1), everything_to(3)),
        (everything_to(2), (), everything_to(2)),
        (everything_to(2), beside(everything_to(1), 2, 10), everything_to(2)),
    ],
)
def test_what_breaks_workers_is_put_away_and_others_take_over_where_there_are_any(arms: Arms, back: Arms, after: Arms) -> None:
    (act,) = decide(Snapshot(broken=(broken(arms, back),)), Says("well"), NOW)
    assert (act.kind, act.quarantine, act.arms) == ("quarantine", 2, after)


def test_one_thing_at_a_time_is_done_to_an_endpoint_and_a_broken_revision_comes_first() -> None:
    late = Moment(NOW + 999 * SECOND)
    snapshot = Snapshot(
        growing=(growing(first_step(2, STEPS, NOW)),),
        broken=(broken(beside(everything_to(1), 2, 10), ()), broken(beside(everything_to(1), 2, 10), (), 1)),
    )
    (act,) = decide(snapshot, Says("well"), late)
    assert (act.kind, act.quarantine) == ("quarantine", 2)


# Acting


def canary(platform: Platform) -> None:
    platform.deployed()
    platform.deploy(1, mode="canary", steps=STEPS)


def shares(platform: Platform) -> dict[int, int]:
    return {arm.revision: arm.share for arm in platform.show().arms}


def test_a_canary_grows_by_its_schedule_until_it_has_everything(platform: Platform) -> None:
    canary(platform)
    seen = [shares(platform)]
    for _ in range(4):
        platform.clock.forward(61 * SECOND)
        platform.step()
        seen.append(shares(platform))
    assert seen == [{1: 9_000, 2: 1_000}, {1: 7_500, 2: 2_500}, {1: 5_000, 2: 5_000}, {2: 10_000}, {2: 10_000}]
    done = platform.show()
    assert (done.step, done.next_step, done.back_to) == (4, None, 1)
    kinds = [(change.kind, change.by) for change in platform.history()[2:]]
    assert kinds == [("step", None)] * 3
    leaves = platform.leaves("endpoint.split")
    assert [(leaf.principal, leaf.facts["kind"]) for leaf in leaves] == [("", "step")] * 3
    assert platform.roll_back().arms == (live(1),)


def test_a_canary_that_fails_calls_goes_back_by_itself(platform: Platform) -> None:
    canary(platform)
    plane, endpoint = platform.plane(), platform.show()
    plane.report(said(endpoint, 1, requests=900, errors=1), said(endpoint, 2, requests=100, errors=60))
    platform.step()
    back = platform.show()
    assert (back.arms, back.next_step, back.step) == ((live(1),), None, 0)
    last = platform.history()[-1]
    assert (last.kind, last.by) == ("rollback", None)
    assert "failed 60 of 100 calls" in last.reason
    platform.clock.forward(999 * SECOND)
    platform.step()
    assert platform.show().arms == (live(1),)


def test_calls_that_were_sent_to_a_canary_on_purpose_neither_send_it_back_nor_save_it(platform: Platform) -> None:
    canary(platform)
    plane, endpoint = platform.plane(), platform.show()
    failing = planes.PinnedReport(requests=500, errors=500)
    plane.report(said(endpoint, 1, requests=900), said(endpoint, 2, requests=100, pinned=failing))
    platform.step()
    assert shares(platform) == {1: 9_000, 2: 1_000}
    plane.did(endpoint, 2, 40, 40, pinned=planes.PinnedReport(requests=1_000_000))
    platform.step()
    assert shares(platform) == {1: 10_000}
    assert "failed 40 of 140 calls" in platform.history()[-1].reason


def test_a_canary_that_was_only_asked_on_purpose_waits(small: Platform) -> None:
    canary(small)
    pinned = planes.PinnedReport(requests=500)
    small.plane().report(said(small.show(), 1, requests=500), said(small.show(), 2, pinned=pinned))
    small.clock.forward(61 * SECOND)
    small.step()
    assert shares(small) == {1: 9_000, 2: 1_000}


def test_what_was_before_the_canary_is_not_held_against_it(small: Platform) -> None:
    endpoint = small.deployed()
    plane = small.plane()
    plane.did(endpoint, 1, 5000)
    small.clock.forward(60 * SECOND)
    small.deploy(1, mode="canary", steps=STEPS)
    plane.report(said(endpoint, 1, requests=90, errors=54), said(endpoint, 2, requests=10, errors=6))
    small.step()
    assert shares(small) == {1: 9_000, 2: 1_000}


def test_a_canary_waits_while_it_has_answered_nothing_and_others_have(small: Platform) -> None:
    canary(small)
    small.plane().did(small.show(), 1, 500)
    small.clock.forward(61 * SECOND)
    small.step()
    assert shares(small) == {1: 9_000, 2: 1_000}


def test_it_waits_as_long_as_there_are_calls_and_none_longer_than_a_step(small: Platform) -> None:
    canary(small)
    plane = small.plane()
    for _ in range(3):
        plane.did(small.show(), 1, 500)
        small.clock.forward(50 * SECOND)
        small.step()
        assert shares(small) == {1: 9_000, 2: 1_000}
    small.clock.forward(30 * SECOND)
    small.step()
    assert shares(small) == {1: 7_500, 2: 2_500}


def test_calls_just_before_a_canary_that_nobody_calls_do_not_hold_it_up_for_ever(small: Platform) -> None:
    endpoint = small.deployed()
    small.plane().did(endpoint, 1, 500)
    small.deploy(1, mode="canary", steps=STEPS)
    for _ in range(2):
        small.clock.forward(61 * SECOND)
        small.step()
    assert shares(small) == {1: 7_500, 2: 2_500}


def test_a_decision_by_hand_ends_the_schedule(small: Platform) -> None:
    canary(small)
    small.split(live(1, 9_000), live(2, 1_000))
    small.clock.forward(999 * SECOND)
    small.step()
    assert shares(small) == {1: 9_000, 2: 1_000}


def test_what_was_decided_is_not_done_to_an_endpoint_that_changed_since(small: Platform) -> None:
    endpoint = small.deployed(2)
    act = Act(endpoint=endpoint.id, serial=endpoint.serial, kind="rollback", arms=(live(1),), reason="late")
    small.deploy(1)
    assert small.app.database.write(lambda work: apply(work, act, small.clock.now())) is False
    assert shares(small) == {3: 10_000}


def test_the_canary_of_an_archived_project_stands_still(small: Platform) -> None:
    canary(small)
    small.call(DELETE_PROJECT, OneProject(project=PROJECT))
    small.clock.forward(61 * SECOND)
    small.step()
    small.call(RESTORE_PROJECT, OneProject(project=PROJECT))
    assert shares(small) == {1: 9_000, 2: 1_000}


def test_a_revision_that_breaks_workers_is_quarantined_for_good(platform: Platform) -> None:
    endpoint = platform.deployed(2)
    plane = platform.plane()
    plane.report(said(endpoint, 2, ready=False, quarantined=True, problem="Three workers died of signal 11."))
    platform.step()
    after = platform.show()
    assert after.arms == (live(1),)
    last = platform.history()[-1]
    assert (last.kind, last.by) == ("quarantine", None)
    assert "Three workers died" in last.reason
    assert platform.leaves("endpoint.split")[0].facts["quarantined"] == 2
    with pytest.raises(Conflict, match="quarantined"):
        platform.promote(2)
    with pytest.raises(Conflict, match="quarantined"):
        platform.split(live(1, 5_000), live(2, 5_000))
    serial = after.serial
    platform.step()
    assert platform.show().serial == serial
    assert platform.deploy(2).endpoint.arms == (live(3),)
    assert platform.show().back_to == 1


def test_a_quarantined_only_revision_stays_and_is_marked(small: Platform) -> None:
    endpoint = small.deployed()
    plane = small.plane()
    plane.report(said(endpoint, 1, quarantined=True))
    small.step()
    (state,) = plane.state().endpoints
    assert state.revisions[0].quarantined
    assert small.show().revisions[0].quarantined
