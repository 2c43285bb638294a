"""A/B tests from the beginning to the end, with real calls and real labels."""

import math
from collections.abc import Sequence
from typing import Any

import pytest

from falaj.base.clock import DAY
from falaj.base.errors import Conflict, Forbidden, Invalid, NotFound, Unavailable
from falaj.database.work import Context
from falaj.governance.identity.member_operations import REMOVE_MEMBER, RemoveMember
from falaj.governance.identity.operations import CREATE_TOKEN, CreateToken
from falaj.governance.roles import Role
from falaj.monitoring.joined import Joined
from falaj.monitoring.labels import LabelService
from falaj.monitoring.operations import abtests as declared
from falaj.monitoring.operations.abtests import Candidate, Design, Guardrail, Metric
from falaj.monitoring.store.tables import Found
from falaj.serving.operations.endpoints import CONFIGURE, DELETE_ENDPOINT, Configure, OneEndpoint, Options
from falaj.serving.operations.planes import PinnedReport
from falaj.serving.operations.words import Steps
from tests.monitoring.abtests.contested import Contested
from tests.serving.control.platform import PROJECT, live, said


def test_a_test_splits_the_traffic_at_once_and_says_what_to_expect(tested: Contested) -> None:
    made = tested.begin(least_effect=0.05)
    assert tested.shares() == {1: 5000, 2: 5000}
    assert (made.state, made.endpoint, made.metric) == ("running", "scores", "right predictions")
    assert made.expected.units_needed > 100
    assert any("widest spread" in one for one in made.expected.sentences)
    (leaf,) = tested.platform.leaves("abtest.create")
    assert (leaf.facts["abtest"], leaf.facts["kind"]) == (made.id, "split")
    assert tested.platform.history()[-1].reason == "A/B test 'trial' begins."


def test_the_better_candidate_wins_and_is_promoted(tested: Contested) -> None:
    tested.begun(on_win="promote")
    for _ in range(4):
        tested.round({1: (50, 100), 2: (80, 100)})
    tested.step()
    after = tested.show()
    assert (after.state, after.ended_by) == ("won", None)
    assert after.sentence.startswith("Revision 2 wins: ")
    assert tested.shares() == {2: 10_000}
    assert after.acted == "Revision 2 was promoted: it answers everything."
    incumbent, candidate = after.arms
    assert (incumbent.incumbent, candidate.word) == (True, "winner")
    assert candidate.difference is not None
    assert candidate.difference.low > 0
    assert tested.platform.history()[-1].kind == "promote"
    leaves = tested.platform.leaves("abtest.stop")
    assert [(leaf.principal, leaf.facts["verdict"], leaf.facts["winner"]) for leaf in leaves] == [("", "won", 2)]
    assert tested.platform.leaves("endpoint.split")[0].facts["kind"] == "promote"
    assert tested.points().items[-1].units == after.units


def test_a_winner_that_is_only_told_of_changes_nothing(small: Contested) -> None:
    small.begun()
    for _ in range(4):
        small.round({1: (50, 100), 2: (80, 100)})
    small.step()
    assert small.show().state == "won"
    assert small.shares() == {1: 5000, 2: 5000}


def test_a_loser_goes_back_to_the_split_before(tested: Contested) -> None:
    tested.begun()
    for _ in range(4):
        tested.round({1: (80, 100), 2: (50, 100)})
    tested.step()
    assert tested.show().state == "lost"
    assert tested.shares() == {1: 10_000}
    assert tested.platform.history()[-1].kind == "rollback"


def test_where_lower_is_better_the_lower_one_wins(small: Contested) -> None:
    small.begun(metric=Metric(of="truth", better="lower"))
    for _ in range(4):
        small.round({1: (80, 100), 2: (50, 100)})
    small.step()
    assert small.show().state == "won"


