"""The Kubernetes engine against a double of a cluster (`cluster.py`), with real HTTP, published schemas and real processes."""

import pytest

from falaj.base.clock import SystemClock
from falaj.jobs.engines.kube.api import Access
from falaj.jobs.engines.kube.hosts import Zones
from falaj.jobs.engines.kube.manifests import Wishes
from falaj.jobs.engines.kubernetes import KubernetesEngine
from falaj.testing.engines import EngineConformance
from tests.jobs.engines.cluster import Cluster

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
    cluster = Cluster(folder, [node("node-a")])
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


class TestKubernetesEngine(EngineConformance):
    @pytest.fixture
    def make_engine(self, make_engine, cluster):
        self.cluster = cluster
        return make_engine

    def launch(self, engine, script, **changes):
        launch = super().launch(engine, script, **changes)
        if launch.source is None:
            return launch
        # Pods get sources from the platform, by the job's token.
        path = f"/v1/projects/conformance/jobs/{launch.job}/source"
        self.cluster.platform[path] = ("job-token", b"".join(launch.source()))
        changes = changes | {"platform_url": f"http://platform.test:{self.cluster.port}", "job": launch.job}
        changes["variables"] = {**launch.variables, "FALAJ_TOKEN": "job-token"}
        return super().launch(engine, script, **changes)
