"""Submitting, planning, cancelling and submitting again: what is accepted runs, what is refused changes nothing."""

from typing import Any

import pytest

from falaj.base.clock import Moment, SystemClock
from falaj.base.errors import Conflict, FalajError, Forbidden, Invalid
from falaj.base.values import Nothing
from falaj.governance.identity.member_operations import ADD_MEMBER, AddMember
from falaj.governance.identity.operations import CREATE_TOKEN, CreateToken
from falaj.governance.projects.operations import CREATE_PROJECT, CreateProject
from falaj.governance.roles import Role
from falaj.jobs.operations import jobs as declared
from falaj.jobs.operations.jobs import Input, Setting
from falaj.jobs.operations.nodes import LIST_NODES
from falaj.jobs.operations.queues import CohortSpec, PriorityClass, QueueSpec, QuotaOf
from falaj.jobs.operations.words import STUDY, Resources
from falaj.jobs.submitting import name_of
from falaj.lineage.operations import SHOW_GRAPH, ShowGraph
from falaj.tracking.operations.runs import CREATE_RUN, SHOW_RUN, CreateRun, OneRun
from tests.jobs.yard import CLOSED, OPEN, PROJECT, Yard, submission

OTHERS = QueueSpec(name="others", projects=("other",))
SCARCE = QueueSpec(name="scarce", cohort="all", quotas=(QuotaOf(resource="cpu", nominal=100, borrow=0),))
CLASSES = (
    PriorityClass(name="normal", value=0),
    PriorityClass(name="high", value=100),
    PriorityClass(name="rare", value=5, most=1),
)


@pytest.fixture(scope="module", autouse=True)
def _queues(yard: Yard) -> None:
    yard.call(CREATE_PROJECT, CreateProject(name="other", zones=("home",)))
    yard.apply(OPEN, CLOSED, OTHERS, SCARCE, cohorts=(CohortSpec(name="all"),), priorities=CLASSES)
    yard.when(lambda: yard.call(LIST_NODES, Nothing()), lambda found: found.items)  # the host is known


def test_a_job_is_told_where_and_when_it_starts_and_then_runs(yard: Yard):
    made = yard.submit("echo", "hello")
    assert [place.node for place in made.plan.places] == [yard.call(LIST_NODES, Nothing()).items[0].name]
    assert made.plan.forecast.expected is not None
    assert (made.job.name, made.job.queue, made.job.zone) == ("echo", "default", "home")
    assert made.job.submitted_by.name == "owner"
    over = yard.ended(made.job.id)
    assert (over.state, over.code, over.words, over.attempts) == ("done", 0, "Done.", 1)
    assert yard.log(over.id) == "hello\n"
    assert yard.events(over.id)[:2] == ["submit", "starting"]
    assert yard.events(over.id)[-1] == "done"


def test_a_plan_says_the_same_and_submits_nothing(yard: Yard):
    before = yard.state()
    plan = yard.call(declared.PLAN_JOB, submission("true"))
    assert plan.queue == "default"
    assert len(plan.places) == 1
    assert yard.state() == before


def test_its_variables_are_seen_and_none_takes_the_place_of_the_platform_s(yard: Yard):
    given = (Setting(name="ROUNDS", value="200"), Setting(name="FALAJ_PROJECT", value="other"))
    job = yard.run("sh", "-c", "echo $ROUNDS $FALAJ_PROJECT $FALAJ_TRY", variables=given)
    assert yard.log(job.id) == "200 default 1\n"


# What is refused

