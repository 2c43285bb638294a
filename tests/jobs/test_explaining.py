"""Why a job waits, and when it will start: a sentence that names rule and share, hints that were tried, nothing of others."""

from typing import Any

import pytest

from falaj.base.clock import SECOND, Moment
from falaj.base.errors import Invalid, NotFound
from falaj.jobs.operations.queues import CohortSpec, QueueSpec, QuotaOf
from falaj.jobs.operations.words import Resources
from falaj.jobs.orders import read_order
from falaj.jobs.scheduler.values import Job
from falaj.jobs.scheduler.wording import sentence
from falaj.jobs.store import nodes
from tests.jobs.asking import eta, explainer, facts_of, set_queues, why
from tests.jobs.cluster import Cluster, run, settle

FOUR = Resources(cpus=4)


def is_sentence(words: str) -> bool:
    return words[:1].isupper() and words.endswith(".") and "\n" not in words


def quota(cpus: int, **more: int) -> tuple[QuotaOf, ...]:
    return (QuotaOf(resource="cpu", nominal=cpus * 1000, **more),)


def test_one_that_waits_for_room_is_told_so_and_what_would_start_now(cluster: Cluster):
    controller = cluster.controller()
    held = [cluster.submit("500", resources=Resources(cpus=3)) for _ in range(2)]
    settle(controller)
    mine = cluster.submit("5", resources=Resources(cpus=2))
    settle(controller)
    told = why(cluster, mine)
    assert (told.state, told.rule, told.before, told.ahead) == ("waiting", "room", 0, ())
    assert told.sentence == "No host has room now for 2 cores, 1 GiB of memory."
    assert told.hints[0] == "With 1 CPU instead of 2 it would start now."
    assert all(map(is_sentence, told.hints))
    (cpu, _memory) = told.shares
    assert (cpu.resource, cpu.asked, cpu.free) == ("cpu", 2000, 2000)
    assert why(cluster, held[0]).rule != "room"


def test_one_that_waits_for_quota_is_told_the_share_and_who_can_change_it(small: Cluster):
    set_queues(small, QueueSpec(name="default", quotas=quota(2)))
    controller = small.controller()
    settle(controller)
    small.submit("500", resources=Resources(cpus=2))
    settle(controller)
    told = why(small, small.submit("5"))  # the controller has not heard of it yet
    assert (told.rule, told.shares[0].nominal, told.shares[0].used) == ("quota", 2000, 2000)
    assert told.sentence == "It needs 1 core; queue default uses 2 cores of its 2 cores and nothing is left to borrow."
    assert told.hints == ("An operator can give the queue default more, or let it borrow more, with `falaj queue apply`.",)


def drain(cluster: Cluster, *names: str) -> None:
    now = cluster.clock.now()
    for name in names:
        assert cluster.database.write(lambda work, name=name: nodes.drain(work, name, draining=True, stopping=False, now=now))


def test_one_that_keeps_apart_is_told_of_the_label_where_there_is_room(small: Cluster):
    controller = small.controller()
    small.submit("500", resources=Resources(cpus=3), label="a")
    small.submit("500", resources=FOUR)
    settle(controller)
    mine = small.submit("5", apart_from=("a", "b"))
    shunned = small.submit("5", label="a", apart_from=("a",))
    told = why(small, mine)
    where = "There is room for 1 core, 1 GiB of memory, but on n1 runs a job labelled a, which it keeps apart from."
    assert (told.rule, told.sentence) == ("room", where)
    assert told.hints[0] == "Beside jobs labelled a or b (without `--apart-from`) it would start now."
    assert why(small, shunned).sentence == where
    assert why(small, small.submit("5", resources=Resources(cpus=2), apart_from=("a",))).sentence.startswith("No host has room")


def test_one_that_others_keep_apart_from_is_told_so(small: Cluster):
    controller = small.controller()
    for _ in range(2):
        small.submit("500", resources=Resources(cpus=3), apart_from=("web",))
    settle(controller)
    assert why(small, small.submit("5", label="web")).sentence == (
        "There is room for 1 core, 1 GiB of memory, but on each of n1 and n2 runs a job that keeps apart from "
        "those labelled web."
    )


def test_one_for_which_only_drained_hosts_have_room_is_told_which_and_who_resumes_them(small: Cluster):
    controller = small.controller()
    settle(controller)
    drain(small, "n1", "n2")
    job = small.submit("5")
    told = why(small, job)
    assert (told.rule, told.hints) == ("room", ()), "nothing runs that could end"
    assert told.sentence == (
        "No host has room now for 1 core, 1 GiB of memory. Hosts n1 and n2 have room for it but are drained: "
        "an operator resumes each with `falaj node resume NAME`."
    )
    assert eta(small, job).reason == told.sentence
    plan = explainer(small).planned(planned_job(small, resources=FOUR), small.clock.now())
    assert "Hosts n1 and n2 have room for it but are drained" in plan.forecast.reason
    wide = explainer(small).planned(planned_job(small, tasks=2), small.clock.now())
    assert "Hosts n1 and n2 have room for tasks of it but are drained" in wide.forecast.reason


