"""Queues as objects of Kueue, held against its published schemas and its webhook's rules."""

from dataclasses import replace

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from falaj.base.errors import Invalid
from falaj.jobs import documents
from falaj.jobs.documents import SHIPPED, Document
from falaj.jobs.engines.kube.hosts import quantity
from falaj.jobs.engines.kueue import Hosts, compiled, kueue_name, priority_name
from falaj.jobs.operations.queues import CohortSpec, PriorityClass, QueueSpec, QuotaOf
from tests.jobs.engines.published import NAME, Refused, validate

HOSTS = Hosts(
    cpu_milli=64_500,
    memory_mib=512_000,
    cards={"H100": 8, "A100": 4, "H100/1g.10gb": 7},
    products={"H100": "NVIDIA-H100-80GB-HBM3", "A100": "NVIDIA-A100-SXM4-40GB"},
)
LAB = CohortSpec(name="lab", quotas=(QuotaOf(resource="gpu:H100", nominal=2000),), weight=500)


def kueue(document, hosts=HOSTS):
    made = compiled(document, hosts)
    for one in made.objects:
        validate(one)
    return {(one["kind"], one["metadata"]["name"]): one for one in made.objects}, made.remarks


def quotas_of(found, kind, name):
    groups = found[kind, name]["spec"]["resourceGroups"]
    flavours = [flavour for group in groups for flavour in group["flavors"]]
    return {(flavour["name"], one.pop("name")): one for flavour in flavours for one in flavour["resources"]}


def test_the_schemas_refuse_what_kueue_would():
    queue = compiled(SHIPPED, HOSTS).objects[-5]
    assert queue["kind"] == "LocalQueue"
    for spoil in (
        {**queue, "spec": {"clusterQueue": "Not A Name"}},
        {**queue, "spec": {"clusterQueue": "a", "weight": 3}},
        {**queue, "apiVersion": "kueue.x-k8s.io/v1"},
    ):
        with pytest.raises(Refused):
            validate(spoil)


def test_a_queue_without_quotas_is_bounded_by_the_nodes_alone():
    found, remarks = kueue(SHIPPED)
    assert remarks == ()
    assert found["LocalQueue", "default"]["metadata"]["namespace"] == "falaj"
    assert found["LocalQueue", "default"]["spec"] == {"clusterQueue": "default"}
    assert quotas_of(found, "ClusterQueue", "default") == {
        ("falaj", "cpu"): {"nominalQuota": "64500m"},
        ("falaj", "memory"): {"nominalQuota": "512000Mi"},
        ("falaj", "ephemeral-storage"): {"nominalQuota": "1Pi"},
        ("falaj-gpu", "nvidia.com/gpu"): {"nominalQuota": "12"},
        ("falaj-h100-1g-10gb", "nvidia.com/mig-1g.10gb"): {"nominalQuota": "7"},
    }
    classes = {name: one["value"] for (kind, name), one in found.items() if kind == "WorkloadPriorityClass"}
    assert classes == {"falaj-low": -100, "falaj-normal": 0, "falaj-high": 100, "falaj-urgent": 1000}


def test_what_a_tree_names_is_owed_lent_and_borrowed_as_it_says():
    quotas = (
        QuotaOf(resource="cpu", nominal=16_000, borrow=8_500, lend=4000),
        QuotaOf(resource="gpu:H100", nominal=4000, lend=9000),
    )
    queues = (QueueSpec(name="vision", cohort="lab", quotas=quotas, weight=1500), QueueSpec(name="speech", cohort="lab"))
    found, _ = kueue(Document(queues=queues, cohorts=(CohortSpec(name="all"), replace(LAB, parent="all"))))
    assert found["Cohort", "lab"]["spec"]["parentName"] == "all"
    assert quotas_of(found, "Cohort", "lab")["falaj-h100", "nvidia.com/gpu"] == {"nominalQuota": "2"}
    vision, speech = (quotas_of(found, "ClusterQueue", name) for name in ("vision", "speech"))
    assert vision["falaj", "cpu"] == {"nominalQuota": "16", "borrowingLimit": "8500m", "lendingLimit": "4"}
    assert vision["falaj-h100", "nvidia.com/gpu"] == {"nominalQuota": "4", "lendingLimit": "4"}
    # Another queue of the tree is owed nothing of it, and may borrow.
    assert speech["falaj", "cpu"] == {"nominalQuota": "0"}
    assert speech["falaj-h100", "nvidia.com/gpu"] == {"nominalQuota": "0"}
    # What nobody names is neither owed nor lent.
    assert speech["falaj", "memory"] == {"nominalQuota": "512000Mi", "borrowingLimit": "0", "lendingLimit": "0"}
    assert speech["falaj-a100", "nvidia.com/gpu"]["nominalQuota"] == "4"
    assert found["ResourceFlavor", "falaj-h100"]["spec"] == {"nodeLabels": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}}
    assert found["ClusterQueue", "vision"]["spec"]["fairSharing"] == {"weight": "1500m"}
    assert found["Cohort", "lab"]["spec"]["fairSharing"] == {"weight": "500m"}


