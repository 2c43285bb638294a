"""Whatever happens in whatever order, a run comes to the same end: decisions are pure, and played with made-up outcomes."""

import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from falaj.base.clock import SECOND, Moment
from falaj.lifecycle.checking import needs_of
from falaj.lifecycle.deciding import ALONE, OVER, Failure, Key, Outcome, Plan, Snapshot, Standing, decide, outline_of
from falaj.lifecycle.operations.words import Definition, Function, Step
from tests.lifecycle.playing import keep, op, ref

START = Moment.parse("2026-11-15T09:00:00Z")
FUNCTION = Function(file="flow.py", name="work", code="0" * 64)


class Play:
    """A run without a platform: what is under way ends when the player says so."""

    def __init__(self, *steps: Step) -> None:
        definition = Definition(steps=steps, source="0" * 64)
        self.outline = outline_of(definition, frozenset(step.name for step in steps))
        self.standings: dict[Key, Standing] = {}
        self.now = START
        self.began: list[tuple[Key, int]] = []

    def round(self, outcomes: dict[Key, Outcome] | None = None, *, stopping: bool = False) -> Plan:
        snapshot = Snapshot(
            id="run",
            outline=self.outline,
            parameters={},
            stopping=stopping,
            standings=self.standings,
            outcomes=outcomes or {},
        )
        plan = decide(snapshot, self.now)
        for one in plan.changed:
            before = self.standings.get(one.key)
            if one.state == "running" and (before is None or before.attempt != one.attempt):
                self.began.append((one.key, one.attempt))
        self.standings = {**self.standings, **{one.key: one for one in plan.changed}}
        return plan

    def under_way(self) -> list[Standing]:
        each = {step.name for step in self.outline.steps.values() if step.each is not None}
        return [
            one for one in self.standings.values() if one.state == "running" and (one.item != ALONE or one.name not in each)
        ]

    def to_the_end(self, chance: random.Random, fails: float = 0.0) -> Plan:
        for _ in range(2000):
            plan = self.round(self._some(chance, fails))
            self.now = Moment(self.now + 1000 * SECOND)
            if plan.end is not None:
                return plan
        raise AssertionError("it never ended")

    def _some(self, chance: random.Random, fails: float) -> dict[Key, Outcome]:
        open_ = self.under_way()
        chosen = chance.sample(open_, chance.randint(0, len(open_))) if open_ else []
        bad = Failure(family="lost", words="gone")
        return {
            one.key: Outcome(attempt=one.attempt, over=True, result=f"{one.name}{one.item}")
            if chance.random() >= fails
            else Outcome(attempt=one.attempt, over=True, failure=bad)
            for one in chosen
        }


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Step, ...]:
    """Steps that speak of some of those before them; some are done for each of a list, some have a condition."""
    steps: list[Step] = []
    for number in range(draw(st.integers(1, 8))):
        names = [step.name for step in steps]
        spoken = draw(st.lists(st.sampled_from(names), max_size=3)) if names else []
        arguments = {f"a{place}": ref(f"steps.{name}") for place, name in enumerate(spoken)}
        each = draw(st.sampled_from([None, None, [], [1, 2, 3]]))
        when = draw(st.sampled_from([True, True, False]))
        retries = draw(st.integers(0, 2))
        step = Step(name=f"s{number}", kind="function", function=FUNCTION, arguments=arguments, each=each, when=when)
        steps.append(replace(step, retries=retries, at_once=draw(st.integers(1, 3)), seconds=0))
    return tuple(steps)


@given(graphs(), st.integers(0, 10**6))
def test_the_order_in_which_things_end_changes_nothing(steps: tuple[Step, ...], seed: int):
    ends = []
    for chance in (random.Random(seed), random.Random(seed + 1)):
        play = Play(*steps)
        plan = play.to_the_end(chance)
        ends.append((plan.end, {key: (one.state, one.result) for key, one in play.standings.items()}))
        assert len(play.began) == len(set(play.began))  # nothing is begun twice
    assert ends[0] == ends[1]
    assert ends[0][0] == "done"


