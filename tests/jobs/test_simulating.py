"""What would be: the past with other hosts or queues, the present with one more job; counts and queues, never whose."""

import pytest

from falaj.base.errors import Invalid
from falaj.jobs.operations.queues import CohortSpec, QueueSpec, QuotaOf
from falaj.jobs.operations.words import Resources
from falaj.jobs.outcomes import span_text
from tests.jobs.asking import set_queues, simulate
from tests.jobs.cluster import Cluster, run, settle

FOUR = Resources(cpus=4)


def busy_past(cluster: Cluster, many: int = 8) -> None:
    """So many jobs at once, each of which takes a host for a minute; two run at a time."""
    controller = cluster.controller()
    settle(controller)
    for _ in range(many):
        cluster.submit("60", resources=FOUR)
    settle(controller)
    run(cluster, controller, 61 * many / 2 + 5, each=1.0)
    assert cluster.states() == {"done": many}


def test_the_past_played_with_more_hosts_waits_less(small: Cluster):
    busy_past(small)
    found = simulate(small, more_nodes=2)
    (before,), (after,) = found.before, found.after
    assert (before.queue, before.jobs, after.jobs) == ("default", 8, 8)
    assert before.mean_wait == pytest.approx(90, rel=0.05)
    assert after.mean_wait == pytest.approx(30, rel=0.05)
    assert before.cpu_use == pytest.approx(1.0, abs=0.05)
    assert after.cpu_use == pytest.approx(1.0, abs=0.05)
    assert found.remarks[0].startswith("As it was, jobs waited 1.5 min on average; played again as things are now, 1.5 min.")


def test_with_fewer_hosts_it_waits_longer_and_with_none_it_cannot_be_played(small: Cluster):
    busy_past(small)
    found = simulate(small, more_nodes=-1)
    assert found.after[0].mean_wait == pytest.approx(210, rel=0.05)
    with pytest.raises(Invalid, match="There are 2 hosts; with 2 fewer none would be left"):
        simulate(small, more_nodes=-2)


def test_other_quotas_bound_what_runs_at_once(small: Cluster):
    busy_past(small)
    half = QueueSpec(name="default", quotas=(QuotaOf(resource="cpu", nominal=4000),))
    assert simulate(small, queues=(half,)).after[0].mean_wait == pytest.approx(210, rel=0.05)
    tiny = QueueSpec(name="default", quotas=(QuotaOf(resource="cpu", nominal=1000),))
    found = simulate(small, queues=(tiny,))
    assert found.after == ()
    assert "8 jobs would find no queue, no quota or no host and are left out." in found.remarks


def test_a_scenario_that_does_not_hold_together_is_refused(small: Cluster):
    busy_past(small, 2)
    with pytest.raises(Invalid, match="belongs to the cohort 'nowhere', which is not there"):
        simulate(small, queues=(QueueSpec(name="default", cohort="nowhere"),))
    with pytest.raises(Invalid, match="There is no host 'n9' that others could be like; there are n1, n2"):
        simulate(small, more_nodes=1, like="n9")
    with pytest.raises(Invalid, match="Say what the job would take"):
        simulate(small, now=True)
    with pytest.raises(Invalid, match="There is no queue 'nowhere'; there are default"):
        simulate(small, now=True, resources=FOUR, queue="nowhere")


def test_where_nothing_ran_there_is_nothing_to_play(small: Cluster):
    with pytest.raises(Invalid, match="No job ran in the last 3 days"):
        simulate(small, days=3)


def test_one_more_job_says_when_it_would_start_and_who_would_wait_longer(small: Cluster):
    teams = (QueueSpec(name="default", cohort="all"), QueueSpec(name="other", cohort="all"))
    set_queues(small, *teams, cohorts=(CohortSpec(name="all"),))
    controller = small.controller()
    settle(controller)
    for _ in range(2):
        small.submit("600", resources=FOUR, seconds=600)
    settle(controller)
    found = simulate(small, now=True, resources=FOUR, queue="other", seconds=600)
    assert found.start is not None
    assert found.start > small.clock.now()
    assert found.remarks[0] == "No host has room now for 4 cores, 1 GiB of memory."
    assert found.remarks[1].startswith("Four times in five it would start between in ")
    assert found.remarks[2] == "Nobody who waits now would wait longer for it."
    assert all(one[:1].isupper() and one.endswith(".") for one in found.remarks)


def test_one_more_job_that_goes_first_delays_those_behind_it_by_count_and_queue_alone(small: Cluster):
    set_queues(
        small,
        QueueSpec(name="default", cohort="all", quotas=(QuotaOf(resource="cpu", nominal=0),)),
        QueueSpec(name="owed", cohort="all", quotas=(QuotaOf(resource="cpu", nominal=8000),)),
        cohorts=(CohortSpec(name="all"),),
    )
    controller = small.controller()
    settle(controller)
    running = [small.submit("600", resources=FOUR, seconds=600) for _ in range(2)]
    settle(controller)
    waiting = [small.submit("600", resources=FOUR, seconds=600) for _ in range(3)]
    settle(controller)
    found = simulate(small, now=True, resources=FOUR, queue="owed", seconds=3600)
    told = " ".join(found.remarks)
    assert "In queue default, " in told
    assert "would wait longer: " in told
    assert not any(job in repr(found) for job in (*running, *waiting, small.project, small.user))
    assert [one.queue for one in found.after] == ["default"]
    assert found.after[0].mean_wait >= found.before[0].mean_wait


def test_one_more_job_counts_for_those_who_use_its_queue_and_does_not_come_first_as_a_stranger(small: Cluster):
    controller = small.controller(real=True)
    settle(controller)
    for _ in range(2):
        small.submit("600", resources=FOUR, seconds=600)
    settle(controller)
    for _ in range(3):
        small.submit("600", resources=FOUR, seconds=600)
    settle(controller)
    found = simulate(small, now=True, resources=FOUR, seconds=600)
    assert "Nobody who waits now would wait longer for it." in found.remarks
    assert simulate(small, now=True, resources=FOUR, seconds=600, project="default").start == found.start
    with pytest.raises(Invalid, match="There is no project 'nobody'"):
        simulate(small, now=True, resources=FOUR, project="nobody")


def test_one_more_job_that_starts_at_once_says_so_and_one_that_never_would_says_why(small: Cluster):
    settle(small.controller())
    now = small.clock.now()
    found = simulate(small, now=True, resources=FOUR)
    assert (found.start, found.remarks[0]) == (now, "It would start at once.")
    never = simulate(small, now=True, resources=Resources(cpus=64))
    assert never.start is None
    assert never.remarks[0].startswith("It would never start. ")
    more = simulate(small, now=True, resources=FOUR, tasks=3)
    assert more.remarks[0].startswith("It would never start. ")
    assert simulate(small, now=True, resources=FOUR, tasks=3, more_nodes=1).start == now


@pytest.mark.parametrize(
    ("seconds", "told"), [(0.4, "0 s"), (59, "59 s"), (60, "1 min"), (90, "1.5 min"), (3600 * 12, "12 h"), (86400 * 2, "2 d")]
)
def test_spans_are_told_as_people_say_them(seconds: float, told: str):
    assert span_text(seconds) == told
