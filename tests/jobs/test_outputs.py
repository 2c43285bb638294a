"""What a job declares to write is kept with its run when it is done; without it the job is not done."""

import json
from typing import Any

import pytest

from falaj.base.errors import Forbidden, Invalid
from falaj.governance.identity.operations import CREATE_TOKEN, CreateToken
from falaj.jobs.doors import Door, check_spec
from falaj.jobs.operations import jobs as declared
from falaj.jobs.operations.jobs import Job
from falaj.jobs.views import read_spec
from falaj.tracking.operations.artifacts import LIST_ARTIFACTS, ListArtifacts
from falaj.tracking.operations.runs import SHOW_RUN, OneRun
from tests.jobs.yard import PROJECT, Yard


def kept(yard: Yard, job: Job) -> dict[str, bytes]:
    """Every file of its run, by name."""
    listed = yard.call(LIST_ARTIFACTS, ListArtifacts(project=PROJECT, holder=job.run, deep=True)).items
    place = f"/v1/projects/{PROJECT}/artifacts/{job.run}/file"
    with yard.platform.http(yard.platform.token) as http:
        return {one.name: http.get(place, params={"name": one.name}).raise_for_status().content for one in listed}


def shell(yard: Yard, script: str, *outputs: str, **fields: Any) -> Job:
    return yard.run("sh", "-c", f"cd $FALAJ_OUTPUT; {script}", outputs=outputs, **fields)


def test_files_and_folders_that_were_declared_are_artifacts_of_the_run_once_the_job_is_done(yard: Yard):
    script = "mkdir -p net/deep; echo a > net/w; echo b > 'net/deep/é 1'; echo c > m; ln -s deep/../w net/best; echo d > other"
    job = shell(yard, script, "net", "m", experiment="trainings")
    assert job.state == "done", (job.words, yard.log(job.id))
    assert kept(yard, job) == {
        "outputs/net/w": b"a\n",
        "outputs/net/deep/é 1": b"b\n",
        "outputs/net/best": b"a\n",
        "outputs/m": b"c\n",
    }
    assert yard.log(job.id) == "falaj: kept 4 files (8 bytes) of its outputs\n"
    assert yard.call(SHOW_RUN, OneRun(project=PROJECT, run=job.run)).info.status == "FINISHED"


def test_a_job_with_outputs_has_a_run_though_it_names_no_experiment(yard: Yard):
    job = shell(yard, "head -c 3000000 /dev/zero > big", "big")
    assert (job.state, job.spec.experiment) == ("done", "jobs")
    assert {name: len(content) for name, content in kept(yard, job).items()} == {"outputs/big": 3_000_000}


WRONG = {
    "not written": ("true", "'m' was not written"),
    "an empty folder": ("mkdir m", "'m' is a folder without a file"),
    "a link out": ("ln -s /etc/passwd m", "'m' is a link that leads out"),
    "a link out within": ("mkdir m; echo x > m/a; ln -s ../../../etc m/b", "'m/b' is a link that leads out"),
    "the first process's own": ("ln -s /proc/self/environ m", "'m' is a link that leads out"),
    "elsewhere": ("cd ..; rm -r output; mkdir a; echo x > a/m; ln -s a output", "'m' is a link that leads out"),
    "nowhere": ("cd ..; rm -r output", "'m' was not written"),
    "in a circle": ("mkdir m; ln -s .. m/up; echo x > m/a", "'m/up' is a link to a folder"),
    "no file": ("mkfifo m", "'m' is neither file nor folder"),
    "a name that is none": ("mkdir m; touch 'm/a\\b'", "cannot be kept:"),
    "closed": ("echo x > m; chmod 0 m", "'m' cannot be read: Permission denied"),
}


