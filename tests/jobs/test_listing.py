"""Looking at jobs: found by the end of their ids, listed in pages, with their tries, events, logs and use."""

from dataclasses import replace

import pytest

from falaj.base.caller import Identity
from falaj.base.errors import Conflict, NotFound
from falaj.base.ids import PrincipalId, ProjectId
from falaj.database.work import Context, UnitOfWork
from falaj.governance.gate import project_facts
from falaj.governance.projects.store import project_by_id
from falaj.jobs.listing import ListingService, _part, _Written
from falaj.jobs.operations import jobs as declared
from falaj.jobs.operations.jobs import Job, ReadLog
from falaj.jobs.views import required_job
from tests.jobs.cluster import START, Cluster
from tests.jobs.yard import CLOSED, OPEN, PROJECT, Yard

# A job that says something about itself, with its own token, to where it was told that the platform is.
REPORT = """
import json, os, urllib.request
url = os.environ["FALAJ_URL"] + "/v1/projects/default/jobs/" + os.environ["FALAJ_JOB"] + "/report"
told = json.dumps({"progress": 0.75, "checkpoint": True}).encode()
head = {"authorization": "Bearer " + os.environ["FALAJ_TOKEN"], "content-type": "application/json"}
print(urllib.request.urlopen(urllib.request.Request(url, told, head)).status)
"""


@pytest.fixture(scope="module")
def jobs(yard: Yard) -> list[Job]:
    """Five that wait, and one that is over; oldest first."""
    yard.apply(OPEN, CLOSED)
    waiting = [yard.submit(name=f"job {number}", queue="closed").job for number in range(5)]
    return [*waiting, yard.run("echo", "over")]


def listed(yard: Yard, **fields: object) -> declared.Jobs:
    found: declared.Jobs = yard.call(declared.LIST_JOBS, declared.ListJobs(project=PROJECT, **fields))  # type: ignore[arg-type]
    return found


def test_jobs_are_listed_newest_first_in_pages(yard: Yard, jobs: list[Job]):
    seen, cursor = list[str](), ""
    while True:
        page = listed(yard, limit=4, cursor=cursor)
        seen += [job.id for job in page.items]
        if not (cursor := page.next):
            break
    assert seen == [job.id for job in reversed(jobs)]


@pytest.mark.parametrize(
    ("fields", "count"),
    [
        ({"state": "waiting"}, 5),
        ({"state": "live"}, 5),
        ({"state": "over"}, 1),
        ({"state": "done", "queue": "default"}, 1),
        ({"state": "failed"}, 0),
        ({"queue": "closed"}, 5),
        ({"queue": "nowhere"}, 0),
    ],
)
@pytest.mark.usefixtures("jobs")
def test_jobs_are_listed_by_state_and_queue(yard: Yard, fields: dict[str, str], count: int):
    assert len(listed(yard, **fields).items) == count


def test_a_job_is_found_by_the_last_digits_of_its_id(yard: Yard, jobs: list[Job]):
    assert yard.show(jobs[2].id[-8:]).id == jobs[2].id
    assert yard.show(jobs[2].id[-8:-2]).id == jobs[2].id  # of the eight that lists show, people may copy the first ones
    with pytest.raises(NotFound, match="There is no job '000000' here"):
        yard.show("000000")


def test_digits_that_do_not_tell_two_apart_name_neither(small: Cluster):
    alike = [small.row() | {"id": first * 20 + "abcdef123456"} for first in "01"]
    small.add(alike)

    def look(work: UnitOfWork) -> None:
        project = project_by_id(work, ProjectId(small.project))
        assert project is not None
        identity = Identity(principal=PrincipalId(small.user), kind="person", name="owner", token=None, zone="home")
        context = Context(work=work, identity=identity, project=project_facts(project), now=START, request_id="", facts={})
        assert required_job(context, "1abcdef123456").id == alike[1]["id"]
        with pytest.raises(Conflict, match="Several jobs' ids end with '123456'; give more digits"):
            required_job(context, "123456")
        with pytest.raises(Conflict, match="Several jobs' ids have 'ef1234'; give more digits"):
            required_job(context, "ef1234")
        with pytest.raises(NotFound):
            required_job(context, "def123")  # no list shows all of them

    small.database.read(look)


def test_what_happened_is_told_oldest_first_in_pages(yard: Yard, jobs: list[Job]):
    kinds, cursor = list[str](), ""
    while True:
        request = declared.ReadEvents(project=PROJECT, job=jobs[-1].id, limit=2, cursor=cursor)
        page = yard.call(declared.READ_EVENTS, request)
        kinds += [event.kind for event in page.items]
        if not (cursor := page.next):
            break
    assert kinds == yard.events(jobs[-1].id)
    assert kinds[0] == "submit"
    assert kinds[-1] == "done"


def test_a_job_that_waits_for_its_next_try_says_when_that_is(yard: Yard):
    job = yard.submit("sh", "-c", "echo try $FALAJ_TRY; exit 3", retries=1).job
    waiting = yard.when(lambda: yard.show(job.id), lambda found: found.state == "waiting" and found.attempts == 1)
    assert waiting.next_try is not None
    why = yard.why(job.id)
    assert (why.rule, why.state) == ("retry", "waiting")
    assert why.sentence == f"It is tried again at {str(waiting.next_try)[:19]}Z (retry 1 of 1)."
    eta = yard.call(declared.FORECAST_JOB, declared.OneJob(project=PROJECT, job=job.id))
    assert eta.expected is not None
    assert eta.expected >= waiting.next_try
    assert eta.reason == why.sentence
    yard.cancel(job.id)
    tries = yard.call(declared.LIST_ATTEMPTS, declared.OneJob(project=PROJECT, job=job.id)).items
    assert [(one.number, one.cause, one.code) for one in tries] == [(1, "failed", 3)]
    assert yard.log(job.id, attempt=1) == yard.log(job.id) == "try 1\n"
    with pytest.raises(NotFound, match="has had no try number 2"):
        yard.log(job.id, attempt=2)