def test_no_difference_that_matters_ends_the_test_and_goes_back(small: Contested) -> None:
    small.begun(least_effect=0.2)
    for _ in range(6):
        small.round({1: (50, 100), 2: (50, 100)})
    small.step()
    after = small.show()
    assert after.state == "same"
    assert "no difference that matters" in after.sentence
    assert small.shares() == {1: 10_000}


def test_what_nobody_could_decide_ends_when_its_time_is_over(small: Contested) -> None:
    small.begun(days=2)
    small.round({1: (50, 100), 2: (50, 100)})
    small.step()
    assert small.show().state == "running"
    small.step(2 * DAY / 1_000_000)
    after = small.show()
    assert after.state == "over"
    assert "nothing was decided" in after.sentence
    assert small.shares() == {1: 10_000}


def test_what_was_predicted_before_all_planes_took_up_the_split_does_not_count(small: Contested) -> None:
    small.begin()
    small.served(1, [1.0] * 50)
    small.step()
    assert (small.show().units, small.show().counted) == (0, None)
    small.take_up()
    assert small.show().counted is not None
    small.served(2, [1.0] * 50)
    small.step()
    assert small.show().units == 50


def test_a_unit_counts_once_however_often_it_comes(small: Contested) -> None:
    small.begun()
    small.served(2, [1.0, 0.0, 1.0], units=["a", "a", "b"])
    small.served(2, [0.0] * 19, units=["a", *(f"c{place}" for place in range(18))])
    small.served(1, [0.0], units=["b"])
    small.step()
    after = small.show()
    assert {arm.revision: arm.units for arm in after.arms} == {1: 0, 2: 20}
    assert after.repeated == 2
    candidate = after.arms[1]
    assert candidate.mean == pytest.approx((0.5 + 1) / 20)


def test_what_a_few_units_brought_is_told_neither_before_nor_meanwhile_and_decides_nothing(small: Contested) -> None:
    """Of two, it would be what these two people brought."""
    spent = Metric(of="value", value="spent", kind="bounded", high=100.0)
    design = Design(candidates=(Candidate(revision=2),), metric=spent, least_effect=1.0)

    def plan() -> declared.Expected:
        return small.platform.call(declared.PLAN_ABTEST, declared.PlanAbtest(project=PROJECT, endpoint="scores", design=design))

    small.served(1, [1.0] * 2, values=[{"spent": 12.5}, {"spent": 30.0}])
    assert (plan().mean, plan().deviation) == (50.0, 50.0), "what can be known without them"
    assert "Of spent fewer than 20 units are known: the plan is for the widest spread that can be." in plan().sentences
    small.served(1, [1.0] * 18, values=[{"spent": 30.0}] * 18)
    assert plan().mean == pytest.approx((12.5 + 19 * 30) / 20)
    small.begun(metric=spent, guardrails=(Guardrail(of="metric", metric=spent, worst=1.0),))
    small.served(1, [1.0] * 19, values=[{"spent": 0.0}] * 19)
    small.served(2, [1.0] * 19, values=[{"spent": 100.0}] * 19)
    small.step()
    few = small.show()
    assert [(arm.units, math.isnan(arm.mean)) for arm in few.arms] == [(19, True), (19, True)]
    assert few.arms[1].difference is not None
    assert math.isnan(few.arms[1].difference.at)
    assert not few.guardrails[0].known
    assert few.state == "running"
    assert few.sentence.endswith("Revision 2 so far: too little is known yet of spent.")
    assert all(math.isnan(one.at) for point in small.points().items for one in point.differences)
    small.served(1, [1.0], values=[{"spent": 0.0}])
    small.served(2, [1.0], values=[{"spent": 100.0}])
    small.step()
    assert [arm.mean for arm in small.show().arms] == [0.0, 100.0]


