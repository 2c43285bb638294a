"""How jobs are found, and that nobody finds another project's."""

from falaj.base.clock import Moment
from falaj.base.ids import new_id
from falaj.jobs.store import events, jobs, news
from tests.jobs.cluster import START, Cluster


def test_a_job_is_found_by_the_end_of_its_id_in_its_own_project_alone(cluster: Cluster):
    ids = [cluster.submit("1") for _ in range(3)]

    def found(project: str, end: str) -> list[str]:
        return [row.id for row in cluster.database.read(lambda work: jobs.find_by_end(work, project, end))]

    for id in ids:
        assert found(cluster.project, id) == [id]
        assert found(cluster.project, id[-20:]) == [id]
        assert found("0" * 32, id) == []
        assert found("0" * 32, id[-20:]) == []
    assert found(cluster.project, "ffffff%") == []
    twin = {**cluster.row("1"), "id": f"f{ids[0][1:]}"}
    cluster.add([twin])
    assert sorted(found(cluster.project, ids[0][1:])) == sorted([ids[0], twin["id"]])
    shown = {**cluster.row("1"), "id": f"{ids[0][:24]}6deb0490"}
    cluster.add([shown])
    assert found(cluster.project, "6deb04") == [shown["id"]]  # lists show the last eight digits, of which somebody copied six
    assert found("0" * 32, "6deb04") == []


def test_pages_are_newest_first_by_state_and_queue(cluster: Cluster):
    rows = [cluster.row("1", queue=("even", "odd")[number % 2]) for number in range(10)]
    cluster.add([row | {"state": "done" if number < 4 else "waiting"} for number, row in enumerate(rows)])
    cluster.add([cluster.row("1") | {"project": "0" * 32}])
    newest = [row["id"] for row in reversed(rows)]

    def page(**wanted: object) -> list[str]:
        found = cluster.database.read(lambda work: jobs.page(work, cluster.project, **{"limit": 100, **wanted}))
        return [row.id for row in found]

    assert page() == newest
    assert page(limit=3) == newest[:3]
    assert page(limit=3, before=newest[2]) == newest[3:6]
    assert page(states=("done",)) == newest[6:]
    assert page(states=jobs.LIVE_STATES, queue="odd") == newest[0:6:2]


def test_counts_are_of_what_lives(cluster: Cluster):
    rows = [cluster.row("1", queue="a") for _ in range(4)]
    cluster.add([*rows[:3], rows[3] | {"state": "done", "ended": 1}])
    counted = cluster.database.read(jobs.counts_by_queue)
    assert [(row.queue, row.state, row.jobs, row.oldest) for row in counted] == [("a", "waiting", 3, START)]
    assert cluster.database.read(lambda work: jobs.count_live(work, cluster.project)) == 3
    assert cluster.database.read(lambda work: jobs.count_live(work, cluster.project, priority="high")) == 0
    assert cluster.database.read(lambda work: jobs.is_queue_used(work, "a"))
    assert not cluster.database.read(lambda work: jobs.is_queue_used(work, "b"))


def test_only_the_first_who_asks_cancels_and_nobody_cancels_what_is_over(cluster: Cluster):
    job = cluster.submit("1")
    over = cluster.row("1") | {"state": "done", "ended": 1}
    cluster.add([over])

    def cancel(id: str) -> bool:
        return cluster.database.write(lambda work: jobs.want_cancelled(work, id, START))

    assert [cancel(job), cancel(job), cancel(over["id"])] == [True, False, False]
    told = cluster.database.read(lambda work: news.first(work, 10))
    assert [kind for _, kind, id in told if id == job] == ["submitted", "cancelled"]


def test_a_report_says_how_far_a_job_is_and_the_controller_hears_of_checkpoints_alone(cluster: Cluster):
    job = cluster.submit("1")

    def report(progress: float | None, checkpoint: bool) -> None:
        cluster.database.write(lambda work: jobs.report(work, job, progress=progress, checkpoint=checkpoint, now=START))

    report(0.25, False)
    assert (cluster.job(job).progress, cluster.job(job).checkpointed) == (0.25, None)
    report(None, True)
    assert (cluster.job(job).progress, cluster.job(job).checkpointed) == (0.25, START)
    told = cluster.database.read(lambda work: news.first(work, 10))
    assert [kind for _, kind, _ in told] == ["submitted", "checkpoint"]


def test_a_late_move_finds_no_row(cluster: Cluster):
    row = cluster.row("1") | {"attempt": "present"}
    cluster.add([row])
    late = {"job": row["id"], "at": "late", "new_state": "running", "new_started": 1}
    cluster.database.write(lambda work: jobs.run(work, [late]))
    assert cluster.job(row["id"]).state == "waiting"
    cluster.database.write(lambda work: jobs.run(work, [late | {"at": "present"}]))
    assert cluster.job(row["id"]).state == "running"


def test_what_jobs_took_is_known_by_kin_newest_first(cluster: Cluster):
    done = [
        cluster.row("1", kin="k" * 64) | {"state": "done", "ended": int(START) + number, "served": number}
        for number in range(12)
    ]
    failed = cluster.row("1", kin="k" * 64) | {"state": "failed", "ended": int(START) + 99, "served": 99}
    cluster.add([*done, failed])
    found = cluster.database.read(lambda work: jobs.last_durations(work, ["k" * 64, "none"], 3))
    assert found == {"k" * 64: [11, 10, 9]}


def test_events_come_in_order_and_only_to_their_project(cluster: Cluster):
    job = new_id(START)
    rows = [events.event(job, cluster.project, Moment(START - number), "kind", str(number)) for number in range(5)]
    cluster.database.write(lambda work: events.add(work, rows))

    def page(project: str, after: str, limit: int) -> list[str]:
        return [row.words for row in cluster.database.read(lambda work: events.page(work, project, job, after, limit))]

    # Even where the clock went back: the order is the one they came in.
    assert page(cluster.project, "", 10) == ["0", "1", "2", "3", "4"]
    assert page(cluster.project, rows[1]["id"], 2) == ["2", "3"]
    assert page("0" * 32, "", 10) == []
    assert len(events.event(job, "", START, "kind", "x" * 10_000)["words"]) == events.LONGEST_WORDS