def test_a_log_is_read_in_parts_while_it_grows_and_after_it_was_put_away(yard: Yard):
    job = yard.submit("sh", "-c", "printf 'a\\0\\377é\\n'; sleep 1; echo end").job
    yard.when(lambda: yard.log(job.id), lambda text: text == "a��é\n")
    part = yard.call(declared.READ_LOG, ReadLog(project=PROJECT, job=job.id))
    assert (part.next, part.over) == (6, False)
    assert yard.ended(job.id).state == "done"
    whole = yard.when(
        lambda: yard.call(declared.READ_LOG, ReadLog(project=PROJECT, job=job.id, offset=part.next)), lambda found: found.text
    )
    assert (whole.text, whole.next, whole.over) == ("end\n", 10, False)
    stored = yard.platform.home.jobs / "attempts"
    yard.when(lambda: list(stored.glob("[!.]*")), lambda left: not left)  # it is in a blob now, and its folder is gone
    last = yard.call(declared.READ_LOG, ReadLog(project=PROJECT, job=job.id, offset=10))
    assert (last.text, last.next, last.over) == ("", 10, True)
    assert yard.log(job.id, offset=6) == "end\n"
    # Whoever followed a flood has read on behind the end of what is kept of it, and is shown how it ended.
    behind = yard.call(declared.READ_LOG, ReadLog(project=PROJECT, job=job.id, offset=11))
    assert (behind.text, behind.next) == ("\n[...]\na\ufffd\ufffdé\nend\n", 10)


def test_a_log_that_is_put_away_while_it_is_read_is_read_from_where_it_is_now(yard: Yard, monkeypatch: pytest.MonkeyPatch):
    job = yard.run("echo", "kept")
    stored = yard.platform.home.jobs / "attempts"
    yard.when(lambda: list(stored.glob("[!.]*")), lambda left: not left)
    looked, look = list[object](), ListingService._written

    def before_and_after(self: ListingService, context: Context, request: ReadLog) -> _Written:
        found = look(self, context, request)
        looked.append(found)
        return replace(found, attempt="a" * 16, engine="local", reader=None) if len(looked) == 1 else found

    monkeypatch.setattr(ListingService, "_written", before_and_after)
    assert yard.log(job.id) == "kept\n"


@pytest.mark.parametrize("limit", [4, 5, 7, 100])
@pytest.mark.parametrize("text", ["aéü漢字🙂b", "🙂🙂🙂", "漢"])
def test_no_letter_is_cut_in_two_between_parts(text: str, limit: int):
    whole, read, offset = text.encode(), "", 0
    while offset < len(whole):
        request = ReadLog(project=PROJECT, job="0" * 32, offset=offset, limit=limit)
        part = _part(whole[offset : offset + limit], min(offset + limit, len(whole)), request, over=False)
        read, offset = read + part.text, part.next
    assert read == text


def test_a_letter_that_is_not_whole_yet_is_waited_for_and_shown_as_it_is_in_the_end():
    request = ReadLog(project=PROJECT, job="0" * 32, offset=5)
    going = _part(b"\xe6\xbc", 7, request, over=False)
    assert (going.text, going.next) == ("", 5)
    over = _part(b"\xe6\xbc", 7, request, over=True)
    assert (over.text, over.next) == ("�", 7)
    tiny = ReadLog(project=PROJECT, job="0" * 32, offset=5, limit=2)
    assert _part(b"\xe6\xbc", 7, tiny, over=False).next == 7  # it would never fit


def test_a_job_says_how_far_it_is_and_that_it_wrote_a_checkpoint(yard: Yard):
    job = yard.run("python", "-c", REPORT)
    assert job.state == "done", yard.log(job.id)
    assert job.progress == 0.75
    assert job.checkpointed is not None
    assert job.submitted < job.checkpointed <= job.ended


def test_what_a_job_used_is_summed_over_its_tries_and_drawn_over_its_life(yard: Yard):
    job = yard.run("sh", "-c", "i=0; while [ $i -lt 150000 ]; do i=$((i+1)); done")
    assert job.usage.cpu_seconds > 0
    assert job.usage.memory_mib_peak > 0
    assert job.usage.cpu_seconds_asked == pytest.approx(0.1 * (job.ended - job.started) / 1e6, rel=0.01)
    points = yard.call(declared.READ_JOB_USAGE, declared.ReadUsage(project=PROJECT, job=job.id)).points
    assert len(points) <= 200


def test_a_job_that_never_began_wrote_nothing(yard: Yard, jobs: list[Job]):
    part = yard.call(declared.READ_LOG, ReadLog(project=PROJECT, job=jobs[0].id))
    assert (part.text, part.next, part.over) == ("", 0, False)


def test_a_job_speaks_about_itself_alone_and_only_while_it_runs(yard: Yard):
    yard.apply(OPEN, CLOSED)
    over, waiting = yard.run("true"), yard.submit(queue="closed").job
    script = REPORT.replace('os.environ["FALAJ_JOB"]', "sys.argv[1]").replace("import json", "import sys, json")
    for other, answer in ((over, "409"), (waiting, "403")):
        made = yard.run("python", "-c", script, other.id)
        assert (made.state, answer in yard.log(made.id)) == ("failed", True)
        assert yard.show(other.id).progress == 0
    assert yard.show(waiting.id).state == "waiting"
    yard.call(declared.CANCEL_JOB, declared.Cancel(project=PROJECT, job=waiting.id))