PAST = Moment.parse("2026-01-01T00:00:00Z")
REFUSED: dict[str, tuple[dict[str, Any], type[FalajError], str]] = {
    "more CPUs than any host": ({"resources": Resources(cpus=90_000)}, Invalid, "asks for 90000 CPUs, and the largest host"),
    "more memory than any host": ({"resources": Resources(memory_mib=2**39)}, Invalid, "MiB of memory; ask for less"),
    "a GPU where there is none": ({"resources": Resources(gpus=1)}, Invalid, "No host of its zones has a GPU."),
    "more tasks than there is room for": ({"tasks": 10_000}, Invalid, "10000 tasks at once, and an idle cluster seats"),
    "no CPU": ({"resources": Resources(cpus=0)}, Invalid, "0 CPUs cannot be given: a task needs some, such as 0.1."),
    "cards and a half": ({"resources": Resources(gpus=1.5)}, Invalid, "ask for whole ones, or for a part of one such as 0.5"),
    "a crumb of a card": ({"resources": Resources(gpus=0.001)}, Invalid, "ask for 0.01 or more"),
    "less than a crumb of a card": ({"resources": Resources(gpus=0.00001)}, Invalid, "ask for 0.01 or more"),
    "an image where none may run": ({"image": "python:3.11"}, Invalid, "this platform runs no container images"),
    "no program": ({"command": ("", "x")}, Invalid, "The command's first word is empty"),
    "a lock that leaves a version open": ({"lock": "numpy>=2\n"}, Invalid, "line 1 of the lock is 'numpy>=2'"),
    "a port that is none": ({"hosts": ("example.org:99999",)}, Invalid, "'example.org:99999' names no port"),
    "the host's own loopback": ({"hosts": ("127.0.0.1:5432",)}, Invalid, "An operator can allow it with [jobs] near_hosts"),
    "the host by its name": ({"hosts": ("LocalHost:5432",)}, Invalid, "A job may not reach LocalHost:5432"),
    "a cloud's metadata": ({"hosts": ("169.254.169.254:80",)}, Invalid, "A job may not reach 169.254.169.254:80"),
    "an input that is not there": ({"inputs": (Input(kind="version", id="x"),)}, Invalid, "There is no version 'x' here"),
    "a run to read that is not there": ({"inputs": (Input(kind="run", id="x"),)}, Invalid, "There is no run 'x' here for it"),
    "more at least than at all": ({"tasks": 2, "least": 3}, Invalid, "A job of 2 tasks cannot make do with at least 3."),
    "a lock and an image": ({"lock": "numpy==2.3.1", "image": "x"}, Invalid, "not in both"),
    "a deadline that has passed": ({"deadline": PAST}, Invalid, "The deadline 2026-01-01T00:00:00.000000Z has passed already"),
    "a queue that is not there": ({"queue": "nowhere"}, Invalid, "There is no queue 'nowhere' for this project; there are def"),
    "a queue of others": ({"queue": "others"}, Invalid, "There is no queue 'others' for this project; there are default"),
    "a priority nobody made": ({"priority": "vip"}, Invalid, "There is no priority class 'vip'; there are normal, high, rare."),
    "a source that was not sent": ({"source": "0" * 64}, Invalid, "was not sent to this project; send it first"),
    "a secret that is not there": ({"secrets": ("LAKE",)}, Invalid, "There is no secret 'LAKE' here; `falaj secret list`"),
    "a permission that is not there": ({"permissions": ("job.fly",)}, Invalid, "There is no permission 'job.fly'; docs/refer"),
    "to make tokens": ({"permissions": ("job.read", "token.own")}, Invalid, "A job cannot have 'token.own'"),
    "to open sessions": ({"permissions": ("session.link",)}, Invalid, "A job cannot have 'session.link'"),
    "a zone that is not the project's": ({"zone": "moon"}, Forbidden, "may not run in zone 'moon'"),
    "a run that is not there": ({"run": "0" * 32}, Invalid, f"There is no run {'0' * 32} here"),
    "more than its queue may ever have": ({"queue": "scarce", "resources": Resources()}, Invalid, "may have at most 0.1 cores"),
}