@pytest.fixture(scope="module")
def wrong(yard: Yard) -> dict[str, Job]:
    """All of them at once."""
    made = {what: yard.submit("sh", "-c", f"cd $FALAJ_OUTPUT; {script}", outputs=("m",)) for what, (script, _) in WRONG.items()}
    return {what: yard.ended(one.job.id) for what, one in made.items()}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_not_there_or_cannot_be_kept_fails_the_try_and_says_why(wrong: dict[str, Job], what: str):
    job, (_, words) = wrong[what], WRONG[what]
    assert (job.state, job.cause, job.code) == ("failed", "output", 0), job
    assert "ended well, but its output" in job.words
    assert words in job.words


def test_nothing_is_kept_of_a_command_that_failed(yard: Yard):
    job = shell(yard, "echo x > m; exit 3", "m")
    assert (job.state, job.cause, job.code) == ("failed", "failed", 3)
    assert kept(yard, job) == {}


def test_tasks_have_all_ended_before_their_outputs_are_kept(yard: Yard):
    job = shell(yard, "[ $RANK = 0 ] || sleep 0.2; echo x > $RANK", "0", "1", tasks=2)
    assert job.state == "done", job.words
    assert set(kept(yard, job)) == {"outputs/0", "outputs/1"}


def test_what_a_job_says_of_itself_changes_nothing_about_where_its_outputs_go(yard: Yard):
    """Variables of its own by the platform's names, and a process of its own that swaps files meanwhile."""
    mine = {"FALAJ_URL": "http://127.0.0.1:9", "FALAJ_OUTPUT": "/etc", "FALAJ_RUN": "0" * 32, "FALAJ_PROJECT": "other"}
    swap = "(while true; do ln -sfn /etc/passwd net/a; ln -sfn /proc/1/environ net/a; echo x > b; mv b net/a; done) &"
    job = yard.run(
        *("sh", "-c", f"cd /job/output; mkdir net; echo x > net/a; echo y > net/z; {swap} sleep 0.2"),
        outputs=("net",),
        variables=tuple(declared.Setting(name=name, value=text) for name, text in mine.items()),
    )
    assert job.cause in ("done", "output")
    assert set(kept(yard, job).values()) <= {b"x\n", b"y\n"}


def test_a_repeated_job_declares_the_same(yard: Yard):
    failed = shell(yard, "[ -e again ] && echo x > m", "m")
    again = yard.call(declared.RETRY_JOB, declared.Retry(project=PROJECT, job=failed.id)).job
    assert (again.spec.outputs, again.spec.experiment) == (("m",), "jobs")
    assert again.run not in ("", failed.run)
    yard.ended(again.id)


@pytest.mark.parametrize("name", ["../a", "/etc/passwd", "a/../../b", "a//b", ".", "a\\b", "a\nb", "x" * 501, ""])
def test_a_name_that_leads_elsewhere_is_refused(yard: Yard, name: str):
    body = {"spec": {"command": ["true"], "outputs": [name]}}
    with yard.platform.http(yard.platform.token) as http:
        answer = http.post(f"/v1/projects/{PROJECT}/jobs", json=body)
    assert answer.status_code == 400
    assert "outputs" in answer.json()["detail"]


def test_who_could_not_keep_them_cannot_declare_any(yard: Yard):
    with pytest.raises(Invalid, match=r"artifact\.write"):
        yard.submit("true", outputs=("m",), permissions=("run.read",))
    narrow = yard.call(CREATE_TOKEN, CreateToken(label="narrow", scopes=("job.submit", "run.write", "read"), days=1)).token
    with pytest.raises(Forbidden, match=r"artifact\.write"):
        yard.submit("true", outputs=("m",), token=narrow)


def test_specs_of_earlier_releases_are_read():
    read = read_spec(json.dumps({"command": ["true"], "checkpoints": True}))
    assert (read.outputs, read.continues) == ((), ())


def test_where_nobody_keeps_outputs_they_are_refused():
    spec = declared.Spec(command=("true",), outputs=("m",))
    check_spec(spec, Door())
    with pytest.raises(Invalid, match="Kubernetes"):
        check_spec(spec, Door(keeps_outputs=False))
