"""Attacks by jobs and through jobs: out of the sandbox, beyond the token, into other projects, after losing access."""

import json
import socket
import threading
from typing import Any

import pytest

from falaj.base.errors import Forbidden, NotFound
from falaj.governance.identity.member_operations import REMOVE_MEMBER, RemoveMember
from falaj.governance.identity.operations import CREATE_TOKEN, CreateToken
from falaj.governance.ledger.operations import LOG, ReadLog
from falaj.governance.projects.operations import CREATE_PROJECT, CreateProject
from falaj.governance.roles import Role
from falaj.jobs.operations import jobs as declared
from falaj.jobs.operations.queues import LIST_QUEUES, ListQueues, QueueSpec
from falaj.jobs.operations.secrets import SET_SECRET, SetSecret
from tests.app.running import RunningPlatform
from tests.jobs.yard import CLOSED, OPEN, PROJECT, Yard

SECRET = "a value that only one job may see"
# What a job finds where it is: written as JSON, so that the test can look at all of it.
PROBE = """
import glob, json, os, socket
def read(path):
    try:
        return open(path, "rb").read(4000).decode(errors="replace")
    except OSError as error:
        return type(error).__name__
def reach(host, port):
    try:
        socket.create_connection((host, port), timeout=2).close()
        return "reached"
    except OSError as error:
        return type(error).__name__
def write(path):
    try:
        open(path, "w").write("x")
        return "written"
    except OSError as error:
        return type(error).__name__
home, port = os.environ["PROBED_HOME"], int(os.environ["PROBED_PORT"])
print(json.dumps({
    "files": {name: read(name) for place in (home, home + ".keys") for name in glob.glob(place + "/**", recursive=True)},
    "processes": {name: read(name) for name in glob.glob("/proc/[0-9]*/environ")},
    "commands": {name: read(name) for name in glob.glob("/proc/[0-9]*/cmdline")},
    "parents": {name: read(name) for name in ("/proc/1/root/etc/shadow", "/etc/shadow", "/root/.bashrc")},
    "network": {"loopback": reach("127.0.0.1", port), "host": reach(os.environ["PROBED_ADDRESS"], port)},
    "names": [name for _, name in socket.if_nameindex()],
    "written": {name: write(name) for name in ("/usr/x", "/etc/x", "/falaj/x", home + "/x", "/proc/sys/kernel/hostname")},
    "user": os.getuid(),
}))
"""
CALL = """
import json, os, urllib.error, urllib.request
def call(method, path, body=None):
    head = {"authorization": "Bearer " + os.environ["FALAJ_TOKEN"], "content-type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    try:
        request = urllib.request.Request(os.environ["FALAJ_URL"] + path, data, head, method=method)
        return urllib.request.urlopen(request).status
    except urllib.error.HTTPError as error:
        return error.code
print(json.dumps([call(*one) for one in json.loads(os.environ["CALLS"])]))
"""


@pytest.fixture(scope="module", autouse=True)
def _furnished(yard: Yard) -> None:
    yard.apply(OPEN, CLOSED)
    yard.call(CREATE_PROJECT, CreateProject(name="other", zones=("home",)))
    yard.call(SET_SECRET, SetSecret(project=PROJECT, name="LAKE", value=SECRET))


def setting(name: str, value: str) -> declared.Setting:
    return declared.Setting(name=name, value=value)


def statuses(yard: Yard, *calls: tuple[Any, ...], **fields: Any) -> list[int]:
    """How the platform answers a job that calls it with the token it was given."""
    job = yard.run("python", "-c", CALL, variables=(setting("CALLS", json.dumps(calls)),), **fields)
    assert job.state == "done", yard.log(job.id)
    answered: list[int] = json.loads(yard.log(job.id))
    return answered


# Out of the sandbox


