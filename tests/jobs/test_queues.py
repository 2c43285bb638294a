"""Queues: set as a whole or not at all, seen with their shares, and never under a job that is still in one."""

from typing import Any

import pytest

from falaj.base.errors import Conflict, FalajError, Forbidden, Invalid, NotFound
from falaj.base.values import Nothing
from falaj.governance.projects.operations import CREATE_PROJECT, CreateProject
from falaj.governance.roles import Role
from falaj.jobs.operations import queues as declared
from falaj.jobs.operations.nodes import LIST_NODES
from falaj.jobs.operations.queues import APPLY_QUEUES, ApplyQueues, CohortSpec, PriorityClass, Queue, QueueSpec, QuotaOf
from falaj.jobs.operations.words import Resources
from tests.jobs.yard import CLOSED, OPEN, PROJECT, Yard

COMPANY = (CohortSpec(name="company"),)


def quota(resource: str, nominal: int, **more: Any) -> tuple[QuotaOf, ...]:
    return (QuotaOf(resource=resource, nominal=nominal, **more),)


@pytest.fixture(scope="module", autouse=True)
def _ready(yard: Yard) -> None:
    yard.call(CREATE_PROJECT, CreateProject(name="other", zones=("home",)))
    yard.when(lambda: yard.call(LIST_NODES, Nothing()), lambda found: found.items)


def listed(yard: Yard, project: str = PROJECT) -> dict[str, Queue]:
    found = yard.call(declared.LIST_QUEUES, declared.ListQueues(project=project))
    return {queue.spec.name: queue for queue in found.queues}


def serial(yard: Yard) -> int:
    return int(yard.call(declared.LIST_ALL_QUEUES, Nothing()).serial)


def test_a_platform_begins_with_one_queue_that_its_hosts_alone_bound(yard: Yard):
    found = yard.call(declared.LIST_ALL_QUEUES, Nothing())
    assert (found.serial, [queue.spec.name for queue in found.queues]) == (0, ["default"])
    assert [one.name for one in found.priorities] == ["low", "normal", "high", "urgent"]


def test_what_is_applied_says_what_changed_and_a_dry_run_changes_nothing(yard: Yard):
    before = yard.call(declared.LIST_ALL_QUEUES, Nothing())
    wished = (OPEN, CLOSED, QueueSpec(name="research", cohort="company", quotas=quota("cpu", 1000)))
    would = yard.apply(*wished, cohorts=COMPANY, dry_run=True)
    assert would.changes == ("cohort company: new", "queue closed: new", "queue research: new")
    assert (would.serial, yard.call(declared.LIST_ALL_QUEUES, Nothing())) == (before.serial, before)
    done = yard.apply(*wished, cohorts=COMPANY)
    assert (done.changes, done.serial, serial(yard)) == (would.changes, before.serial + 1, before.serial + 1)
    again = yard.apply(*wished, cohorts=COMPANY)
    assert (again.changes, again.serial) == ((), before.serial + 1)
    changed = yard.apply(OPEN, CLOSED, QueueSpec(name="research", cohort="company", order="shortest"), cohorts=COMPANY)
    assert changed.changes == ("queue research: quotas, order changed",)


def test_who_looked_before_somebody_else_changed_them_must_look_again(yard: Yard):
    seen = serial(yard)
    yard.apply(OPEN, CLOSED, QueueSpec(name="one"))
    state = yard.state()
    with pytest.raises(Conflict, match=f"their serial is {seen + 1}, not {seen}. Look again first"):
        yard.apply(OPEN, QueueSpec(name="two"), serial=seen)
    assert yard.state() == state
    assert yard.apply(OPEN, CLOSED, serial=seen + 1).serial == seen + 2


