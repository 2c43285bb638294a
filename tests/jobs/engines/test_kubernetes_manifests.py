"""What the Kubernetes engine writes, held against the published schemas and against what is promised of it."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from falaj.base.errors import Invalid
from falaj.jobs.engines.engine import Environment, Launch, Limits
from falaj.jobs.engines.gang_certificates import gang_certificates
from falaj.jobs.engines.kube import manifests
from falaj.jobs.engines.kube.hosts import Zones, host_of, quantity, taken_by
from falaj.jobs.engines.kube.manifests import Reach, Wishes
from falaj.jobs.scheduler.values import Seat, Shape
from tests.jobs.engines.kubelet import expanded
from tests.jobs.engines.published import SCHEMAS, Refused, validate
from tests.jobs.engines.test_kubernetes import ZONE, node

WISHES = Wishes(image="registry.test/falaj/python:3.11")
PRODUCT = "nvidia.com/gpu.product"
H100 = {PRODUCT: "NVIDIA-H100-80GB-HBM3"}
ATTEMPT = "0199c0ffee0a7b1c8d2e3f4a5b6c7d8e"
CARDS = {"nvidia.com/gpu": "4", "nvidia.com/mig-1g.10gb": "7"}


def host(name="node-a", **changes):
    return host_of(node(name, **changes), Zones(), {})


def launch(count=1, cards=(), **changes):
    given = {
        "attempt": ATTEMPT,
        "job": "0199c0ffee0a7b1c8d2e3f4a5b6c7d8f",
        "project": "0199c0ffee0a7b1c8d2e3f4a5b6c7d90",
        "name": "a job",
        "command": ("python", "train.py"),
        "shape": Shape(cpu_milli=1500, memory_mib=2048, gpus=len(cards)),
        "seats": tuple(Seat(node="node-a", cards=cards) for _ in range(count)),
        "environment": Environment(),
        "limits": Limits(seconds=3600),
        "variables": {"FALAJ_TOKEN": "hidden"},
        "queue": "research",
        "priority": "high",
        "zone": "uae-1",
        "grace": 45_000_000,
    }
    return Launch(**given | changes)


def pod_of(made):
    spec = made["spec"] if made["kind"] == "Job" else made["spec"]["replicatedJobs"][0]["template"]["spec"]
    return spec["template"]["spec"]


def made(one, hosts=None, reaches=(), wishes=WISHES):
    written = manifests.workload(one, hosts or [host()] * len(one.seats), reaches, wishes)
    validate(written)
    return written


def test_the_schemas_refuse_what_they_should():
    for spoil in (
        lambda job: job["spec"].update(backoffLimit="none"),
        lambda job: job["spec"].update(retries=3),
        lambda job: pod_of(job)["containers"][0].update(imagePullSecrets=[]),
        lambda job: pod_of(job)["securityContext"]["seccompProfile"].pop("type"),
        lambda job: pod_of(job)["containers"][0].pop("name"),
        lambda job: job["metadata"]["labels"].update(word="not a label!"),
    ):
        job = json.loads(json.dumps(made(launch())))
        spoil(job)
        with pytest.raises(Refused):
            validate(job)


def test_the_schemas_say_where_they_are_from():
    assert all("Apache-2.0" in schema["from"] for schema in SCHEMAS.values())


def test_one_task_is_a_job_that_kubernetes_does_not_try_again():
    job = made(launch())
    assert (job["kind"], job["metadata"]["name"]) == ("Job", f"falaj-{ATTEMPT}")
    assert job["metadata"]["labels"]["falaj/attempt"] == ATTEMPT
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "research"
    assert job["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] == "falaj-high"
    assert job["spec"]["suspend"] is True
    assert job["spec"]["backoffLimit"] == 0
    pod = pod_of(job)
    assert pod["restartPolicy"] == "Never"
    assert (pod["activeDeadlineSeconds"], pod["terminationGracePeriodSeconds"]) == (3600, 45)
    assert job["spec"]["activeDeadlineSeconds"] > 3600 + 45


def test_without_kueue_nobody_holds_a_job_back():
    job = made(launch(), wishes=Wishes(image="i", kueue=False))
    assert job["spec"]["suspend"] is False
    assert not any("kueue" in label for label in job["metadata"]["labels"])


def test_a_pod_is_nobody_and_may_nothing():
    source = launch(count=2, source=lambda: iter(()), platform_url="https://platform.test")
    pod = pod_of(made(source))
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in [*pod["containers"], *pod["initContainers"]]:
        held = container["securityContext"]
        assert held["allowPrivilegeEscalation"] is False
        assert held["readOnlyRootFilesystem"] is True
        assert held["capabilities"] == {"drop": ["ALL"]}
        assert container["resources"]["requests"] == container["resources"]["limits"]
    assert not {"hostNetwork", "hostPID", "hostIPC", "serviceAccountName"} & pod.keys()
    assert {next(iter(volume.keys() - {"name"})) for volume in pod["volumes"]} == {"emptyDir", "secret"}


def test_the_zone_is_a_condition_whatever_host_was_chosen():
    pod = pod_of(made(launch(zone="uae-1"), [host(zone="elsewhere")]))
    assert pod["nodeSelector"] == {ZONE: "uae-1"}
    assert host_of(node("node-a", zone=""), Zones(), {}) is None
    usual = host_of(node("node-a", zone=""), Zones(usual="home"), {})
    assert usual.node.zone == "home"
    assert "nodeSelector" not in pod_of(made(launch(), [usual]))


def test_cards_are_asked_for_by_what_they_are():
    four = host(labels=H100, **CARDS)
    assert four.node.cards == ("H100",) * 4 + ("H100/1g.10gb",) * 7
    whole, sliced = (pod_of(made(launch(cards=cards), [four])) for cards in ((0, 2), (4,)))
    assert whole["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "2"
    assert sliced["containers"][0]["resources"]["limits"]["nvidia.com/mig-1g.10gb"] == "1"
    required = whole["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    chosen = required["nodeSelectorTerms"][0]["matchExpressions"]
    assert {one["key"]: one["values"] for one in chosen} == {
        "kubernetes.io/hostname": ["node-a"],
        PRODUCT: ["NVIDIA-H100-80GB-HBM3"],
    }


def test_several_tasks_are_a_jobset_that_begins_and_fails_as_one():
    one = launch(count=3)
    hosts = [host("node-b"), host("node-a"), host("node-b")]
    jobs = made(one, hosts)
    assert jobs["kind"] == "JobSet"
    assert jobs["spec"]["failurePolicy"] == {"maxRestarts": 0}
    assert jobs["spec"]["suspend"] is True
    assert [(job["name"], job["replicas"]) for job in jobs["spec"]["replicatedJobs"]] == [("h0", 2), ("h1", 1)]
    told = {one["name"]: one.get("value") for one in pod_of(jobs)["containers"][0]["env"]}
    assert told["WORLD_SIZE"] == "3"
    assert told["MASTER_ADDR"] == f"falaj-{ATTEMPT}-h0-0-0.falaj-{ATTEMPT}"


@settings(max_examples=20)
@given(st.integers(2, 60), st.integers(1, 3))
def test_a_gang_of_any_size_is_one_that_kueue_takes(count, each):
    one = launch(seats=tuple(Seat(node=f"node-{number}") for number in range(count) for _ in range(each)))
    hosts = [host(f"node-{number}") for number in range(count) for _ in range(each)]
    jobs = made(one, hosts)["spec"]["replicatedJobs"]
    assert len(jobs) <= 18
    assert sum(job["replicas"] for job in jobs) == count * each


def test_tasks_that_talk_across_hosts_do_so_encrypted_unless_the_network_is_private():
    owner = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "uid": "u"}}
    gang = gang_certificates(ATTEMPT, 3600)
    kept = manifests.secret(launch(count=2), owner, WISHES, gang)
    validate(kept)
    assert {"gang.crt", "gang.key", "gang-authority.crt"} <= kept["stringData"].keys()
    told = {one["name"]: one.get("value") for one in pod_of(made(launch(count=2)))["containers"][0]["env"]}
    assert told["GLOO_DEVICE_TRANSPORT"] == "TCP_TLS"
    assert told["GLOO_DEVICE_TRANSPORT_TCP_TLS_PKEY"] == "/falaj/keys/gang.key"
    private = pod_of(made(launch(count=2, private_network=True)))
    assert "GLOO" not in str(private)
    assert "secret" not in str(private["volumes"])


OWNER = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "uid": "u"}}


def test_a_pod_reaches_the_platform_and_what_it_declared_and_nothing_else():
    one = launch(hosts=("data.test:443",), platform_url="https://platform.test:8400")
    names = manifests.reached(one, WISHES)
    assert names == [("platform.test", 8400), ("data.test", 443)]
    reaches = [Reach(name=name, addresses=(f"10.0.0.{at}",), port=port) for at, (name, port) in enumerate(names)]
    policy = manifests.network(one, OWNER, reaches)
    validate(policy)
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert policy["spec"]["ingress"] == []
    allowed = [(way["to"][0]["ipBlock"]["cidr"], way["ports"][0]["port"]) for way in policy["spec"]["egress"]]
    assert allowed == [("10.0.0.0/32", 8400), ("10.0.0.1/32", 443)]
    # Their names are known in the pod, which asks nobody for them.
    assert pod_of(made(one, reaches=reaches))["hostAliases"] == [
        {"ip": "10.0.0.0", "hostnames": ["platform.test"]},
        {"ip": "10.0.0.1", "hostnames": ["data.test"]},
    ]


def test_a_pod_that_may_reach_everything_does_not_reach_the_clouds_own_word():
    policy = manifests.network(launch(hosts=("*",)), OWNER, [Reach(name="*", addresses=(), port=None)])
    validate(policy)
    assert policy["spec"]["egress"][0]["to"][0]["ipBlock"] == {"cidr": "0.0.0.0/0", "except": ["169.254.0.0/16"]}


def test_without_a_policy_of_its_own_a_pod_speaks_to_nobody():
    closed = manifests.closed()
    validate(closed)
    assert closed["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert not {"ingress", "egress"} & closed["spec"].keys()
    assert closed["spec"]["podSelector"]["matchLabels"].items() <= manifests.labels_of(launch()).items()


def test_tasks_reach_each_other_and_no_other_jobs():
    policy = manifests.network(launch(count=2), OWNER, [])
    validate(policy)
    own = {"podSelector": {"matchLabels": {"falaj/attempt": ATTEMPT}}}
    assert policy["spec"]["ingress"] == [{"from": [own]}]
    assert {"to": [own]} in policy["spec"]["egress"]


def test_a_platform_that_pods_cannot_reach_is_said_so():
    for name in ("127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]"):
        with pytest.raises(Invalid, match="kubernetes_platform_url"):
            manifests.reached(launch(platform_url=f"http://{name}:8400"), WISHES)
    with pytest.raises(Invalid, match="set server"):
        manifests.reached(launch(source=lambda: iter(())), WISHES)


@given(st.text(alphabet="$()ab \\", max_size=20))
def test_what_is_to_be_run_is_what_runs(text):
    pod = pod_of(manifests.workload(launch(command=("echo", text)), [host()], (), WISHES))
    assert [expanded(part, {"a": "wrong", "": "wrong"}) for part in pod["containers"][0]["command"]] == ["echo", text]


def test_what_a_job_calls_its_variables_does_not_change_the_platforms():
    one = launch(variables={"FALAJ_URL": "http://evil.test", "RANK": "9", "WORD": "x"}, platform_url="https://platform.test")
    told = [entry["name"] for entry in pod_of(made(one))["containers"][0]["env"]]
    assert len(set(told)) == len(told)
    assert {entry["name"]: entry.get("value") for entry in pod_of(made(one))["containers"][0]["env"]}["FALAJ_URL"] == (
        "https://platform.test"
    )


@pytest.mark.parametrize(
    ("text", "number"),
    [("500m", 0.5), ("2", 2), ("1.5Gi", 1.5 * 2**30), ("1e3", 1000), ("100k", 100_000), ("12n", 12e-9), (4, 4), (".5", 0.5)],
)
def test_amounts_are_read_as_kubernetes_writes_them(text, number):
    assert float(quantity(text)) == number


def test_what_others_run_on_a_node_is_not_offered():
    def asking(cpu, **more):
        return {"resources": {"requests": {"cpu": cpu, **more}}}

    pods = [
        {"spec": {"nodeName": "node-a", "containers": [asking("500m"), asking("1")], "initContainers": [asking("2")]}},
        {"spec": {"nodeName": "node-a", "containers": [asking("8")]}, "status": {"phase": "Succeeded"}},
        {"spec": {"containers": [asking("8")]}},
        {"spec": {"nodeName": "node-a", "containers": [asking("0", **{"nvidia.com/gpu": "1"})]}},
    ]
    left = host_of(node("node-a", labels=H100, **CARDS), Zones(), taken_by(pods)["node-a"]).node
    assert left.cpu_milli == 6000
    assert left.cards.count("H100") == 3


@pytest.mark.parametrize(
    "spoiled",
    [
        {"spec": {"unschedulable": True}},
        {"spec": {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]}},
        {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}},
    ],
)
def test_nothing_new_starts_on_a_node_that_is_not_ready(spoiled):
    assert host().node.open
    assert host_of(
        node("node-a") | {"spec": {"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]}}, Zones(), {}
    ).node.open
    told = node("node-a")
    told = {**told, "spec": spoiled.get("spec", {}), "status": {**told["status"], **spoiled.get("status", {})}}
    assert not host_of(told, Zones(), {}).node.open
