"""The pages of jobs, queues and hosts: what waits and why, what runs where, what might be, and who may not look."""

import html
import json
import re
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from falaj.base.clock import HOUR
from falaj.governance.ledger.operations import LOG, ReadLog
from falaj.governance.roles import Role
from falaj.jobs.engines.engine import CardUse
from falaj.jobs.operations import jobs
from falaj.jobs.pools.values import PoolHost
from falaj.jobs.store import pools as pool_store
from falaj.testing.timers import TimerEngine
from tests.web import scheduled
from tests.web.conftest import Form, Site, running_site

NASTY = "<script>alert(1)</script>'\"&{{7*7}} ünï"
LIST = "/projects/fraud/jobs"
QUEUES = "/projects/fraud/queues"
FORMS: dict[str, dict[str, str]] = {"submit": {"command": "timer 1"}, "plan": {"command": "timer 1"}, "cancel": {}, "retry": {}}
OPERATORS = ("/cluster", "/cluster/queues", "/cluster/capacity", "/cluster/what-if")


class Team:
    """Sami runs jobs, Omar looks on, Eve belongs to another project, and Ola operates the platform."""

    def __init__(self, site: Site, engine: TimerEngine) -> None:
        self.site = site
        self.engine = engine
        site.project("fraud", "Card fraud")
        site.project("secretive")
        self.sami = site.person("sami", roles={"fraud": Role.SCIENTIST})
        self.omar = site.person("omar", roles={"fraud": Role.VIEWER})
        self.eve = site.person("eve", roles={"secretive": Role.ADMIN})
        self.ola = site.person("ola", platform=Role.OPERATOR)
        scheduled.wait(lambda: len(self.hosts()) == 2)

    def hosts(self) -> Any:
        return scheduled.hosts(self.site)

    def get(self, path: str, token: str | None = None) -> httpx.Response:
        with self.site.client(token or self.sami) as client:
            return client.get(path)

    def read(self, path: str, token: str | None = None) -> str:
        return html.unescape(self.get(path, token).text)

    def submit(self, place: str, operation: str, token: str | None = None, *, via: str = "", **fields: Any) -> httpx.Response:
        """Fill in a form of a page, send it, and follow to where it leads. `via` is the form that a button sends on."""
        with self.site.client(token or self.sami) as client:
            form = Form(client.get(place).text, f"{place}/-/{via or operation}")
            form.action = f"{place}/-/{operation}"
            answer = form.send(client, **fields)
            return client.get(answer.headers["location"]) if answer.status_code == 303 else answer

    def leaves(self, operation: str) -> int:
        self.site.platform.sequencer.step(close_all_windows=True)
        return len(self.site.call(LOG, ReadLog(operation=operation)).items)

    def jobs(self) -> Any:
        return scheduled.every(self.site)

    def blocked(self) -> tuple[Any, Any]:
        """One that runs on all that the queue may have, and one that waits for it."""
        scheduled.share(self.site, "fraud", "secretive")
        runs = scheduled.submit(self.site, token=self.sami, resources={"cpus": 2.0}, name="first")
        scheduled.until(self.site, runs, "running")
        waits = scheduled.submit(self.site, token=self.sami, name="second")
        return runs, waits


@pytest.fixture
def team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Team]:
    engine = scheduled.timers(monkeypatch)
    for site in running_site(tmp_path):
        yield Team(site, engine)


def test_before_there_is_a_job_the_page_says_what_to_do(team: Team) -> None:
    page = team.get(LIST).text
    assert "No job yet" in page
    assert "falaj job submit --cpus 2 --memory 4GiB --project fraud -- python train.py" in page
    assert f'href="{LIST}" aria-current="page"' in page


def test_a_job_is_submitted_on_the_page_and_followed_on_its_own(team: Team) -> None:
    given = {
        "command": "timer 600",
        "name": "nightly",
        "cpus": "2",
        "memory_gib": "0.5",
        "gpus": "1",
        "priority": "low",
        "minutes": "10",
    }
    page = team.submit(LIST, "job.submit", **given)
    [job] = team.jobs()
    assert page.url.path == f"{LIST}/{job.id}"
    assert "The job is submitted" in page.text
    wish = job.spec.resources
    assert (job.spec.command, wish.cpus, wish.memory_mib, wish.gpus) == (("timer", "600"), 2.0, 512, 1.0)
    assert (job.priority, job.spec.seconds, job.queue) == ("low", 600, "default")
    scheduled.until(team.site, job, "running")
    told = team.read(f"{LIST}/{job.id}")
    assert '<span class="state accent">running</span>' in told
    assert "gpu-1, GPU 0" in told
    assert "Try 1 runs." in told
    assert "falaj job submit --project fraud --name nightly --queue default --cpus 2 --memory 512MiB --gpus 1" in told