def test_a_drained_host_without_room_is_not_blamed(small: Cluster):
    controller = small.controller()
    for _ in range(2):
        small.submit("500", resources=Resources(cpus=3))
    settle(controller)
    drain(small, "n1")
    told = why(small, small.submit("5", resources=Resources(cpus=2)))
    assert told.sentence == "No host has room now for 2 cores, 1 GiB of memory."
    assert told.hints[-1] == "It starts when jobs that run end or give back; `falaj job eta` says when that is likely."
    drain(small, "n2")
    assert why(small, small.submit("5")).sentence.startswith(
        "No host has room now for 1 core, 1 GiB of memory. Hosts n1 and n2"
    )


def test_more_quota_is_not_hinted_at_where_every_host_is_drained(small: Cluster):
    set_queues(small, QueueSpec(name="default", quotas=quota(2)))
    controller = small.controller()
    settle(controller)
    small.submit("500", resources=Resources(cpus=2))
    settle(controller)
    job = small.submit("5")
    drain(small, "n1", "n2")
    told = why(small, job)
    assert (told.rule, told.hints) == ("quota", ())
    assert told.sentence.endswith(
        "nothing is left to borrow. Hosts n1 and n2 are drained, and it could run nowhere else: "
        "an operator resumes each with `falaj node resume NAME`."
    )


def lending(cluster: Cluster, lender: int, borrower: int) -> None:
    cohorts = (CohortSpec(name="all"),)
    shares = (("default", lender), ("guests", borrower))
    set_queues(cluster, *(QueueSpec(name=name, cohort="all", quotas=quota(cpus)) for name, cpus in shares), cohorts=cohorts)


def test_one_whose_share_is_lent_is_told_to_which_queue_and_when_it_is_asked_back(small: Cluster):
    lending(small, 4, 4)
    controller = small.controller(real=True)
    settle(controller)
    for _ in range(2):
        small.submit("500", resources=FOUR, queue="guests")
    settle(controller)
    run(small, controller, 5)
    told = why(small, small.submit("5", resources=FOUR))
    assert (told.shares[0].nominal, told.shares[0].used, told.shares[0].lent) == (4000, 0, 4000)
    assert told.sentence == (
        "Queue guests borrows the share of queue default; it is asked back at 2026-11-15T09:01:00Z, "
        "after the least run that every start has."
    )


def test_one_that_may_not_be_preempted_is_told_that_it_cannot_borrow_and_that_it_could(small: Cluster):
    lending(small, 2, 6)
    controller = small.controller(real=True)
    settle(controller)
    small.submit("500", resources=Resources(cpus=2))
    settle(controller)
    told = why(small, small.submit("5", preemptible=False))
    assert told.sentence == (
        "It needs 1 core; queue default uses 2 cores of its 2 cores and one that may not be preempted cannot borrow."
    )
    assert told.hints == (
        "If it might be preempted (without `--not-preemptible`) it could borrow, and would start now.",
        "An operator can give the queue default more with `falaj queue apply`.",
    )
    with pytest.raises(Invalid, match="let it be preempted, ask for less, or for more quota"):
        explainer(small).planned(planned_job(small, resources=FOUR, preemptible=False), small.clock.now())


def test_a_start_at_once_says_that_it_borrows(small: Cluster):
    lending(small, 1, 7)
    settle(small.controller())
    plan = explainer(small).planned(planned_job(small, resources=FOUR), small.clock.now())
    assert plan.forecast.reason == "It starts with a share that others lend."


def test_those_before_it_are_counted_and_only_ones_own_are_named(small: Cluster):
    controller = small.controller()
    small.submit("500", resources=FOUR)
    small.submit("500", resources=FOUR)
    settle(controller)
    rows = [small.row("5", resources=FOUR, name=f"job {number}") for number in range(4)]
    rows[1]["project"] = "f" * 32
    small.clock.forward(1)  # type: ignore[attr-defined]
    small.add(rows)
    told = why(small, str(rows[3]["id"]))
    assert told.before >= 2
    assert told.ahead == (rows[0]["id"], rows[2]["id"])
    assert all(secret not in repr(told) for secret in ("f" * 32, str(rows[1]["id"])))


def test_one_of_another_project_is_as_unknown_as_one_that_is_not_there(small: Cluster):
    row = small.row("5")
    row["project"] = "f" * 32
    small.add([row])
    with pytest.raises(NotFound, match="There is no job"):
        why(small, str(row["id"]))
    with pytest.raises(NotFound, match="There is no job"):
        eta(small, "0" * 32)


