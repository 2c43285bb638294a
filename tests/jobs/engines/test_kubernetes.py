"""The Kubernetes engine against a double of a cluster (`cluster.py`), with real HTTP, published schemas and real processes."""

import base64
import os
from dataclasses import replace

import pytest

from falaj.base.clock import SECOND, SystemClock
from falaj.base.errors import Invalid, Misconfigured, Unavailable
from falaj.jobs.engines.engine import Environment, Launch, Limits
from falaj.jobs.engines.kube.api import Access
from falaj.jobs.engines.kube.hosts import Zones
from falaj.jobs.engines.kube.manifests import Wishes, name_of
from falaj.jobs.engines.kubernetes import KubernetesEngine
from falaj.jobs.scheduler.values import Seat, Shape
from falaj.testing.engines import EngineConformance
from tests.jobs.engines.cluster import Cluster
from tests.jobs.engines.local import ended, seen, wait_for

ZONE = "topology.kubernetes.io/zone"


def node(name, *, zone="uae-1", labels=None, **allocatable):
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, ZONE: zone} | (labels or {})},
        "spec": {},
        "status": {
            "allocatable": {"cpu": "8", "memory": "16Gi"} | allocatable,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


@pytest.fixture
def cluster(tmp_path):
    folder = tmp_path / "pods"
    folder.mkdir()
    cluster = Cluster(folder, [node("node-a"), node("node-b")])
    yield cluster
    cluster.close()


@pytest.fixture
def make_engine(cluster, tmp_path):
    made = []

    def make(**wishes):
        made.append(
            KubernetesEngine(
                Access(url=cluster.url, token=cluster.token),
                tmp_path / "logs",
                SystemClock(),
                wishes=Wishes(image="registry.test/falaj/python:3.11", **wishes),
                zones=Zones(),
                resolve=lambda name, port: ("127.0.0.1",),
                fresh=0,
            )
        )
        return made[-1]

    yield make
    for engine in made:
        engine.close()


@pytest.fixture
def engine(make_engine):
    return make_engine()


def launch(script, **changes):
    given = {
        "attempt": os.urandom(16).hex(),
        "job": "job",
        "project": "fraud",
        "name": "a job",
        "command": ("sh", "-c", script),
        "shape": Shape(cpu_milli=500, memory_mib=256),
        "seats": (Seat(node="node-a"),),
        "environment": Environment(),
        "limits": Limits(seconds=120),
        "variables": {},
    }
    return Launch(**given | changes)


@pytest.mark.heavy  # on a stand-in for a cluster, with real processes: a minute and more
class TestKubernetesEngine(EngineConformance):
    @pytest.fixture
    def make_engine(self, make_engine, cluster):
        self.cluster = cluster
        return make_engine

    def launch(self, engine, script, **changes):
        made = super().launch(engine, script, **changes)
        if made.source is None:
            return made
        # Pods get sources from the platform, by the job's token.
        path = f"/v1/projects/conformance/jobs/{made.job}/source"
        self.cluster.platform[path] = ("job-token", b"".join(made.source()))
        url, variables = f"http://platform.test:{self.cluster.port}", {**made.variables, "FALAJ_TOKEN": "job-token"}
        return replace(made, platform_url=url, variables=variables)


# Where a cluster goes its own way


def test_a_job_waits_for_kueue_and_is_not_begun_when_it_was_stopped_first(cluster, engine):
    cluster.admits = False
    waiting, stopped = launch("echo ran"), launch("echo ran")
    engine.start(waiting)
    engine.start(stopped)
    assert {one.state for one in engine.look()} == {"preparing"}
    engine.stop(stopped.attempt, 60 * SECOND)
    end = ended(engine, stopped.attempt)
    assert (end.cause, end.started) == ("stopped", None)
    cluster.admits = True
    assert ended(engine, waiting.attempt).cause == "done"
    assert engine.log(stopped.attempt, 0, 100) == (b"", 0)


def test_what_kueue_takes_back_is_given_back_and_does_not_begin_again(cluster, engine):
    one = launch("echo begun; sleep 60")
    engine.start(one)
    wait_for(lambda: seen(engine, one.attempt).state == "running")
    cluster.evict()
    end = ended(engine, one.attempt)
    assert end.cause == "stopped"
    assert "Kueue" in end.words
    cluster.admits = True
    assert not cluster.of("jobs")


def test_a_job_that_somebody_removes_is_lost(cluster, engine):
    one = launch("sleep 60")
    engine.start(one)
    wait_for(lambda: seen(engine, one.attempt).state == "running")
    job = cluster.of("jobs")[0]["metadata"]["name"]
    cluster.delete("/apis/batch/v1/namespaces/falaj/jobs", job, {"apiVersion": "v1", "kind": "DeleteOptions"})
    end = ended(engine, one.attempt)
    assert end.cause == "lost"
    engine.start(one)
    assert not cluster.of("jobs")


def test_everything_of_an_attempt_goes_with_it(cluster, engine):
    one = launch("true", variables={"WORD": "secret"})
    engine.start(one)
    ended(engine, one.attempt)
    engine.forget(one.attempt)
    assert [cluster.of(kind) for kind in ("jobs", "secrets")] == [[], []]
    assert [policy["metadata"]["name"] for policy in cluster.of("networkpolicies")] == ["falaj-closed"]
    wait_for(lambda: not cluster.of("pods"))
    engine.start(one)
    assert seen(engine, one.attempt) is None


def test_whoever_dies_before_the_job_is_made_is_finished_by_the_next_start(cluster, engine):
    one = launch("echo ran")
    cluster.platform.clear()
    cut = cluster.create
    cluster.create = lambda path, body: (_ for _ in ()).throw(OSError) if path.endswith("/jobs") else cut(path, body)
    with pytest.raises(Unavailable):
        engine.start(one)
    cluster.create = cut
    assert seen(engine, one.attempt).state == "preparing"
    engine.start(one)
    assert ended(engine, one.attempt).cause == "done"


@pytest.mark.parametrize("fault", ["is_silent", "forbids"])
def test_a_cluster_that_does_not_answer_says_nothing_about_its_attempts(cluster, engine, fault):
    one = launch("sleep 60")
    engine.start(one)
    setattr(cluster, fault, True)
    for call in (engine.look, lambda: engine.start(launch("true")), lambda: engine.stop(one.attempt, 0)):
        with pytest.raises(Unavailable):
            call()
    setattr(cluster, fault, False)
    assert seen(engine, one.attempt).state != "ended"
    engine.stop(one.attempt, 0)


def test_a_cluster_that_is_not_there_and_a_token_it_does_not_know_are_unavailable(cluster, tmp_path):
    for access in (Access(url="https://127.0.0.1:1", token="a"), Access(url=cluster.url, token="another")):
        other = KubernetesEngine(access, tmp_path, SystemClock(), wishes=Wishes(image="i"), zones=Zones())
        with pytest.raises(Unavailable):
            other.nodes()
        other.close()


def test_a_token_goes_to_nobody_who_could_be_anybody(tmp_path):
    with pytest.raises(Misconfigured, match="https"):
        KubernetesEngine(
            Access(url="http://cluster.test", token="a"), tmp_path, SystemClock(), wishes=Wishes(image="i"), zones=Zones()
        )


def test_a_token_in_a_file_is_read_when_it_is_needed(cluster, tmp_path):
    file = tmp_path / "token"
    file.write_text("old")
    access = Access(url=cluster.url, token_file=str(file))
    other = KubernetesEngine(access, tmp_path / "logs", SystemClock(), wishes=Wishes(image="i"), zones=Zones())
    with pytest.raises(Unavailable):
        other.nodes()
    file.write_text(f"{cluster.token}\n")
    assert [one.name for one in other.nodes()] == ["node-a", "node-b"]
    other.close()


def test_a_manifest_that_the_cluster_refuses_is_the_jobs_fault(engine):
    with pytest.raises(Invalid, match="labels"):
        engine.start(launch("true", project="not a label!"))


def test_secrets_are_nowhere_but_in_the_secret(cluster, engine):
    one = launch("echo $TOKEN", variables={"TOKEN": "very-hidden"})
    engine.start(one)
    ended(engine, one.attempt)
    assert engine.log(one.attempt, 0, 100)[0] == b"very-hidden\n"
    kept = cluster.of("secrets")[0]
    assert base64.b64decode(kept["data"]["TOKEN"]) == b"very-hidden"
    assert kept["metadata"]["ownerReferences"][0]["name"] == name_of(one.attempt)
    others = [cluster.of(kind) for kind in ("jobs", "pods", "configmaps", "networkpolicies")]
    assert "very-hidden" not in str([[{**pod, "status": {}} for pod in found] for found in others])


def test_tasks_stand_where_they_were_put(cluster, engine):
    seats = (Seat(node="node-b"), Seat(node="node-a"), Seat(node="node-b"))
    one = launch("sleep 0.5; echo $RANK", seats=seats)
    engine.start(one)
    wait_for(lambda: len(cluster.of("pods")) == 3)
    assert sorted(pod["spec"]["nodeName"] for pod in cluster.of("pods")) == ["node-a", "node-b", "node-b"]
    end = ended(engine, one.attempt)
    assert (end.cause, end.nodes) == ("done", ("node-b", "node-a", "node-b"))
    assert sorted(engine.log(one.attempt, 0, 100)[0].split()) == [b"0", b"1", b"2"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"environment": Environment(lock="numpy==2.3.1\n")}, "container images"),
        ({"shape": Shape(cpu_milli=500, memory_mib=256, gpus=1, gpu_milli=500)}, "MIG"),
        (
            {"shape": Shape(cpu_milli=500, memory_mib=256, gpus=1), "seats": (Seat(node="node-a"), Seat(node="node-b"))},
            "private_network",
        ),
    ],
)
def test_what_cannot_run_here_says_what_to_do_instead(cluster, engine, changes, words):
    one = launch("true", **changes)
    engine.start(one)
    end = ended(engine, one.attempt)
    assert end.cause == "environment"
    assert words in end.words
    assert not cluster.of("jobs")