def test_units_that_do_not_fit_the_shares_stop_verdicts_and_are_told_once(tested: Contested) -> None:
    tested.begun(on_win="promote", days=1)
    for _ in range(4):
        tested.round({1: (20, 40), 2: (160, 200)})
    tested.step()
    tested.round({1: (20, 40), 2: (160, 200)})
    tested.step()
    after = tested.show()
    assert (after.state, after.arms[1].word) == ("running", "mismatch")
    assert "shares are as 50 to 50" in after.mismatch
    assert [leaf.facts["verdict"] for leaf in tested.platform.leaves("abtest.stop")] == ["mismatch"]
    tested.step(86_401)
    assert tested.show().state == "mismatch"
    assert tested.shares() == {1: 10_000}


def test_several_candidates_share_what_may_go_wrong_and_a_loser_leaves_first(tested: Contested) -> None:
    tested.begun(2, 3, on_win="promote")
    for _ in range(4):
        tested.round({1: (70, 100), 2: (20, 100), 3: (72, 100)})
        tested.step()
    now = tested.show()
    assert (now.state, [arm.word for arm in now.arms]) == ("running", ["open", "loser", "open"])
    assert tested.shares() == {1: 5001, 3: 4999}
    assert tested.platform.leaves("abtest.stop")[0].facts["revision"] == 2
    units = now.arms[1].units
    for _ in range(8):
        tested.round({1: (60, 100), 3: (95, 100)})
        tested.step()
    after = tested.show()
    assert (after.state, after.arms[2].word, after.arms[1].units) == ("won", "winner", units)
    assert tested.shares() == {3: 10_000}


def test_a_loser_that_keeps_its_share_is_on_record_once_as_it_loses_and_with_the_end(small: Contested) -> None:
    small.begun(2, 3, on_loss="tell")
    for _ in range(4):
        small.round({1: (70, 100), 2: (20, 100), 3: (72, 100)})
        small.step()
    assert (small.show().state, small.shares()) == ("running", {1: 3334, 2: 3333, 3: 3333})
    [leaf] = [one for one in small.platform.leaves("abtest.stop") if one.facts["verdict"] == "loser"]
    assert (leaf.facts["verdict"], leaf.facts["revision"], leaf.facts["acted"]) == ("loser", 2, "Nothing was done by itself.")
    for _ in range(8):
        small.round({1: (60, 100), 3: (95, 100)})
        small.step()
    assert small.show().state == "won"
    ended, *before = small.platform.leaves("abtest.stop")
    assert (ended.facts["verdict"], ended.facts["of"]) == ("won", {"2": "loser", "3": "winner"})
    assert [one.facts["verdict"] for one in before].count("loser") == 1


def test_calls_that_fail_break_a_guardrail_without_any_label(tested: Contested) -> None:
    tested.begun(guardrails=(Guardrail(of="errors", worst=0.02),))
    tested.clock.forward(10_000_000)
    tested.plane.report(said(tested.endpoint, 1, requests=500, errors=5), said(tested.endpoint, 2, requests=500, errors=100))
    tested.step(30)
    after = tested.show()
    assert after.state == "broken"
    assert after.guardrails[0].broken
    assert after.guardrails[0].low > 0.02
    assert "calls with errors are 20.00% against 1.00%" in after.sentence
    assert tested.shares() == {1: 10_000}


def test_failing_calls_that_were_sent_to_a_candidate_on_purpose_break_no_guardrail(small: Contested) -> None:
    small.begun(guardrails=(Guardrail(of="errors", worst=0.02),))
    small.clock.forward(10_000_000)
    failing = PinnedReport(requests=5000, errors=5000)
    small.plane.report(said(small.endpoint, 1, requests=500, errors=5), said(small.endpoint, 2, requests=500, pinned=failing))
    small.step(30)
    after = small.show()
    assert (after.state, after.guardrails[0].known, after.guardrails[0].candidate) == ("running", True, 0.0)


def test_a_metric_can_be_a_guardrail(small: Contested) -> None:
    cost = Metric(of="value", value="cost", kind="bounded", low=0, high=10, better="lower")
    small.begun(guardrails=(Guardrail(of="metric", metric=cost, worst=1.0),), on_win="promote")
    for _ in range(4):
        for revision, costs in ((1, 2.0), (2, 7.0)):
            small.served(revision, [1.0, 0.0] * 50, values=[{"cost": costs}] * 100)
        small.step()
    after = small.show()
    assert (after.state, after.arms[1].word) == ("broken", "broken")
    assert after.guardrails[0].candidate == pytest.approx(7.0)