@given(graphs(), st.integers(0, 10**6))
def test_nothing_begins_before_what_it_needs_and_every_run_ends(steps: tuple[Step, ...], seed: int):
    play, chance = Play(*steps), random.Random(seed)
    by_name = {step.name: step for step in steps}
    for _ in range(2000):
        plan = play.round(play._some(chance, 0.3))
        for one in plan.changed:
            if one.state == "running":
                needs = needs_of(by_name[one.name])
                assert all(play.standings[need, ALONE].state == "done" for need in needs)
        if plan.end is not None:
            break
        play.now = Moment(play.now + 1000 * SECOND)
    assert plan.end in ("done", "failed")
    assert not play.under_way()
    if plan.end == "done":
        assert all(one.state in OVER for one in play.standings.values())


@given(graphs(), st.integers(0, 10**6))
def test_the_same_decided_again_changes_nothing(steps: tuple[Step, ...], seed: int):
    """So it may be decided again by whoever comes after a kill."""
    play, chance = Play(*steps), random.Random(seed)
    for _ in range(10):
        outcomes = play._some(chance, 0.2)
        before = play.standings
        first = play.round(outcomes)
        play.standings = before
        second = play.round(outcomes)
        assert first == second


def test_what_was_said_of_an_earlier_try_counts_for_nothing():
    play = Play(Step(name="work", kind="function", function=FUNCTION, retries=1, on=("lost",)))
    play.round()
    play.round({("work", ALONE): Outcome(attempt=1, over=True, failure=Failure(family="lost", words="gone"))})
    play.now = Moment(play.now + 3600 * SECOND)
    play.round()
    late = Outcome(attempt=1, over=True, result="of before")
    assert play.round({("work", ALONE): late}).end is None
    assert play.round({("work", ALONE): Outcome(attempt=2, over=True, result="new")}).end == "done"
    assert play.standings["work", ALONE].result == "new"


def test_a_result_of_another_kind_is_a_failure_that_names_both():
    play = Play(Step(name="work", kind="function", function=FUNCTION, result="dataset"))
    play.round()
    plan = play.round({("work", ALONE): Outcome(attempt=1, over=True, result="flights")})
    assert plan.end == "failed"
    assert "'dataset'" in plan.words
    assert "flights" in plan.words


def test_one_that_fails_lets_what_is_under_way_end_and_begins_nothing_more():
    play = Play(
        Step(name="bad", kind="function", function=FUNCTION),
        Step(name="good", kind="function", function=FUNCTION),
        Step(name="ask", kind="approval", question="?"),
        keep("behind", op("count", [ref("steps.good")])),
    )
    play.round()
    plan = play.round({("bad", ALONE): Outcome(attempt=1, over=True, failure=Failure(family="permanent", words="no"))})
    assert plan.end is None
    plan = play.round({("good", ALONE): Outcome(attempt=1, over=True, result=1)})
    assert (plan.end, plan.words) == ("failed", "bad: no")
    states = {one.name: one.state for one in play.standings.values()}
    assert states == {"bad": "failed", "good": "done", "ask": "cancelled", "behind": "cancelled"}


def test_what_is_being_called_is_not_given_up_before_it_is_known_whether_it_was():
    """A job that nobody knew of would run beside the next one."""
    play = Play(Step(name="work", kind="function", function=FUNCTION, seconds=60))
    play.round()
    play.now = Moment(play.now + 3600 * SECOND)
    assert play.round().end is None
    later = {"due": Moment(play.now + 10 * SECOND)}
    plan = play.round({("work", ALONE): Outcome(attempt=1, news=later)})
    assert (plan.end, plan.words) == ("failed", "work: It was not over after 60 seconds.")


def test_the_time_of_a_job_is_not_counted_here():
    play = Play(Step(name="work", kind="function", function=FUNCTION, seconds=60))
    play.round()
    play.round({("work", ALONE): Outcome(attempt=1, news={"job": "0" * 32})})
    play.now = Moment(play.now + 3600 * SECOND)
    plan = play.round()
    assert (plan.end, plan.changed) == (None, ())


def test_what_could_not_be_called_ends_with_the_run_and_what_may_have_been_is_waited_for():
    play = Play(
        Step(name="put-off", kind="function", function=FUNCTION),
        Step(name="called", kind="function", function=FUNCTION),
    )
    play.round()
    play.round({("put-off", ALONE): Outcome(attempt=1, news={"due": Moment(play.now + 10 * SECOND)})})
    assert play.round(stopping=True).end is None
    assert {one.name: one.state for one in play.standings.values()} == {"put-off": "cancelled", "called": "running"}