def test_a_node_that_went_away_is_waited_for(cluster, engine):
    with pytest.raises(Unavailable, match="node-z"):
        engine.start(launch("true", seats=(Seat(node="node-z"),)))


def test_the_log_says_where_a_node_threw_some_of_it_away(cluster, engine):
    one = launch("echo first; sleep 1.2; echo second; sleep 60")
    engine.start(one)
    wait_for(lambda: b"first" in engine.log(one.attempt, 0, 100)[0])
    pod = next(iter(cluster.pods.values()))
    wait_for(lambda: len(pod._lines) == 2)
    del pod._lines[0]
    text = engine.log(one.attempt, 0, 1000)[0]
    assert text.startswith(b"first\nfalaj: lines are missing here")
    assert text.endswith(b"second\n")
    assert engine.log(one.attempt, 0, 1000)[0] == text


def test_an_engine_looks_no_more_often_than_it_is_told_to(cluster, tmp_path):
    access = Access(url=cluster.url, token=cluster.token)
    one = KubernetesEngine(
        access, tmp_path / "logs", SystemClock(), wishes=Wishes(image="i"), zones=Zones(), fresh=3600 * SECOND
    )
    for _ in range(5):
        one.look()
        one.nodes()
    paths = [path for _, path in cluster.calls]
    assert paths.count("/api/v1/namespaces/falaj/configmaps") == 2  # those that are open, and once those to clean up
    assert paths.count("/api/v1/nodes") == 1
    one.close()