def test_a_name_that_no_label_has_is_remarked_before_and_holds_nothing(small: Contested) -> None:
    small.served(1, [1.0, 0.0] * 10, values=[{"cost": 1.0}, {"cost": 2.0}] * 10)
    rails = [Metric(of="value", value=name, kind="mean", better="lower") for name in ("cost", "nope")]
    made = small.begin(guardrails=tuple(Guardrail(of="metric", metric=one, worst=0.5) for one in rails))
    assert "Right predictions of revision 1: 50.00% over 20 units lately." in made.expected.sentences
    assert any("Labels are known for 0 seconds only" in one for one in made.expected.sentences)
    assert [one for one in made.expected.sentences if "No label has" in one] == [
        "No label has a value 'nope' yet: look whether it is spelled so."
    ]
    assert not any(one.known or one.broken for one in made.guardrails)


def test_a_ratio_of_two_values_is_held_against_the_incumbents(small: Contested) -> None:
    small.begun(metric=Metric(of="value", value="spent", per="visits", kind="mean"))
    for _ in range(8):
        for revision, ratio in ((1, 2.0), (2, 3.0)):
            some = [{"spent": ratio * visits + (visits % 2), "visits": float(visits)} for visits in range(1, 101)]
            small.served(revision, [0.0] * 100, values=some)
        small.step()
    after = small.show()
    assert (after.state, after.metric) == ("won", "spent per visits")
    assert after.arms[1].difference is not None
    assert after.arms[1].difference.low <= 1.0 <= after.arms[1].difference.high


def test_labels_that_come_revision_by_revision_decide_nothing_where_there_is_no_difference(small: Contested) -> None:
    """As from a file that is sorted by revision, or from one sender for each."""
    small.begun(on_win="promote")
    for _ in range(3):
        for revision in (1, 2):
            small.served(revision, [1.0] * 20 + [0.0] * 180)
            small.step()
    after = small.show()
    assert (after.state, after.units) == ("running", 1200)
    assert after.arms[1].difference is not None
    assert after.arms[1].difference.at == pytest.approx(0.0)


def test_a_candidate_that_is_out_is_held_against_what_the_incumbent_brought_until_then(small: Contested) -> None:
    small.begun(2, 3, on_loss="tell")
    for _ in range(3):
        small.round({1: (70, 100), 2: (10, 100), 3: (70, 100)})
    small.step()
    then = small.show().arms[1]
    assert then.word == "loser"
    small.round({1: (0, 100), 3: (0, 100)})
    small.step()
    assert small.show().arms[1].difference == then.difference


class Unreadable(LabelService):
    """Labels of one endpoint are in a storage that does not answer."""

    def __init__(self, labels: LabelService, endpoint: str) -> None:
        self._others, self._endpoint = labels, endpoint

    def rows(self, context: Context, endpoint: Found, batches: Sequence[Found]) -> list[Joined]:
        if endpoint.id == self._endpoint and batches:
            raise Unavailable("The storage does not answer.")
        return self._others.rows(context, endpoint, batches)


def test_a_test_whose_labels_cannot_be_read_waits_and_holds_up_no_other(small: Contested) -> None:
    platform, running = small.platform, small.platform.app.monitoring._abtests
    small.begun()
    platform.deployed(2, name="other")
    options = Options(log_share=10_000)
    platform.call(CONFIGURE, Configure(project=PROJECT, endpoint="other", options=options))
    design = Design(candidates=(Candidate(revision=1),), days=1)
    platform.call(declared.CREATE_ABTEST, declared.CreateAbtest(project=PROJECT, endpoint="other", name="other", design=design))
    small.round({1: (50, 100), 2: (90, 100)})
    labels, running._labels = running._labels, Unreadable(running._labels, small.endpoint.id)
    small.step(2 * 86_400)
    assert (small.show().state, small.show("other").state) == ("running", "over")
    running._labels = labels
    small.step(1)
    assert small.show().state == "running"
    small.step(30)
    assert (small.show().state, small.show().units) == ("won", 200)