def test_a_dry_run_shows_the_plan_keeps_what_was_typed_and_submits_nothing(team: Team) -> None:
    page = team.submit(LIST, "job.plan", via="job.submit", command="timer 'a b'", cpus="3", memory_gib="2", gpus="0.5")
    assert page.status_code == 200
    assert "it would start now, on gpu-1" in " ".join(page.text.split())
    assert "Nothing is submitted yet." in page.text
    assert 'value="timer &#39;a b&#39;"' in page.text
    assert 'id="job-cpus" name="cpus" type="text" value="3"' in page.text
    assert team.jobs() == ()


def test_a_wrong_job_is_told_beside_its_fields_and_keeps_what_was_typed(team: Team) -> None:
    for fields, words in (
        ({"command": "timer 'unclosed"}, "A shell could not read this: No closing quotation."),
        ({"command": "timer 1", "cpus": "lots"}, "Write a number, 0 or more."),
        ({"command": "timer 1", "memory_gib": "inf"}, "Write a number, 0 or more."),
        ({"command": "   "}, "Please fill this in."),
        ({"command": "timer 1", "name": "bad/name"}, 'aria-invalid="true" aria-describedby="job-name-more"'),
        ({"command": "timer 1", "memory_gib": "0.001"}, 'id="job-memory-more">'),
        ({"command": "timer 1", "queue": "nobodys"}, "There is no queue 'nobodys' for this project"),
        ({"command": "timer 1", "gpus": "64"}, '<p class="problem" role="alert">'),
    ):
        for operation in ("job.submit", "job.plan"):
            page = team.submit(LIST, operation, via="job.submit", **fields)
            assert page.status_code == 400, fields
            assert words in html.unescape(page.text), fields
            assert html.escape(fields["command"].strip()).replace("&#x27;", "&#39;") in page.text
    assert team.jobs() == ()


def test_a_job_that_waits_says_why_with_its_shares_and_when_it_will_start(team: Team) -> None:
    runs, waits = team.blocked()
    listed = team.read(LIST)
    assert "queue of-fraud uses 2 cores of its 1 core and nothing is left to borrow." in listed
    page = team.read(f"{LIST}/{waits.id}")
    assert "Why it waits" in page
    assert "It needs 1 core; queue of-fraud uses 2 cores" in page
    assert "4 times in 5 between" in page
    assert 'class="part-borrowed"' in page
    third = scheduled.submit(team.site, token=team.sami, name="third")
    scheduled.wait(lambda: "1 job goes before it in its queue" in team.read(f"{LIST}/{third.id}"))
    behind = team.read(f"{LIST}/{third.id}")
    assert f'href="{LIST}/{waits.id}"' in behind
    assert runs.id not in re.findall(r"goes before it.*?</p>", behind)[0]