CIRCLE = (CohortSpec(name="x", parent="y"), CohortSpec(name="y", parent="x"))
REFUSED: dict[str, tuple[dict[str, Any], type[FalajError], str]] = {
    "a circle of cohorts": ({"queues": (OPEN,), "cohorts": CIRCLE}, Invalid, "each other's parents: x > y > x"),
    "a cohort that is not there": ({"queues": (QueueSpec(name="a", cohort="moon"),)}, Invalid, "'moon', which is not there"),
    "two of a name": ({"queues": (OPEN, OPEN)}, Invalid, "There are two of the queue 'default'"),
    "a project that is not there": (
        {"queues": (QueueSpec(name="a", projects=("moon",)),)},
        Invalid,
        "There is no project 'moon'",
    ),
    "borrowing from nobody": (
        {"queues": (QueueSpec(name="a", quotas=quota("cpu", 1, borrow=1)),)},
        Invalid,
        "belongs to no cohort, so it neither borrows nor lends 'cpu'",
    ),
}


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize(("fields", "kind", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_what_does_not_hold_together_is_refused_and_changes_nothing(
    yard: Yard, fields: dict[str, Any], kind: type[FalajError], words: str, dry_run: bool
):
    state = yard.state()
    with pytest.raises(kind) as refused:
        yard.call(APPLY_QUEUES, ApplyQueues(**fields, dry_run=dry_run))
    assert words in str(refused.value)
    assert yard.state() == state


ABSURD: list[dict[str, Any]] = [
    {"queues": []},
    *({"queues": [{"name": name}]} for name in ("", "a b", "../x", "x" * 200)),
    *({"queues": [{"name": "a", "quotas": [{"resource": "cpu", "nominal": amount}]}]} for amount in (-1, 2**60, 1.5, "4")),
    {"queues": [{"name": "a", "quotas": [{"resource": "souls", "nominal": 1}]}]},
    {"queues": [{"name": "a", "weight": 0}]},
    {"queues": [{"name": "a", "order": "whim"}]},
    {"queues": [{"name": "a", "monthly_budget": -5}]},
    {"queues": [{"name": "a"}], "priorities": [{"name": "low", "value": 10**9}]},
]


@pytest.mark.parametrize("body", ABSURD, ids=str)
def test_what_makes_no_sense_is_refused(yard: Yard, body: dict[str, Any]):
    state = yard.state()
    with yard.platform.http(yard.platform.token) as http:
        answer = http.put("/v1/platform/queues", json=body)
    assert answer.status_code == 400, answer.text
    assert yard.state() == state


def test_a_queue_is_not_removed_under_a_job_that_is_in_it(yard: Yard):
    yard.apply(OPEN, CLOSED)
    job = yard.submit(queue="closed").job
    state = yard.state()
    with pytest.raises(Conflict, match=r"The queue 'closed' has jobs that are not over; cancel those that wait, and close it"):
        yard.apply(OPEN)
    assert yard.state() == state
    yard.cancel(job.id)
    assert yard.apply(OPEN).changes == ("queue closed: removed",)
    yard.apply(OPEN, CLOSED)


def test_a_closed_queue_takes_jobs_and_starts_none_until_it_is_opened(yard: Yard):
    yard.apply(OPEN, CLOSED)
    job = yard.submit(queue="closed").job
    why = yard.when(lambda: yard.why(job.id), lambda found: found.rule == "queue-closed")
    assert (why.state, why.before) == ("waiting", 0)
    yard.apply(OPEN, QueueSpec(name="closed"))
    assert yard.ended(job.id).state == "done"


def test_a_priority_class_that_is_gone_leaves_its_jobs_where_they_are(yard: Yard):
    yard.apply(OPEN, CLOSED)
    job = yard.submit(queue="closed", priority="urgent").job
    done = yard.apply(OPEN, CLOSED, priorities=(PriorityClass(name="normal", value=0),))
    assert done.remarks == ("The priority classes high, low, urgent are gone; jobs that have them keep their place.",)
    assert yard.show(job.id).priority == "urgent"
    with pytest.raises(Invalid, match="There is no priority class 'urgent'; there are normal"):
        yard.submit(queue="closed", priority="urgent")
    yard.cancel(job.id)
    yard.apply(OPEN, CLOSED)


def test_a_quota_below_what_is_used_stops_nothing_and_lets_nothing_new_start(yard: Yard):
    yard.apply(OPEN, QueueSpec(name="team", quotas=quota("cpu", 500)))
    small = Resources(cpus=0.3, memory_mib=32)
    running = yard.submit("sleep", "60", queue="team", resources=small, grace=0).job
    yard.running(running.id)
    yard.apply(OPEN, QueueSpec(name="team", quotas=quota("cpu", 200)))
    waiting = yard.submit("true", queue="team", resources=Resources(cpus=0.1, memory_mib=32)).job
    why = yard.when(lambda: yard.why(waiting.id), lambda found: found.rule == "quota")
    assert "cpu" in [share.resource for share in why.shares]
    share = next(share for share in why.shares if share.resource == "cpu")
    assert (share.nominal, share.used, share.asked) == (200, 300, 100)
    shown = next(one for one in listed(yard)["team"].shares if one.resource == "cpu")
    assert (shown.nominal, shown.used, shown.free) == (200, 300, 0)
    assert yard.show(running.id).state == "running"
    yard.cancel(running.id)
    assert yard.ended(waiting.id).state == "done"
    yard.apply(OPEN)


def test_what_one_queue_borrows_is_seen_at_both(yard: Yard):
    mine = QueueSpec(name="mine", cohort="company", quotas=quota("cpu", 100))
    theirs = QueueSpec(name="theirs", cohort="company", quotas=quota("cpu", 400), projects=("other",), monthly_budget=5)
    yard.apply(OPEN, mine, theirs, cohorts=COMPANY)
    job = yard.submit("sleep", "60", queue="mine", resources=Resources(cpus=0.3, memory_mib=32), grace=0).job
    yard.running(job.id)

    def shares() -> dict[str, tuple[int, int, int, int]]:
        found = {name: queue.shares[0] for name, queue in listed(yard).items() if queue.shares}
        return {name: (one.nominal, one.used, one.borrowed, one.lent) for name, one in found.items()}

    borrowed = {"mine": (100, 300, 200, 0), "theirs": (400, 0, 0, 200)}
    assert yard.when(shares, lambda found: found == borrowed) == borrowed
    seen = listed(yard)
    assert (seen["mine"].running, seen["mine"].usable) == (1, True)
    # What it lends is to be seen; who may use it and what they may spend is not.
    assert (seen["theirs"].usable, seen["theirs"].spec.projects, seen["theirs"].spec.monthly_budget) == (False, (), 0)
    assert listed(yard, "other")["theirs"].spec.projects == ("other",)
    yard.cancel(job.id)


def test_a_queue_of_others_that_lends_nothing_here_is_not_there(yard: Yard):
    yard.apply(OPEN, QueueSpec(name="apart", projects=("other",)))
    assert "apart" not in listed(yard)
    with pytest.raises(NotFound, match="There is no queue 'apart' for this project"):
        yard.call(declared.SHOW_QUEUE, declared.ShowQueue(project=PROJECT, queue="apart"))
    with pytest.raises(NotFound, match="There is no queue 'nowhere' for this project"):
        yard.call(declared.SHOW_QUEUE, declared.ShowQueue(project=PROJECT, queue="nowhere"))
    shown = yard.call(declared.SHOW_QUEUE, declared.ShowQueue(project="other", queue="apart"))
    assert shown.spec.name == "apart"
    yard.apply(OPEN)


def test_setting_queues_is_for_who_operates_the_platform(yard: Yard):
    admin = yard.platform.person("admin", roles={PROJECT: Role.ADMIN})
    state = yard.state()
    for operation, request in (
        (APPLY_QUEUES, ApplyQueues(queues=(OPEN,))),
        (declared.LIST_ALL_QUEUES, Nothing()),
        (declared.SIMULATE_QUEUES, declared.Simulate(scenario=declared.Scenario())),
    ):
        with pytest.raises(Forbidden):
            yard.call(operation, request, token=admin)
    assert yard.state() == state
