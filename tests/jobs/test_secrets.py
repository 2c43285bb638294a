"""Secrets: kept sealed, seen by the jobs that name them, and by nobody and nothing else."""

from pathlib import Path

import pytest

from falaj.base.errors import FalajError, Forbidden, Invalid, NotFound
from falaj.governance.ledger.operations import LOG, ReadLog
from falaj.governance.projects.operations import CREATE_PROJECT, CreateProject
from falaj.governance.roles import Role
from falaj.jobs.operations import secrets as declared
from falaj.jobs.operations.queues import QueueSpec
from falaj.storage.operations import KEY_ROTATE, KEY_SHOW, OneProject
from tests.jobs.yard import CLOSED, OPEN, PROJECT, Yard

VALUE = "correct horse battery staple"


def put(yard: Yard, name: str, value: str = VALUE, project: str = PROJECT) -> declared.SecretView:
    kept: declared.SecretView = yard.call(declared.SET_SECRET, declared.SetSecret(project=project, name=name, value=value))
    return kept


def names(yard: Yard, project: str = PROJECT) -> list[str]:
    return [one.name for one in yard.call(declared.LIST_SECRETS, declared.ListSecrets(project=project)).items]


def read(yard: Yard, *secrets: str) -> str:
    """What a job sees of them."""
    job = yard.run("sh", "-c", "printf '%s' \"" + "|".join(f"${{{name}-none}}" for name in secrets) + '"', secrets=secrets)
    assert job.state == "done", job.words
    return yard.log(job.id)


def everything_kept(yard: Yard) -> bytes:
    """Every byte in the home: database, ledger, blobs, logs, what is left of jobs."""
    return b"".join(path.read_bytes() for path in Path(yard.platform.home.path).rglob("*") if path.is_file())


def test_a_job_sees_the_secrets_it_names_and_no_others(yard: Yard):
    put(yard, "LAKE")
    put(yard, "OTHER")
    assert read(yard, "LAKE") == VALUE
    job = yard.run("sh", "-c", "env")
    assert VALUE not in yard.log(job.id)


def test_a_secret_that_is_set_again_is_the_new_one(yard: Yard):
    put(yard, "CHANGING", "old")
    put(yard, "CHANGING", "new\nwith two lines")
    assert names(yard).count("CHANGING") == 1
    assert read(yard, "CHANGING") == "new\nwith two lines"


def test_it_is_shown_to_nobody_and_lies_nowhere_in_the_clear(yard: Yard):
    hidden = "a most unlikely value 7f3a"
    view = put(yard, "HIDDEN", hidden)
    assert hidden not in repr(view)
    assert hidden not in repr(yard.call(declared.LIST_SECRETS, declared.ListSecrets(project=PROJECT)))
    job = yard.run("sh", "-c", 'test -n "$HIDDEN"', secrets=("HIDDEN",))
    assert job.state == "done"
    assert hidden not in repr(job)
    leaves = yard.call(LOG, ReadLog(operation="secret.set", limit=1000)).items
    assert leaves
    assert hidden not in repr(leaves)
    assert hidden.encode() not in everything_kept(yard)


def test_it_is_there_after_the_project_s_key_was_rotated(yard: Yard):
    put(yard, "LASTING")
    yard.call(KEY_ROTATE, OneProject(project=PROJECT))
    yard.when(lambda: yard.call(KEY_SHOW, OneProject(project=PROJECT)), lambda key: not key.rotating)
    assert read(yard, "LASTING") == VALUE


def test_a_job_whose_secret_was_deleted_before_it_began_is_told_which(yard: Yard):
    yard.apply(OPEN, CLOSED)
    put(yard, "FLEETING")
    job = yard.submit("true", queue="closed", secrets=("FLEETING",)).job
    yard.call(declared.DELETE_SECRET, declared.OneSecret(project=PROJECT, name="FLEETING"))
    assert "FLEETING" not in names(yard)
    yard.apply(OPEN, QueueSpec(name=CLOSED.name))
    over = yard.ended(job.id)
    assert (over.state, over.cause) == ("failed", "environment")
    assert "The secret 'FLEETING' is not there any more" in over.words


@pytest.mark.parametrize("name", ["FALAJ_TOKEN", "MLFLOW_RUN_ID", "LD_PRELOAD"])
def test_a_name_that_is_the_platform_s_is_refused(yard: Yard, name: str):
    state = yard.state()
    with pytest.raises(Invalid, match="is a name the platform gives to jobs itself; choose another"):
        put(yard, name)
    assert yard.state() == state


@pytest.mark.parametrize("name", ["lower", "1A", "A-B", "A" * 101])
def test_a_name_that_is_no_variable_is_refused_and_the_value_is_not_repeated(yard: Yard, name: str):
    state = yard.state()
    with yard.platform.http(yard.platform.token) as http:
        answer = http.put(f"/v1/projects/{PROJECT}/secrets/{name}", json={"value": VALUE})
    assert answer.status_code == 400
    assert VALUE not in answer.text
    assert yard.state() == state


def test_a_value_that_is_too_long_is_refused_and_not_repeated(yard: Yard):
    with pytest.raises(FalajError) as refused:
        put(yard, "LONG", VALUE + "x" * 70_000)
    assert VALUE not in str(refused.value)


def test_one_that_is_not_there_cannot_be_deleted(yard: Yard):
    with pytest.raises(NotFound, match="There is no secret 'NOWHERE' here"):
        yard.call(declared.DELETE_SECRET, declared.OneSecret(project=PROJECT, name="NOWHERE"))


def test_another_project_s_secret_of_the_same_name_is_another(yard: Yard):
    yard.call(CREATE_PROJECT, CreateProject(name="other", zones=("home",)))
    put(yard, "SAME", "of default")
    assert names(yard, "other") == []
    with pytest.raises(Invalid, match="There is no secret 'SAME' here"):
        yard.submit(project="other", secrets=("SAME",))
    put(yard, "SAME", "of other", project="other")
    assert read(yard, "SAME") == "of default"


def test_setting_one_is_for_who_administers_the_project(yard: Yard):
    scientist = yard.platform.person("scientist", roles={PROJECT: Role.SCIENTIST})
    state = yard.state()
    for operation, request in (
        (declared.SET_SECRET, declared.SetSecret(project=PROJECT, name="MINE", value="x")),
        (declared.DELETE_SECRET, declared.OneSecret(project=PROJECT, name="LAKE")),
    ):
        with pytest.raises(Forbidden):
            yard.call(operation, request, token=scientist)
    assert yard.state() == state