def test_jobs_are_chosen_by_state_and_queue_and_come_in_pages(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("falaj.web.jobs.listing.ON_A_PAGE", 2)
    runs, waits = team.blocked()
    ended = scheduled.submit(team.site, how="failed", name="third")
    team.site.call(jobs.CANCEL_JOB, jobs.Cancel(project="fraud", job=ended.id))
    scheduled.until(team.site, ended, "cancelled")
    for query, wanted in (
        ("state=waiting", ["second"]),
        ("state=running", ["first"]),
        ("state=cancelled&queue=of-fraud", ["third"]),
        ("state=live", ["second", "first"]),
        ("queue=of-secretive", []),
    ):
        assert (
            re.findall(r'<a href="/projects/fraud/jobs/[0-9a-f]{32}"><bdi>(.*?)</bdi>', team.get(f"{LIST}?{query}").text)
            == wanted
        )
    first = team.get(f"{LIST}?queue=of-fraud").text
    older = re.search(r'href="([^"]*)">Older jobs', first)
    assert older is not None
    second = team.get(html.unescape(older[1])).text
    assert f"{LIST}/{runs.id}" in second
    assert f"{LIST}/{waits.id}" not in second
    assert f'href="{LIST}?queue=of-fraud">Back to the newest' in second


def test_a_job_is_cancelled_and_submitted_again_from_the_list_and_from_its_page(team: Team) -> None:
    job = scheduled.submit(team.site)
    page = team.submit(LIST, "job.cancel", job=job.id)
    assert page.url.path == f"{LIST}/{job.id}"
    assert "The job is being stopped" in page.text
    scheduled.until(team.site, job, "cancelled")
    again = team.submit(f"{LIST}/{job.id}", "job.retry")
    assert "submitted again, under this new id" in again.text
    fresh = next(one for one in team.jobs() if one.id != job.id)
    assert again.url.path == f"{LIST}/{fresh.id}"
    scheduled.until(team.site, fresh, "running")
    told = team.submit(f"{LIST}/{fresh.id}", "job.cancel", reason="not needed")
    assert "The job is being stopped" in told.text
    refused = team.submit(LIST, "job.cancel", via="job.retry", job=job.id)
    assert refused.status_code == 409
    assert "is over already" in refused.text


def test_events_tries_usage_and_log_stand_on_the_page_as_text(team: Team) -> None:
    job = scheduled.submit(team.site, variables=(jobs.Setting(name="NOTE", value=NASTY),))
    scheduled.until(team.site, job, "running")
    scheduled.writes(team.engine, job, f"epoch 1\r50 %\repoch 2\n\x1b[31mred {NASTY}\x1b[0m\n")
    scheduled.measured(team.site, job)
    page = team.get(f"{LIST}/{job.id}").text
    assert "<script>alert" not in page
    assert "49 ünï" not in page
    log = re.search(r'<pre class="log"[^>]*>(.*?)</pre>', page, re.DOTALL)
    assert log is not None
    assert html.unescape(log[1]) == f"epoch 2\nred {NASTY}\n"
    assert 'data-points="' not in page
    assert page.count('<svg class="spark spark-large"') == 2
    points = json.loads(team.get(f"{LIST}/{job.id}/usage").text)["points"]
    assert [point["cpus"] for point in points[:5]] == [0.5] * 5
    part = json.loads(team.get(f"{LIST}/{job.id}/log?offset=0").text)
    assert part["text"].startswith("epoch 1")
    rest = json.loads(team.get(f"{LIST}/{job.id}/log?attempt=1&offset={part['next']}").text)
    assert (rest["text"], rest["over"]) == ("", False)
    assert f'href="{LIST}/{job.id}?attempt=1#log"' in page
    assert team.get(f"{LIST}/{job.id}?attempt=9").status_code == 200
    assert team.get(f"{LIST}/{job.id}/log?offset=-1").status_code == 400


def test_a_long_log_is_read_on_without_a_script(team: Team) -> None:
    job = scheduled.submit(team.site)
    scheduled.until(team.site, job, "running")
    scheduled.writes(team.engine, job, "".join(f"line {number}\n" for number in range(20_000)))
    page = team.get(f"{LIST}/{job.id}").text
    assert len(page) < 200_000
    assert "line 19999" not in page
    onward = re.search(r'data-without-script href="([^"]*)"', page)
    assert onward is not None
    assert "Earlier lines are left out here" in team.get(html.unescape(onward[1])).text


def test_a_job_is_found_by_the_last_digits_of_its_id(team: Team) -> None:
    job = scheduled.submit(team.site)
    assert f'<dd class="hash">{job.id}</dd>' in team.get(f"{LIST}/{job.id[-8:]}").text


def test_a_run_and_its_job_lead_to_each_other(team: Team) -> None:
    job = scheduled.submit(team.site, experiment="trees")
    assert f'href="/projects/fraud/runs/{job.run}"' in team.get(f"{LIST}/{job.id}").text
    assert f'href="{LIST}/{job.id}"' in team.get(f"/projects/fraud/runs/{job.run}").text
    assert f'href="{LIST}/{job.id}"' in team.get("/projects/fraud").text


def test_what_a_job_writes_leads_to_its_run_s_artifacts(team: Team) -> None:
    job = scheduled.submit(team.site, outputs=("<b>.onnx",), checkpoints=True)
    page = team.get(f"{LIST}/{job.id}").text
    assert (
        f'<bdi class="hash">&lt;b&gt;.onnx</bdi></div><a href="/projects/fraud/runs/{job.run}#files">Kept with its run</a>'
        in page
    )
    assert "kept from try to try" in page


# Queues and hosts


def test_queues_show_what_is_owed_used_borrowed_and_lent_as_a_tree(team: Team) -> None:
    team.blocked()
    page = team.read(QUEUES)
    assert page.index("lab</bdi>") < page.index("of-fraud</bdi>")
    mine, others = page[page.index("of-fraud</bdi>") :].split("of-secretive</bdi>")
    assert '2 of 1, <strong class="borrowed">1 borrowed</strong>' in mine
    assert '0 of 1, <strong class="lent">1 lent</strong>' in others
    assert "of others" in others
    assert "for secretive" not in page
    assert "for fraud, " not in page
    operator = team.read("/cluster/queues", team.ola)
    assert "for secretive" in operator
    assert '<dt>Borrow</dt><dd>1<span class="sub">of 2 queues</span>' in operator


def test_hosts_show_every_gpu_as_a_square_and_are_drained_and_resumed(team: Team) -> None:
    job = scheduled.submit(team.site, resources={"gpus": 1.0}, name="on a card")
    scheduled.until(team.site, job, "running")
    page = scheduled.wait(lambda: found if "100% held" in (found := team.read("/cluster", team.ola)) else "")
    assert page.count('class="card-square"') == 2
    assert "GPU 0, H200: 100% held by 1 job" in page
    assert "the hosts do not say" in page
    assert "GPU 1, H200: free" in page
    assert "2 x H200" in page
    assert "on a card" not in page, "whose job it is stays in its project"
    busy = CardUse(busy=0.5, memory_mib=143_360, memory_used_mib=71_680)
    team.engine.card_uses = {"gpu-1": [busy, replace(busy, busy=0.0, memory_used_mib=0)]}
    page = scheduled.wait(lambda: found if "computing, " in (found := team.read("/cluster", team.ola)) else "")
    assert "GPU 0, H200: 100% held by 1 job, 50% computing, 70 GiB of 140 GiB" in page
    assert "GPU 1, H200: free, 0 MiB of 140 GiB" in page
    assert '25 %<span class="sub">of all there are</span>' in page
    told = team.submit("/cluster", "node.drain", team.ola, node="plain-1", reason="a new disk")
    assert "Nothing new starts on that host." in told.text
    assert {node.name: node.state for node in team.hosts()}["plain-1"] == "drained"
    told = team.submit("/cluster", "node.resume", team.ola, node="plain-1")
    assert "may start on that host again" in told.text
    assert {node.state for node in team.hosts()} == {"ready"}


def test_many_hosts_come_in_pages(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("falaj.web.jobs.cluster.HOSTS_ON_A_PAGE", 1)
    first = team.get("/cluster", team.ola).text
    assert "gpu-1</bdi>" in first
    assert "plain-1</bdi>" not in first
    assert 'href="/cluster?page=1">Next hosts' in first
    for page in ("1", "99999"):
        assert "plain-1</bdi>" in team.get(f"/cluster?page={page}", team.ola).text
    assert "gpu-1</bdi>" in team.get("/cluster?page=-1", team.ola).text


def test_a_host_that_a_pool_asked_for_is_shown_before_it_is_there_with_what_went_wrong(team: Team) -> None:
    host = PoolHost(name="burst-1", pool="burst", state="adding", tries=2, trouble=f"cp: it ended with 1: {NASTY}")
    team.site.platform.database.write(lambda work: pool_store.put(work, asdict(host)))
    page = team.get("/cluster", team.ola).text
    assert '2<span class="sub">all ready, 1 starting</span>' in page
    assert "burst-1</bdi>" in page
    assert "pool <bdi>burst</bdi>" in page
    assert "Adding it failed (2)" in page
    assert NASTY not in page


def test_the_capacity_report_says_who_used_what_and_what_would_help(team: Team) -> None:
    assert "Nothing is recorded yet" in team.get("/cluster/capacity", team.ola).text
    job = scheduled.submit(team.site, 0.1, resources={"gpus": 1.0})
    scheduled.until(team.site, job, "done")
    scheduled.filled(team.site)
    page = scheduled.wait(
        lambda: found if "Used by project" in (found := team.read("/cluster/capacity?days=1", team.ola)) else ""
    )
    held = re.search(r"GPUs are held (\d+)% of the time and compute 2\d% of it", page)
    assert held is not None
    assert int(held[1]) > 80  # minutes that went by since count, too
    assert page.count('<svg class="spark spark-large"') == 3
    assert 'href="/cluster/capacity?days=1" aria-current="true"' in page
    assert "fraud</bdi>" in page
    points = json.loads(team.get("/cluster/capacity/points?days=1", team.ola).text)["points"]
    assert max(point["gpus_busy"] for point in points) == 0.5
    assert '<a href="/cluster/capacity?of=project&name=fraud&days=1"><bdi>fraud</bdi></a>' in html.unescape(page)
    assert "Use over time of project <bdi>fraud</bdi>" in team.read("/cluster/capacity?of=project&name=fraud&days=1", team.ola)


def test_what_if_is_asked_of_hosts_quotas_and_one_more_job(team: Team) -> None:
    job = scheduled.submit(team.site, 0.1, name="short")
    scheduled.until(team.site, job, "done")
    asks = "/cluster/what-if?ask="
    assert "Nothing asked yet" in team.get("/cluster/what-if", team.ola).text
    for query in (
        "past&nodes=1&like=gpu-1",
        "past&of=default&resource=cpu&quota=1",
        "past&of=default&resource=memory&quota=8&nodes=0",
    ):
        page = team.read(asks + query, team.ola)
        assert "<bdi>default</bdi>" in page, query
        assert 'role="alert"' not in page, query
    page = team.read(f"{asks}job&gpus=1&memory_gib=1&queue=default", team.ola)
    assert "The job would start" in page
    for query, words in (
        ("past", "Change something"),
        ("job", "Say what the job would take"),
        ("past&nodes=many", "Write a number."),
        ("past&of=nobodys&resource=cpu&quota=1", "Choose one of the queues."),
        ("past&nodes=1&like=nobodys", "There is no host 'nobodys'"),
        ("past&nodes=1&days=1000", "days:"),
        ("job&gpus=1&queue=nobodys", "There is no queue 'nobodys'"),
    ):
        answer = team.get(asks + query, team.ola)
        assert answer.status_code == 200, query
        assert words in html.unescape(answer.text), query


# What needs me


def test_the_home_page_tells_of_a_job_that_failed_until_one_like_it_is_done(team: Team) -> None:
    failed = scheduled.submit(team.site, 0, "failed", token=team.sami, name="broken")
    scheduled.until(team.site, failed, "failed")
    page = team.get("/").text
    assert "Job broken failed" in page
    assert f'href="{LIST}/{failed.id}"' in page
    assert "Job broken" not in team.get("/", team.omar).text, "it is its submitter's to look after"
    mended = scheduled.submit(team.site, 0, token=team.sami, name="broken")
    scheduled.until(team.site, mended, "done")
    assert "Job broken failed" not in team.get("/").text


def test_the_home_page_tells_of_a_job_that_waits_for_long(team: Team) -> None:
    _, waits = team.blocked()
    assert "Job second has waited" not in team.get("/").text
    scheduled.submitted_at(team.site, waits, team.site.platform.clock.now() - 2 * HOUR)
    assert "Job second has waited for 2 h 0 min" in team.get("/").text


def test_many_that_failed_are_told_as_one(team: Team) -> None:
    for number in range(4):
        scheduled.until(team.site, scheduled.submit(team.site, 0, "failed", token=team.sami, name=f"n{number}"), "failed")
    page = team.get("/").text
    assert "4 of your jobs failed today" in page
    assert f'href="{LIST}?state=failed"' in page


# Who may not


def test_another_projects_jobs_do_not_exist(team: Team) -> None:
    runs, waits = team.blocked()
    asked = [f"{LIST}/{job.id}{more}" for job in (runs, waits) for more in ("", "/usage", "/log")]
    for path in (LIST, QUEUES, *asked):
        assert team.get(path, team.eve).status_code == 404, path
        there, nowhere = (team.get(path.replace("/fraud/", f"/{name}/"), team.eve).text for name in ("fraud", "no-such"))
        assert _told(there, "fraud") == _told(nowhere, "no-such"), path
    for path in asked:
        assert team.get(path.replace("/fraud/", "/secretive/"), team.eve).status_code == 404, path
    theirs = team.read("/projects/secretive/queues", team.eve) + team.read("/projects/secretive/jobs", team.eve)
    assert "first</bdi>" not in theirs
    assert "fraud, " not in theirs
    with team.site.client(team.eve) as client:
        csrf = _csrf(client.get("/projects").text)
        for project in ("fraud", "secretive"):
            for form in ("cancel", "retry"):
                path = f"/projects/{project}/jobs/{runs.id}/-/job.{form}"
                assert client.post(path, data={"_csrf": csrf, "_key": "0" * 32}).status_code == 404, path
            answer = client.post(
                f"/projects/{project}/jobs/-/job.cancel", data={"_csrf": csrf, "_key": "0" * 32, "job": runs.id}
            )
            assert answer.status_code == 404
    assert scheduled.show(team.site, runs).state == "running"


def _told(page: str, project: str) -> str:
    """A refusal without what differs from call to call."""
    return re.sub(r"[0-9a-f]{32}", "", page).replace(project, "")


def _csrf(page: str) -> str:
    found = re.search(r'name="csrf-token" content="([^"]+)"', page)
    assert found is not None
    return found[1]


def test_who_only_looks_on_changes_nothing(team: Team) -> None:
    job = scheduled.submit(team.site)
    for path in (LIST, f"{LIST}/{job.id}", QUEUES):
        page = team.get(path, team.omar)
        assert page.status_code == 200
        assert "/-/job." not in page.text
    with team.site.client(team.omar) as client:
        ours = {"_csrf": _csrf(client.get(LIST).text), "_key": "0" * 32}
        for form, given in FORMS.items():
            assert client.post(f"{LIST}/-/job.{form}", data=ours | given | {"job": job.id}).status_code == 403, form
    assert [one.id for one in team.jobs()] == [job.id]


def test_the_cluster_is_shown_to_who_operates_it_alone(team: Team) -> None:
    for path in OPERATORS:
        assert team.get(path, team.ola).status_code == 200, path
        assert team.get(path, team.sami).status_code == 403, path
    assert team.get("/cluster/capacity/points", team.sami).status_code == 403
    assert 'href="/cluster"' in team.get("/", team.ola).text
    assert 'href="/cluster"' not in team.get("/", team.sami).text
    with team.site.client(team.sami) as client:
        given = {"_csrf": _csrf(client.get("/").text), "_key": "0" * 32, "node": "gpu-1"}
        assert client.post("/cluster/-/node.drain", data=given).status_code == 403
    assert {node.state for node in team.hosts()} == {"ready"}
    assert team.get(LIST, team.ola).status_code == 404, "operating is not looking into projects"


def test_reading_pages_accuses_nobody_and_forms_from_elsewhere_are_refused(team: Team) -> None:
    job = scheduled.submit(team.site)
    for path in (LIST, f"{LIST}/{job.id}", QUEUES, "/"):
        team.get(path, team.omar)
    for operation in ("job.list", "job.show", "job.why", "queue.list", "job.log"):
        assert team.leaves(operation) == 0, operation
    with team.site.client(team.sami) as client:
        ours = Form(client.get(LIST).text, f"{LIST}/-/job.cancel").fields
        for form, given in FORMS.items():
            path, said = f"{LIST}/-/job.{form}", ours | given | {"job": job.id}
            assert client.post(path, data=said | {"_csrf": "0" * 64}).status_code == 403, form
            assert client.post(path, data=said, headers={"sec-fetch-site": "cross-site"}).status_code == 403, form


def test_what_people_wrote_is_shown_as_text_and_pages_hold_no_script_of_their_own(team: Team) -> None:
    _, waits = team.blocked()
    nasty = scheduled.submit(team.site, command=("timer", NASTY), variables=(jobs.Setting(name="N", value=NASTY),))
    paths = (LIST, QUEUES, f"{LIST}/{nasty.id}", f"{LIST}/{waits.id}", "/projects/fraud", "/", *OPERATORS)
    asked = f"/cluster/what-if?ask=past&nodes={NASTY}&of={NASTY}&quota={NASTY}"
    for path in (*paths, asked):
        page = team.get(path, team.site.session()).text
        assert "<script>alert" not in page, path
        assert "49 ünï" not in page, path
        assert re.findall(r"<script(?![^>]* src=)|<style|\sstyle=|\son[a-z]+=|javascript:", page) == [], path
        assert page.count("<h1>") == 1, path