@pytest.mark.parametrize("waiting", [1, 11])
def test_labels_that_came_before_the_end_decide_though_nobody_looked_until_after_it(small: Contested, waiting: int) -> None:
    small.begun(days=1)
    for _ in range(waiting):
        small.served(1, [0.0] * (240 // waiting))
        small.served(2, [1.0] * (240 // waiting))
    small.step(2 * 86_400)
    assert small.show().state == "won"


def test_labels_that_came_after_the_end_do_not_count(small: Contested) -> None:
    small.begun(days=1)
    small.clock.forward(2 * DAY)
    small.round({1: (0, 200), 2: (200, 200)})
    small.step()
    assert (small.show().state, small.show().units) == ("over", 0)


def test_labels_that_nobody_can_read_do_not_keep_a_test_open_for_ever(small: Contested) -> None:
    running = small.platform.app.monitoring._abtests
    small.begun(days=1)
    small.round({1: (0, 200), 2: (200, 200)})
    running._labels = Unreadable(running._labels, small.endpoint.id)
    small.step(86_400 + 60)
    assert small.show().state == "running"
    small.step(86_400)
    assert small.show().state == "over"


# Somebody else


def test_a_split_that_somebody_changes_overtakes_the_test_and_stays(tested: Contested) -> None:
    tested.begun(on_win="promote")
    for _ in range(4):
        tested.round({1: (50, 100), 2: (80, 100)})
    tested.platform.split(live(1, 9000), live(3, 1000))
    tested.step()
    after = tested.show()
    assert (after.state, after.ended_by) == ("overtaken", None)
    assert tested.shares() == {1: 9000, 3: 1000}
    assert tested.platform.leaves("abtest.stop")[0].facts["verdict"] == "overtaken"
    tested.begin(2, 3, name="another")


def test_setting_how_an_endpoint_answers_does_not_overtake_a_test(small: Contested) -> None:
    small.begun()
    options = Options(log_share=10_000, latency_ms=50)
    small.platform.call(CONFIGURE, Configure(project=PROJECT, endpoint="scores", options=options))
    small.step(60)
    assert small.show().state == "running"


def test_a_test_of_an_endpoint_that_is_deleted_ends(small: Contested) -> None:
    small.begun()
    small.platform.call(DELETE_ENDPOINT, OneEndpoint(project=PROJECT, endpoint="scores"))
    small.step()
    assert small.show().state == "overtaken"


def test_somebody_may_stop_a_test_and_go_back_or_stay(tested: Contested) -> None:
    tested.begun()
    stopped = tested.stop()
    assert (stopped.state, stopped.acted) == ("stopped", "The split is back to what it was before the test.")
    assert stopped.ended_by is not None
    assert tested.shares() == {1: 10_000}
    with pytest.raises(Conflict, match="over already"):
        tested.stop()
    tested.begun(name="second")
    assert tested.stop("second", then="tell").acted == "The split stays as it is."
    assert tested.shares() == {1: 5000, 2: 5000}
    listed = tested.platform.call(declared.LIST_ABTESTS, declared.ListAbtests(project=PROJECT, limit=1))
    assert [one.name for one in listed.items] == ["second"]
    rest = declared.ListAbtests(project=PROJECT, endpoint="scores", cursor=listed.next)
    assert [one.name for one in tested.platform.call(declared.LIST_ABTESTS, rest).items] == ["trial"]


# What is refused


REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"confidence": 1.0}, Invalid, "confidence is 1.0"),
    ({"confidence": 0.2}, Invalid, "confidence is 0.2"),
    ({"power": 0.0}, Invalid, "power is 0.0"),
    ({"incumbent": 2}, Invalid, "cannot be a candidate and the incumbent"),
    ({"incumbent": 3}, Conflict, "Revision 3 answers nothing now"),
    ({"incumbent": 9}, Invalid, "has no revision 9"),
    ({"least_effect": 2.0}, Invalid, "cannot change by 2.0"),
    ({"metric": Metric(of="value")}, Invalid, "goes with `value`"),
    ({"metric": Metric(value="x")}, Invalid, "goes with `value`"),
    ({"metric": Metric(kind="bounded", low=2.0)}, Invalid, "bounded by 2.0 and 1.0"),
    ({"metric": Metric(kind="bounded", high=1e-200)}, Invalid, "in another unit"),
    ({"metric": Metric(kind="bounded", low=-1e300, high=1e300)}, Invalid, "in another unit"),
    ({"metric": Metric(of="value", value="x", per="y")}, Invalid, "needs the kind `mean`"),
    ({"metric": Metric(of="value", value="x", covariate="y")}, Invalid, "needs the kind `mean`"),
    ({"metric": Metric(of="value", value="x", per="x", kind="mean")}, Invalid, "by itself"),
    ({"guardrails": (Guardrail(of="metric"),)}, Invalid, "needs metric"),
    ({"guardrails": (Guardrail(of="errors", metric=Metric()),)}, Invalid, "has no metric"),
    ({"guardrails": (Guardrail(of="slow", worst=1.0),)}, Invalid, "cannot rise by 1.0"),
    ({"candidates": (Candidate(revision=7),)}, Invalid, "has no revision 7"),
    ({"candidates": (Candidate(revision=2), Candidate(revision=2))}, Invalid, "named twice"),
    ({"candidates": (Candidate(revision=2, share=10), Candidate(revision=3))}, Invalid, "or none of them"),
    ({"candidates": (Candidate(revision=2, share=10_000),)}, Invalid, "leave something for the incumbent"),
]


def test_what_cannot_be_tested_is_refused_and_nothing_changes(small: Contested) -> None:
    before = small.platform.show()
    for fields, error, words in REFUSED:
        design = Design(**({"candidates": (Candidate(revision=2),)} | fields))
        with pytest.raises(error, match=words):
            small.platform.call(declared.PLAN_ABTEST, declared.PlanAbtest(project=PROJECT, endpoint="scores", design=design))
        with pytest.raises(error, match=words):
            small.platform.call(
                declared.CREATE_ABTEST, declared.CreateAbtest(project=PROJECT, endpoint="scores", design=design)
            )
    assert small.platform.show() == before
    assert small.platform.call(declared.LIST_ABTESTS, declared.ListAbtests(project=PROJECT)).items == ()


def test_there_is_one_test_at_a_time_and_a_name_is_given_once(tested: Contested) -> None:
    tested.begin()
    with pytest.raises(Conflict, match="'trial' goes on"):
        tested.begin(3, name="second")
    tested.stop()
    before = tested.shares()
    with pytest.raises(Conflict, match="of the name 'trial' already"):
        tested.begin()
    assert tested.shares() == before


def test_a_canary_that_grows_an_arm_beside_or_calls_that_nobody_logs_are_refused(small: Contested) -> None:
    small.platform.split(live(1, 5000), live(3, 5000))
    with pytest.raises(Conflict, match="Revision 1 of 'scores' has a part"):
        small.begin(2, incumbent=3)
    small.platform.deploy(1, mode="canary", steps=Steps(shares=(1000, 10_000), seconds=60))
    with pytest.raises(Conflict, match="grows by itself"):
        small.begin(1, 3, 4)
    small.platform.promote(1)
    small.platform.call(CONFIGURE, Configure(project=PROJECT, endpoint="scores", options=Options()))
    with pytest.raises(Conflict, match="not logged"):
        small.begin()


def test_what_policy_would_not_let_a_winner_have_is_asked_before_the_test_begins(small: Contested) -> None:
    small.platform.policy(
        'forbid(principal, action == Action::"endpoint.deploy", resource) '
        "when { context has deployment && context.deployment.share > 6000 && context.deployment.version == 2 };"
    )
    before = small.platform.show()
    with pytest.raises(Forbidden, match="Version 2 of model 'fraud' may not answer"):
        small.begin(on_win="promote")
    assert small.platform.show() == before
    small.begin(on_win="tell")


def test_a_winner_that_policy_does_not_let_answer_any_more_is_told_of_and_not_promoted(tested: Contested) -> None:
    tested.begun(on_win="promote")
    tested.platform.policy(
        'forbid(principal, action == Action::"endpoint.deploy", resource) '
        "when { context has deployment && context.deployment.share > 6000 && context.deployment.version == 2 };"
    )
    for _ in range(4):
        tested.round({1: (50, 100), 2: (80, 100)})
    tested.step()
    after = tested.show()
    assert (after.state, tested.shares()) == ("won", {1: 5000, 2: 5000})
    assert after.acted.startswith("The split stays as it is: owner, who began the test, may not promote it any more.")
    assert "Version 2 of model 'fraud' may not answer" in after.acted
    assert tested.platform.leaves("abtest.stop")[0].facts["acted"] == after.acted


def test_who_began_a_test_and_left_promotes_nothing_by_it(small: Contested) -> None:
    platform = small.platform
    emma = platform.person("emma", Role.ENGINEER)
    small.begun(on_win="promote", token=emma)
    platform.call(REMOVE_MEMBER, RemoveMember(project=PROJECT, member="emma", role=Role.ENGINEER))
    for _ in range(4):
        small.round({1: (50, 100), 2: (80, 100)})
    small.step()
    assert (small.show().state, small.shares()) == ("won", {1: 5000, 2: 5000})


def test_going_back_from_a_test_takes_the_right_to_roll_back_and_ending_it_does_not(small: Contested) -> None:
    platform = small.platform
    emma = platform.person("emma", Role.ENGINEER)
    narrow = platform.call(CREATE_TOKEN, CreateToken(scopes=("monitor.write", "monitor.read")), emma).token
    small.begun()
    with pytest.raises(Forbidden):
        small.stop(token=narrow)
    assert (small.show().state, small.shares()) == ("running", {1: 5000, 2: 5000})
    allowed = platform.call(CREATE_TOKEN, CreateToken(scopes=("monitor.write", "endpoint.roll-back")), emma).token
    small.stop(token=allowed)
    assert small.shares() == {1: 10_000}
    small.begun(name="second")
    assert small.stop("second", token=narrow, then="tell").state == "stopped"


def test_a_candidate_that_had_a_part_before_has_none_after_going_back(small: Contested) -> None:
    small.platform.split(live(1, 9000), live(2, 1000))
    small.begun()
    small.stop()
    assert small.shares() == {1: 10_000}


def test_outsiders_find_nothing_and_readers_change_nothing(tested: Contested) -> None:
    made = tested.begin()
    tested.platform.project("elsewhere")
    stranger = tested.platform.person("stranger", Role.ADMIN, project="elsewhere")
    for which in (made.id, "trial"):
        request = declared.OneAbtest(project="elsewhere", abtest=which)
        with pytest.raises(NotFound):
            tested.platform.call(declared.SHOW_ABTEST, request, stranger)
        with pytest.raises(NotFound):
            tested.platform.call(declared.STOP_ABTEST, declared.StopAbtest(project="elsewhere", abtest=which), stranger)
        with pytest.raises((Forbidden, NotFound)):
            tested.show(which, stranger)
    reader = tested.platform.person("reader", Role.VIEWER)
    assert tested.show(token=reader).id == made.id
    with pytest.raises(Forbidden):
        tested.stop(token=reader)
    with pytest.raises(Forbidden):
        tested.begin(3, token=reader, name="other")
    assert tested.shares() == {1: 5000, 2: 5000}