@pytest.mark.parametrize("operation", [declared.SUBMIT_JOB, declared.PLAN_JOB], ids=["submit", "plan"])
@pytest.mark.parametrize(("fields", "kind", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_is_refused_with_its_reason_and_changes_nothing(
    yard: Yard, operation: Any, fields: dict[str, Any], kind: type[FalajError], words: str
):
    before = yard.state()
    with pytest.raises(kind) as refused:
        yard.call(operation, submission("true", **fields))
    assert words in str(refused.value)
    assert yard.state() == before


ABSURD: list[dict[str, Any]] = [
    *({"resources": {"cpus": cpus}} for cpus in (-1, 1e308, "Infinity", "NaN", "2", None)),
    *({"resources": {"memory_mib": memory}} for memory in (-1, 0, 1.5, 2**63)),
    *({"resources": {"gpus": gpus}} for gpus in (-0.5, 1025)),
    *({"resources": {"sharing": "magic"}}, {"resources": {"gpu_models": ["../../etc"]}}, {"resources": {"io": -1}}),
    *({"tasks": tasks} for tasks in (-1, 0, 10_001)),
    *({"seconds": -1}, {"timeout": -1}, {"retries": 101}, {"grace": 3601}, {"disk_mib": 0}, {"deadline": "tomorrow"}),
    *({"command": command} for command in ([], "true", ["a\0b"], [1])),
    *({"name": name} for name in ("../x", "a\nb", "x" * 101)),
    *({"variables": [{"name": name, "value": "x"}]} for name in ("A=B", "", "1A", "A B")),
    *({"hosts": [host]} for host in ("example.com", "example.com:99999x", "http://example.com:80", "-x:80")),
    *({"secrets": ["lower"]}, {"queue": "a/b"}, {"priority": "A"}, {"topology": "moon"}, {"unknown": 1}),
]


@pytest.mark.parametrize("fields", ABSURD, ids=str)
def test_what_makes_no_sense_is_refused_by_its_name(yard: Yard, fields: dict[str, Any]):
    before = yard.state()
    with yard.platform.http(yard.platform.token) as http:
        answer = http.post(f"/v1/projects/{PROJECT}/jobs", json={"spec": {"command": ["true"]} | fields})
    assert answer.status_code == 400, answer.text
    assert next(iter(fields)) in answer.json()["detail"]
    assert yard.state() == before


def test_a_project_may_have_so_many_of_a_priority_at_once(yard: Yard):
    first = yard.submit(queue="closed", priority="rare").job
    with pytest.raises(Conflict, match="may have 1 jobs of priority 'rare' at once"):
        yard.submit(queue="closed", priority="rare")
    yard.submit(queue="closed", priority="high")
    yard.cancel(first.id)
    assert yard.submit(queue="closed", priority="rare").job.state == "waiting"


def test_a_token_gives_a_job_no_more_than_it_has(yard: Yard):
    narrow = yard.call(CREATE_TOKEN, CreateToken(label="narrow", scopes=("job.submit", "job.read", "run.read"))).token
    with pytest.raises(Forbidden, match=r"Your own token does not have the scope 'model.write'"):
        yard.submit(permissions=("run.read", "model.write"), token=narrow)
    made = yard.submit(queue="closed", permissions=("run.read",), token=narrow)
    assert made.job.spec.permissions == ("run.read",)
    yard.cancel(made.job.id)


# Queues by default


def test_a_project_s_own_queue_is_the_one_it_gets_unless_it_says_otherwise(yard: Yard):
    assert yard.call(declared.PLAN_JOB, submission(project="other")).queue == "others"
    assert yard.call(declared.PLAN_JOB, submission(project="other", queue="default")).queue == "default"
    assert yard.call(declared.PLAN_JOB, submission()).queue == "default"


def test_what_outranks_other_projects_is_for_admins_and_operators_and_a_project_orders_its_own_queue_itself(yard: Yard):
    ann = yard.platform.person("ann", roles={PROJECT: Role.SCIENTIST, "other": Role.SCIENTIST})
    before = yard.state()
    for operation in (declared.SUBMIT_JOB, declared.PLAN_JOB):
        with pytest.raises(Forbidden, match=r"'high' is above normal.*for the project's admins and operators"):
            yard.call(operation, submission(queue="closed", priority="high"), token=ann)
    assert yard.state() == before
    assert yard.call(declared.PLAN_JOB, submission(), token=ann).queue == "default"
    assert yard.call(declared.PLAN_JOB, submission(project="other", priority="high"), token=ann).queue == "others"
    assert yard.call(declared.PLAN_JOB, submission(priority="high")).queue == "default"
    yard.call(ADD_MEMBER, AddMember(project=PROJECT, member="ann", role=Role.OPERATOR))
    assert yard.call(declared.PLAN_JOB, submission(priority="high"), token=ann).queue == "default"


def test_a_platform_s_operator_may_outrank_where_he_may_submit(yard: Yard):
    ops = yard.platform.person("ops", roles={PROJECT: Role.SCIENTIST}, platform=Role.OPERATOR)
    assert yard.call(declared.PLAN_JOB, submission(priority="high"), token=ops).queue == "default"


# Cancelling, and submitting again


def test_a_job_that_waits_is_cancelled_and_one_that_is_over_is_not(yard: Yard):
    job = yard.submit(queue="closed").job
    assert yard.cancel(job.id).state == "cancelled"
    assert yard.show(job.id).attempts == 0
    before = yard.state()
    with pytest.raises(Conflict, match="The job 'true' is over already: cancelled"):
        yard.call(declared.CANCEL_JOB, declared.Cancel(project=PROJECT, job=job.id))
    assert yard.state() == before


def test_a_job_that_runs_is_asked_to_end_and_does(yard: Yard):
    job = yard.submit("sh", "-c", "trap 'echo bye; exit 0' TERM; echo begun; while :; do sleep 0.1; done", grace=30).job
    yard.when(lambda: yard.log(job.id), lambda text: "begun" in text)
    over = yard.cancel(job.id)
    assert over.state == "cancelled"
    assert yard.log(job.id).endswith("bye\n")
    assert "cancel" in yard.events(job.id)


def test_asking_twice_cancels_once(yard: Yard):
    job = yard.submit("sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 0.1; done", grace=3).job
    yard.when(lambda: yard.log(job.id), lambda text: "deaf" in text)
    for _ in range(2):
        yard.call(declared.CANCEL_JOB, declared.Cancel(project=PROJECT, job=job.id))
    assert yard.ended(job.id).state == "cancelled"
    assert yard.events(job.id).count("cancel") == 1


def test_the_same_is_submitted_again_once_it_is_over(yard: Yard):
    soon = Moment(SystemClock().now() + 3600 * 1_000_000)
    given = (Setting(name="RATE", value="1"), Setting(name=STUDY, value="0" * 64))
    first = yard.submit("sh", "-c", "echo $FALAJ_TRY", name="again", queue="closed", deadline=soon, variables=given).job
    with pytest.raises(Conflict, match="is waiting; only one that is over"):
        yard.call(declared.RETRY_JOB, declared.Retry(project=PROJECT, job=first.id))
    yard.cancel(first.id)
    second = yard.call(declared.RETRY_JOB, declared.Retry(project=PROJECT, job=first.id)).job
    assert second.id != first.id
    assert (second.name, second.spec.command, second.queue) == (first.name, first.spec.command, first.queue)
    assert second.spec.deadline is None  # it was about the first
    assert second.spec.variables == given[:1]  # who repeats a trial did not for that begin its study
    yard.cancel(second.id)


# The run it writes to


@pytest.mark.parametrize(
    ("command", "status"),
    [("true", "FINISHED"), ("exit 3", "FAILED"), ("sleep 60", "KILLED")],
    ids=["done", "failed", "cancelled"],
)
def test_the_run_a_job_was_given_ends_with_it(yard: Yard, command: str, status: str):
    made = yard.submit("sh", "-c", f'test -n "$MLFLOW_RUN_ID" && {command}', experiment="endings", grace=0).job
    run = yard.call(SHOW_RUN, OneRun(project=PROJECT, run=made.run))
    assert run.info.status == "RUNNING"
    assert ("falaj.job", made.id) in [(tag.key, tag.value) for tag in run.tags]
    over = yard.cancel(made.id) if status == "KILLED" else yard.ended(made.id)
    ended = yard.call(SHOW_RUN, OneRun(project=PROJECT, run=made.run)).info
    assert ended.status == status
    assert ended.ended == over.ended // 1000


def test_what_a_script_said_of_its_run_stays(yard: Yard):
    said = (
        "import json, os, urllib.request as u; "
        "r = u.Request(os.environ['FALAJ_URL'] + '/v1/projects/default/runs/' + os.environ['FALAJ_RUN'], method='PUT', "
        "headers={'authorization': 'Bearer ' + os.environ['FALAJ_TOKEN'], 'content-type': 'application/json'}, "
        "data=json.dumps({'status': 'FAILED', 'ended': 17}).encode()); u.urlopen(r)"
    )
    made = yard.run("python", "-c", said, experiment="endings")
    assert made.state == "done", yard.log(made.id)
    told = yard.call(SHOW_RUN, OneRun(project=PROJECT, run=made.run)).info
    assert (told.status, told.ended) == ("FAILED", 17)


def test_a_job_writes_to_a_run_that_is_there_already(yard: Yard):
    run = yard.call(CREATE_RUN, CreateRun(project=PROJECT)).info.id
    job = yard.run("sh", "-c", "echo $MLFLOW_RUN_ID", run=run)
    assert yard.log(job.id).strip() == run == job.run
    assert yard.call(SHOW_RUN, OneRun(project=PROJECT, run=run)).info.status == "FINISHED"


def test_what_a_job_reads_is_what_its_run_came_from(yard: Yard):
    source = yard.call(CREATE_RUN, CreateRun(project=PROJECT)).info.id
    made = yard.run("true", experiment="readers", inputs=(Input(kind="run", id=source),))
    graph = yard.call(SHOW_GRAPH, ShowGraph(project=PROJECT, kind="run", id=made.run, direction="up"))
    assert [(edge.source.id, edge.target.id, edge.relation) for edge in graph.edges] == [(source, made.run, "input")]


def test_a_run_of_another_project_is_none(yard: Yard):
    run = yard.call(CREATE_RUN, CreateRun(project="other")).info.id
    with pytest.raises(Invalid, match=f"There is no run {run} here"):
        yard.submit(run=run)


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (("python", "-u", "src/train.py", "--rounds", "3"), "train.py"),
        (("/bin/sh", "-c", "echo hi"), "sh"),
        (("./run me.sh",), "run me.sh"),
        (("-x",), "job"),
        (("\x1b[31mred",), "31mred"),
        (("x" * 300,), "x" * 100),
    ],
)
def test_a_job_without_a_name_is_called_like_its_script(command: tuple[str, ...], name: str):
    assert name_of(command) == name