def test_one_that_is_over_says_how_it_ended(small: Cluster):
    controller = small.controller()
    job = small.submit("1", "failed", retries=0)
    settle(controller)
    run(small, controller, 2)
    told = why(small, job)
    assert (told.state, told.rule) == ("failed", "failed")
    assert is_sentence(told.sentence)
    assert eta(small, job).reason == "It is over: failed."


def test_one_that_is_tried_again_later_says_when(small: Cluster):
    controller = small.controller()
    job = small.submit("1", "failed", retries=3)
    settle(controller)
    run(small, controller, 1)
    told = why(small, job)
    assert told.rule == "retry"
    assert told.sentence.startswith("It is tried again at 2026-11-15T09:00:")
    assert told.hints == ()


def test_a_start_is_foreseen_from_what_others_like_those_that_run_took(small: Cluster):
    controller = small.controller()
    for _ in range(5):
        small.submit("600", resources=FOUR, kin="sweep")
        settle(controller)
        run(small, controller, 601, each=200.0)
        run(small, controller, 2)
    for _ in range(2):
        small.submit("600", resources=FOUR, kin="sweep")
    settle(controller)
    run(small, controller, 300, each=100.0)
    mine = small.submit("5", resources=FOUR)
    settle(controller)
    assert set(facts_of(small).recent.learned["sweep"]) == {600 * SECOND}
    found = eta(small, mine)
    assert found.earliest is not None
    assert found.expected is not None
    assert abs(found.expected - (small.clock.now() + 300 * SECOND)) < 240 * SECOND
    assert is_sentence(found.reason)


def test_facts_hold_what_the_controller_would_be_told_of_durations_and_past_use(small: Cluster):
    controller = small.controller()
    for _ in range(3):
        small.submit("60", kin="sweep")
        settle(controller)
        run(small, controller, 62, each=31.0)
    run(small, controller, 61, each=61.0)
    learned = small.submit("60", kin="sweep")
    declared = small.submit("60", kin="sweep", seconds=500)
    found = facts_of(small)
    durations = {job.id: job.duration for job in found.waiting}
    assert durations == {learned: 60 * SECOND, declared: 500 * SECOND}
    assert [(past.queue, past.project, past.user) for past in found.past] == [("default", small.project, small.user)]
    assert found.past[0].used["cpu"] == pytest.approx(3 * 60 * SECOND * 1000, rel=0.01)
    assert [one.took for one in found.recent.took] == [60 * SECOND] * 3
    assert len(found.recent.came) == 5


def planned_job(cluster: Cluster, **fields: Any) -> Job:
    row = cluster.row("5", **fields)
    return read_order(
        str(row["order"]),
        id=str(row["id"]),
        project=cluster.project,
        user=cluster.user,
        queue=str(row["queue"]),
        submitted=Moment(int(row["submitted"])),
        served=0,
        not_before=Moment(0),
    )


def test_a_submission_is_shown_where_it_starts_or_why_not_and_when(small: Cluster):
    controller = small.controller()
    settle(controller)
    plan = explainer(small).planned(planned_job(small), small.clock.now())
    assert plan.forecast.expected == small.clock.now()
    assert plan.places[0].node in ("n1", "n2")
    assert plan.forecast.reason == "", "a start at once needs none"
    for _ in range(2):
        small.submit("500", resources=FOUR)
    settle(controller)
    later = explainer(small).planned(planned_job(small, resources=FOUR), small.clock.now())
    assert later.places == ()
    assert later.forecast.expected is None or later.forecast.expected > small.clock.now()
    assert later.forecast.reason == "No host has room now for 4 cores, 1 GiB of memory."
    assert all(map(is_sentence, later.remarks))


def test_what_no_host_could_ever_take_is_refused_with_a_sentence(small: Cluster):
    settle(small.controller())
    with pytest.raises(Invalid) as refusal:
        explainer(small).planned(planned_job(small, resources=Resources(cpus=64)), small.clock.now())
    assert is_sentence(str(refusal.value))


def test_the_outlook_for_one_just_like_it_is_not_worked_out_again(small: Cluster):
    settle(small.controller())
    asked = explainer(small)
    first = asked.planned(planned_job(small), small.clock.now())
    assert asked.planned(planned_job(small), small.clock.now()) is first
    assert asked.planned(planned_job(small, resources=Resources(cpus=2)), small.clock.now()) is not first


@pytest.mark.parametrize(
    ("words", "told"), [("no host", "No host."), ("It is done.", "It is done."), (" why? ", "Why?"), ("x: y", "X: y.")]
)
def test_sentences_begin_with_a_capital_and_end_with_a_full_stop(words: str, told: str):
    assert sentence(words) == told
