"""A whole platform whose jobs run in a cluster's double, and its side of what pods ask it for."""

import base64

import httpx
import pytest

from falaj.base.errors import NotFound
from falaj.governance.projects.operations import CREATE_PROJECT, CreateProject
from falaj.jobs.operations import jobs as declared
from falaj.jobs.operations.nodes import LIST_NODES
from tests.jobs.engines.cluster import Cluster
from tests.jobs.engines.test_kubernetes import node
from tests.jobs.yard import PROJECT, Yard, tar_of

SETTINGS = """
[jobs]
local = false
kubernetes_url = "{url}"
kubernetes_token = "{token}"
kubernetes_platform_url = "http://10.255.255.1:8400"
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    cluster = Cluster(tmp_path_factory.mktemp("pods"), [node("node-a", zone="home"), node("node-b", zone="elsewhere")])
    yield cluster
    cluster.close()


@pytest.fixture(scope="module")
def yard(cluster, tmp_path_factory):
    made = Yard(tmp_path_factory.mktemp("yard"), SETTINGS.format(url=cluster.url, token=cluster.token))
    made.when(lambda: made.call(LIST_NODES, LIST_NODES.request()).items, lambda found: len(found) == 2)
    yield made
    made.close()


def test_a_job_runs_as_a_pod_in_its_zone_and_its_log_is_kept(yard, cluster):
    done = yard.run("sh", "-c", "echo from a pod; echo $FALAJ_URL")
    assert done.state == "done"
    attempts = yard.call(declared.LIST_ATTEMPTS, declared.OneJob(project=PROJECT, job=done.id)).items
    assert [(one.engine, [place.node for place in one.places]) for one in attempts] == [("kubernetes", ["node-a"])]
    yard.when(lambda: cluster.of("jobs"), lambda jobs: not jobs)  # its log was put away, and it was forgotten
    assert yard.log(done.id) == "from a pod\nhttp://10.255.255.1:8400\n"
    assert yard.run("sh", "-c", "exit 3").code == 3


def test_a_pod_that_is_cancelled_is_told_and_gone(yard, cluster):
    job = yard.submit("sleep", "600").job.id
    yard.running(job)
    assert yard.cancel(job).state == "cancelled"
    yard.when(lambda: cluster.of("pods"), lambda pods: not pods)


def test_hosts_of_an_experimental_engine_are_marked(yard):
    for one in yard.call(LIST_NODES, LIST_NODES.request()).items:
        assert one.engine == "kubernetes"
        assert "Its engine is experimental." in one.flags


def test_a_jobs_files_are_had_with_its_own_token_and_from_no_other_project(yard, cluster):
    content = tar_of({"train.py": b"print(1)"})
    source = yard.send(content).digest
    job = yard.submit("sh", "-c", "sleep 600", source=source).job.id
    # The pod has the token in its Secret, and asks for the path that its Job says.
    yard.when(lambda: cluster.of("jobs"), lambda jobs: len(jobs) == 1)
    fetch = cluster.of("jobs")[0]["spec"]["template"]["spec"]["initContainers"][0]
    told = {one["name"]: one.get("value") for one in fetch["env"]}
    assert told["FALAJ_SOURCE"] == f"http://10.255.255.1:8400/v1/projects/{PROJECT}/jobs/{job}/source"
    secret = yard.when(lambda: cluster.of("secrets"), lambda secrets: len(secrets) == 1)[0]
    token = base64.b64decode(secret["data"]["FALAJ_TOKEN"]).decode()
    with httpx.Client(base_url=yard.platform.url, headers={"Authorization": f"Bearer {token}"}, trust_env=False) as pod:
        assert pod.get(f"/v1/projects/{PROJECT}/jobs/{job}/source").content == content
    yard.call(CREATE_PROJECT, CreateProject(name="other", zones=("home",)))
    with pytest.raises(NotFound, match="There is no job"):
        yard.call(declared.READ_SOURCE, declared.OneJob(project="other", job=job))
    none = yard.submit("true").job.id
    with pytest.raises(NotFound, match="has no files"):
        yard.call(declared.READ_SOURCE, declared.OneJob(project=PROJECT, job=none))
    yard.cancel(job)