@pytest.fixture(scope="module")
def probed(yard: Yard) -> dict[str, Any]:
    """What a job sees while another one, with a secret, runs beside it and somebody listens on the host."""
    beside = yard.submit("sleep", "60", secrets=("LAKE",), grace=0).job
    yard.running(beside.id)
    listener = socket.create_server(("0.0.0.0", 0))
    threading.Thread(target=lambda: [listener.accept() for _ in range(9)], daemon=True).start()
    given = {
        "PROBED_HOME": str(yard.platform.home.path),
        "PROBED_PORT": str(listener.getsockname()[1]),
        "PROBED_ADDRESS": socket.gethostbyname(socket.gethostname()),
    }
    job = yard.run("python", "-c", PROBE, variables=tuple(setting(*one) for one in given.items()))
    assert job.state == "done", yard.log(job.id)
    yard.cancel(beside.id)
    tries = yard.call(declared.LIST_ATTEMPTS, declared.OneJob(project=PROJECT, job=beside.id)).items
    found: dict[str, Any] = json.loads(yard.log(job.id))
    return found | {"beside": tries[0].id}


def test_a_job_sees_nothing_of_the_platform_s_home_or_keys(probed: dict[str, Any]):
    assert {
        name: text for name, text in probed["files"].items() if text not in ("IsADirectoryError", "FileNotFoundError")
    } == {}


def test_a_job_sees_no_process_but_its_own_and_nobody_s_environment(probed: dict[str, Any]):
    told = json.dumps([probed["processes"], probed["commands"]])
    assert "keeper" not in told
    assert SECRET not in told
    assert probed["beside"] not in told
    assert "sleep" not in told
    assert len(probed["processes"]) <= 4


def test_a_job_reads_and_writes_nothing_of_the_host_and_is_nobody_there(probed: dict[str, Any]):
    assert set(probed["parents"].values()) <= {"PermissionError", "FileNotFoundError"}
    assert "written" not in probed["written"].values()
    assert probed["user"] != 0


def test_a_job_reaches_no_network_of_the_host(probed: dict[str, Any]):
    assert set(probed["network"].values()) & {"reached"} == set()
    assert probed["names"] == ["lo"]


def test_a_job_reaches_no_host_that_it_did_not_name(yard: Yard):
    script = "import urllib.request; print('reached', urllib.request.urlopen('https://example.com', timeout=5).status)"
    job = yard.run("python", "-c", script)
    assert job.state == "failed"
    assert "URLError" in yard.log(job.id)
    named = yard.run("python", "-c", script, hosts=("example.org:443",))
    assert named.state == "failed"
    assert "403" in yard.log(named.id)


# Beyond its token


def test_a_job_s_token_does_what_a_training_needs_and_reaches_its_own_project_alone(yard: Yard):
    own, other = "/v1/projects/default", "/v1/projects/other"
    assert statuses(
        yard,
        ("POST", f"{own}/runs", {}),
        ("GET", f"{own}/jobs"),
        ("POST", f"{other}/runs", {}),
        ("GET", f"{other}/jobs"),
        ("GET", "/v1/projects/nowhere/jobs"),
    ) == [200, 200, 404, 404, 404]


def test_a_job_s_token_has_no_other_power(yard: Yard):
    own = "/v1/projects/default"
    refused = statuses(
        yard,
        ("POST", f"{own}/jobs", {"spec": {"command": ["true"]}}),
        ("PUT", f"{own}/secrets/MINE", {"value": "x"}),
        ("GET", f"{own}/secrets"),
        ("POST", "/v1/projects", {"name": "mine", "zones": ["home"]}),
        ("PUT", "/v1/platform/queues", {"queues": [{"name": "mine"}]}),
        ("GET", "/v1/platform/nodes"),
        ("POST", "/v1/tokens", {"label": "for later"}),
        ("GET", "/v1/audit/log"),
    )
    assert {status for status in refused if status not in (403, 404)} == set(), refused


def test_a_job_that_asks_for_less_has_less(yard: Yard):
    own = "/v1/projects/default"
    assert statuses(yard, ("GET", f"{own}/jobs"), ("POST", f"{own}/runs", {}), permissions=("job.read",)) == [200, 403]


def test_a_narrowed_token_gives_its_jobs_no_more_than_it_has(yard: Yard):
    narrow = yard.call(CREATE_TOKEN, CreateToken(label="narrow", scopes=("job.submit", "job.read"))).token
    calls = (setting("CALLS", json.dumps([("GET", "/v1/projects/default/jobs"), ("POST", "/v1/projects/default/runs", {})])),)
    job = yard.submit("python", "-c", CALL, variables=calls, token=narrow).job
    assert yard.ended(job.id).state == "done"
    assert json.loads(yard.log(job.id)) == [200, 403]