@pytest.mark.parametrize(
    ("changes", "field", "value"),
    [
        ({}, "preemption", {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"}),
        ({"preempt": False, "reclaim": False}, "preemption", {"withinClusterQueue": "Never", "reclaimWithinCohort": "Never"}),
        ({}, "stopPolicy", "None"),
        ({"open": False}, "stopPolicy", "Hold"),
        ({}, "queueingStrategy", "BestEffortFIFO"),
        ({}, "namespaceSelector", {"matchLabels": {"kubernetes.io/metadata.name": "falaj"}}),
    ],
)
def test_each_rule_of_a_queue_has_its_field(changes, field, value):
    found, _ = kueue(Document(queues=(QueueSpec(name="one", **changes),)))
    assert found["ClusterQueue", "one"]["spec"][field] == value


def test_what_kueue_cannot_hold_is_said():
    quotas = (
        QuotaOf(resource="io", nominal=10),
        QuotaOf(resource="gpu", nominal=2500),
        QuotaOf(resource="gpu:A100", nominal=1000),
    )
    queue = QueueSpec(name="one", quotas=quotas, order="shortest", projects=("fraud",), monthly_budget=5, idle_gpu_seconds=600)
    document = Document(queues=(queue,), priorities=(PriorityClass(name="normal", value=0, most=3),))
    made = compiled(document, HOSTS)
    for word in ("what they still need", "fraud", "budget", "idle", "io", "parts of cards", "sum over flavours", "at once"):
        assert any(word in remark for remark in made.remarks), word
    text = made.written()
    assert text.startswith("# ")
    assert list(yaml.safe_load_all(text)) == list(made.objects)


def test_names_that_become_one_and_cards_without_a_label_are_refused():
    with pytest.raises(Invalid, match="both be called 'a-b'"):
        compiled(Document(queues=(QueueSpec(name="a_b"), QueueSpec(name="a-b"))), HOSTS)
    with pytest.raises(Invalid, match="63"):
        compiled(Document(queues=(QueueSpec(name="a" * 64),)), HOSTS)
    quota = QuotaOf(resource="gpu:B200", nominal=1000)
    with pytest.raises(Invalid, match="--product"):
        compiled(Document(queues=(QueueSpec(name="a", quotas=(quota,)),)), HOSTS)


@given(st.from_regex(r"[a-z0-9][a-z0-9._-]{0,60}", fullmatch=True))
def test_every_name_of_ours_has_one_that_kubernetes_takes(name):
    assert NAME.fullmatch(kueue_name(name))
    assert NAME.fullmatch(priority_name(name))


names = st.sampled_from(["cpu", "memory", "gpu", "gpu:H100", "gpu:A100", "gpu:H100/1g.10gb", "io"])
limits = st.none() | st.integers(0, 20_000)


@st.composite
def some_documents(draw):
    """Documents that hold together: a chain of cohorts, and queues in them or alone."""
    cohorts, depth = [], draw(st.integers(0, 3))

    def quotas(shares):
        found = draw(st.lists(names, unique=True, max_size=4))
        limit = limits if shares else st.none()
        return tuple(
            QuotaOf(resource=name, nominal=draw(st.integers(0, 20_000)), borrow=draw(limit), lend=draw(limit)) for name in found
        )

    for number in range(depth):
        parent = draw(st.sampled_from(["", *(one.name for one in cohorts)]))
        cohorts.append(CohortSpec(name=f"cohort{number}", parent=parent, quotas=quotas(bool(parent)), weight=draw(weights)))
    queues = []
    for number in range(draw(st.integers(1, 4))):
        cohort = draw(st.sampled_from(["", *(one.name for one in cohorts)]))
        queues.append(QueueSpec(name=f"queue{number}", cohort=cohort, quotas=quotas(bool(cohort)), weight=draw(weights)))
    return Document(queues=tuple(queues), cohorts=tuple(cohorts))


weights = st.integers(1, 1_000_000)


@settings(max_examples=60)
@given(some_documents())
def test_whatever_holds_together_becomes_what_kueue_takes(document):
    documents.check(document)
    found, _ = kueue(document)
    for queue in document.queues:
        made = quotas_of(found, "ClusterQueue", queue.name)
        for quota in queue.quotas:
            if quota.resource == "cpu":
                assert quantity(made["falaj", "cpu"]["nominalQuota"]) * 1000 == quota.nominal
        covered = {resource for _, resource in made}
        assert {"cpu", "memory", "ephemeral-storage", "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"} == covered