def test_a_job_s_token_is_worth_nothing_once_it_is_over(yard: Yard):
    job = yard.run("sh", "-c", "echo $FALAJ_TOKEN")
    with yard.platform.http(yard.log(job.id).strip()) as http:
        assert http.get("/v1/projects/default/jobs").status_code == 401


# Who may not, or not any more


def test_a_viewer_looks_and_submits_nothing(yard: Yard):
    viewer = yard.platform.person("vera", roles={PROJECT: Role.VIEWER})
    state = yard.state()
    with pytest.raises(Forbidden):
        yard.submit(token=viewer)
    assert yard.state() == state
    assert yard.call(declared.LIST_JOBS, declared.ListJobs(project=PROJECT), token=viewer).items


def test_what_waits_does_not_start_once_whoever_submitted_it_has_no_access_any_more(yard: Yard):
    sam = yard.platform.person("sam", roles={PROJECT: Role.SCIENTIST})
    job = yard.submit("sh", "-c", "echo $LAKE", queue="closed", secrets=("LAKE",), token=sam).job
    yard.call(REMOVE_MEMBER, RemoveMember(project=PROJECT, member="sam", role=Role.SCIENTIST))
    yard.apply(OPEN, QueueSpec(name="closed"))
    over = yard.ended(job.id)
    assert (over.state, over.cause) == ("failed", "refused")
    assert over.words == "Whoever submitted it may not submit jobs to its project any more."
    assert yard.log(job.id) == ""
    yard.apply(OPEN, CLOSED)


# Into other projects


def test_jobs_of_others_are_not_found_by_id_nor_by_its_end(yard: Yard):
    job = yard.submit(project="other", queue="closed", name="theirs").job.id
    for given in (job, job[-6:], job[-12:]):
        one = declared.OneJob(project=PROJECT, job=given)
        for operation, request in (
            *((each, one) for each in (declared.SHOW_JOB, declared.LIST_ATTEMPTS, declared.EXPLAIN_JOB, declared.FORECAST_JOB)),
            (declared.READ_LOG, declared.ReadLog(project=PROJECT, job=given)),
            (declared.READ_EVENTS, declared.ReadEvents(project=PROJECT, job=given)),
            (declared.READ_JOB_USAGE, declared.ReadUsage(project=PROJECT, job=given)),
            (declared.CANCEL_JOB, declared.Cancel(project=PROJECT, job=given)),
            (declared.RETRY_JOB, declared.Retry(project=PROJECT, job=given)),
            (declared.REPORT_JOB, declared.Report(project=PROJECT, job=given, progress=1.0)),
        ):
            with pytest.raises(NotFound, match=f"There is no job '{given}' here"):
                yard.call(operation, request)
    assert yard.show(job, "other").progress == 0
    yard.cancel(job, "other")


def test_what_a_job_waits_for_names_nothing_of_others(yard: Yard):
    theirs = yard.submit(project="other", queue="closed", name="theirs", priority="high").job
    mine = yard.submit(queue="closed").job
    why = yard.when(lambda: yard.why(mine.id), lambda found: found.before == 1)
    assert why.ahead == ()
    seen = [why, yard.call(declared.FORECAST_JOB, declared.OneJob(project=PROJECT, job=mine.id))]
    seen.append(yard.call(LIST_QUEUES, ListQueues(project=PROJECT)))
    for word in (theirs.id, "theirs", "'other'"):
        assert word not in repr(seen)
    yard.cancel(theirs.id, "other")
    yard.cancel(mine.id)


# Secrets


def test_a_secret_is_in_no_record_even_where_what_it_was_for_failed(yard: Yard):
    job = yard.run("sh", "-c", "exit 4", secrets=("LAKE",), variables=(setting("LAKE", "shadowed"),))
    assert job.state == "failed"
    leaves = yard.call(LOG, ReadLog(limit=1000)).items
    assert SECRET not in repr(leaves)
    assert SECRET not in repr(yard.show(job.id))
    assert SECRET.encode() not in b"".join(path.read_bytes() for path in yard.platform.home.path.rglob("*") if path.is_file())


def test_the_platform_met_no_error_that_it_did_not_expect(yard: Yard):
    assert isinstance(yard.platform, RunningPlatform)
    assert "Traceback" not in yard.platform.home.log.read_text()
