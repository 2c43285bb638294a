"""Queues, cohorts and priority classes as objects of Kueue (v1beta2), for clusters where Kueue is to hold the same shares.

What Kueue has no field for is not left out silently: it is said in a remark. `docs/kueue.md` goes through every rule.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import yaml

from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.jobs.documents import Document
from falaj.jobs.operations.queues import CohortSpec, QueueSpec, QuotaOf
from falaj.jobs.scheduler.values import CARD, CPU, GPU, IO, MEMORY

Object = dict[str, Any]
VERSION: Final = "kueue.x-k8s.io/v1beta2"
PRODUCT: Final = "nvidia.com/gpu.product"  # by which NVIDIA's feature discovery labels nodes
_MANAGED: Final = {"app.kubernetes.io/managed-by": "falaj"}
_LONGEST: Final = 63  # jobs name their queue in a label
_PLAIN: Final = "falaj"  # the flavour of what every node has
_ANY_GPU: Final = "falaj-gpu"
_DISK: Final = "ephemeral-storage"
_MUCH_DISK: Final = "1Pi"  # every pod asks for some, and Kueue admits nobody who asks for what a queue does not speak of
_ALL: Final = "gpu:"


@value
class Hosts:
    """What the cluster has in all, and how its nodes label the cards of each model (`nvidia.com/gpu.product`)."""

    cpu_milli: int
    memory_mib: int
    cards: Mapping[str, int]  # by model
    products: Mapping[str, str]


@value
class Compiled:
    objects: tuple[Object, ...]
    remarks: tuple[str, ...]

    def written(self) -> str:
        """YAML, with the remarks in front."""
        told = "".join(f"# {remark}\n" for remark in self.remarks)
        return told + yaml.safe_dump_all(self.objects, sort_keys=False, explicit_start=True)


def kueue_name(name: str) -> str:
    """A name of ours as objects of Kubernetes are named: what it does not take becomes a hyphen."""
    parts = (part.strip("-") for part in re.sub(r"[^a-z0-9.]", "-", name.lower()).split("."))
    return ".".join(part for part in parts if part)


def priority_name(priority: str) -> str:
    """Classes are the whole cluster's, where others may have a `low` or a `high` of their own."""
    return f"falaj-{kueue_name(priority or 'normal')}"


def compiled(document: Document, hosts: Hosts, namespace: str = "falaj") -> Compiled:
    """Raises `Invalid` where two names become one, or a model has no label."""
    for kind, names in (
        ("queues", [one.name for one in document.queues]),
        ("cohorts", [one.name for one in document.cohorts]),
        ("priority classes", [one.name for one in document.priorities]),
    ):
        _check_names(kind, names)
    trees = _trees(document)
    groups = {name: _grouped(_named(document, trees, name), hosts) for name in set(trees.values())}
    flavours = {flavour.name: flavour for of_tree in groups.values() for group in of_tree for flavour in group.flavours}
    objects = [
        *(_flavour(flavours[name]) for name in sorted(flavours)),
        *(_cohort(one, groups[trees[f"cohort {one.name}"]]) for one in document.cohorts),
        *(_cluster_queue(one, groups[trees[f"queue {one.name}"]], hosts, namespace) for one in document.queues),
        *(_local_queue(one, namespace) for one in document.queues),
        *({**_head("WorkloadPriorityClass", priority_name(one.name)), "value": one.value} for one in document.priorities),
    ]
    return Compiled(objects=tuple(objects), remarks=tuple(_remarks(document, trees)))


# Which quotas hold for whom: a resource that any quota of a tree names is limited for all queues of it


def _trees(document: Document) -> dict[str, str]:
    """The tree of each queue and cohort; a queue without a cohort is one of its own."""
    parents = {one.name: one.parent for one in document.cohorts}

    def root(name: str) -> str:
        while parents[name]:
            name = parents[name]
        return f"cohort {name}"

    trees = {f"cohort {name}": root(name) for name in parents}
    for queue in document.queues:
        trees[f"queue {queue.name}"] = root(queue.cohort) if queue.cohort else f"queue {queue.name}"
    return trees


def _named(document: Document, trees: Mapping[str, str], tree: str) -> set[str]:
    """The resources that quotas of a tree name."""
    members = {f"cohort {one.name}": one.quotas for one in document.cohorts}
    members |= {f"queue {one.name}": one.quotas for one in document.queues}
    return {quota.resource for member, quotas in members.items() if trees[member] == tree for quota in quotas}


@value
class _Flavour:
    """`speaks_for` is the name of our resource that each of the group's has here; empty where no quota names it."""

    name: str
    product: str
    speaks_for: tuple[str, ...]
    whole: tuple[str, ...]  # what all nodes together have


@value
class _Group:
    resources: tuple[str, ...]
    flavours: tuple[_Flavour, ...]


def _grouped(named: set[str], hosts: Hosts) -> list[_Group]:
    plain = _Flavour(
        name=_PLAIN,
        product="",
        speaks_for=(CPU if CPU in named else "", MEMORY if MEMORY in named else "", ""),
        whole=(_amount(CPU, hosts.cpu_milli), _amount(MEMORY, hosts.memory_mib), _MUCH_DISK),
    )
    found = [_Group(resources=("cpu", "memory", _DISK), flavours=(plain,))]
    models = sorted({*hosts.cards, *(name.removeprefix(_ALL) for name in named if name.startswith(_ALL))})
    profiles = sorted({model.partition("/")[2] for model in models if "/" in model})
    wholes = [model for model in models if "/" not in model]
    by_model = any(f"{_ALL}{model}" in named for model in wholes)
    if wholes:
        flavours = [_card_flavour(model, named, hosts) for model in wholes] if by_model else [_any_card(wholes, named, hosts)]
        found.append(_Group(resources=("nvidia.com/gpu",), flavours=tuple(flavours)))
    for profile in profiles:
        sliced = [model for model in models if model.partition("/")[2] == profile]
        flavours = [_card_flavour(model, named, hosts) for model in sliced]
        found.append(_Group(resources=(f"nvidia.com/mig-{profile}",), flavours=tuple(flavours)))
    return found


def _card_flavour(model: str, named: set[str], hosts: Hosts) -> _Flavour:
    whole, _, profile = model.partition("/")
    if not (product := hosts.products.get(model) or hosts.products.get(whole)):
        raise Invalid(
            f"Nobody said how nodes with {whole} cards are labelled: give --product '{whole}=LABEL' with what"
            f" `kubectl get nodes -L {PRODUCT}` shows."
        )
    name = "-".join(filter(None, ["falaj", kueue_name(whole), profile.replace(".", "-").replace("+", "-")]))
    speaks_for = f"{_ALL}{model}" if f"{_ALL}{model}" in named else ""
    return _Flavour(name=name, product=product, speaks_for=(speaks_for,), whole=(str(hosts.cards.get(model, 0)),))


def _any_card(wholes: Sequence[str], named: set[str], hosts: Hosts) -> _Flavour:
    count = sum(hosts.cards.get(model, 0) for model in wholes)
    return _Flavour(name=_ANY_GPU, product="", speaks_for=(GPU if GPU in named else "",), whole=(str(count),))


# Objects


def _head(kind: str, name: str) -> Object:
    return {"apiVersion": VERSION, "kind": kind, "metadata": {"name": name, "labels": dict(_MANAGED)}}


def _flavour(flavour: _Flavour) -> Object:
    spec: Object = {"nodeLabels": {PRODUCT: flavour.product}} if flavour.product else {}
    return {**_head("ResourceFlavor", flavour.name), "spec": spec}


def _cohort(cohort: CohortSpec, groups: Sequence[_Group]) -> Object:
    spec: Object = {"parentName": kueue_name(cohort.parent)} if cohort.parent else {}
    quotas = {quota.resource: quota for quota in cohort.quotas}
    own = [group for group in groups if any(name in quotas for flavour in group.flavours for name in flavour.speaks_for)]
    if own:
        spec["resourceGroups"] = [
            _resource_group(group, [_quotas(group, flavour, quotas, nobody=None) for flavour in group.flavours])
            for group in own
        ]
    return {**_head("Cohort", kueue_name(cohort.name)), "spec": spec | {"fairSharing": _weight(cohort.weight)}}


def _cluster_queue(queue: QueueSpec, groups: Sequence[_Group], hosts: Hosts, namespace: str) -> Object:
    quotas = {quota.resource: quota for quota in queue.quotas}
    shared = {"borrowingLimit": "0", "lendingLimit": "0"} if queue.cohort else {}
    spec: Object = {"cohortName": kueue_name(queue.cohort)} if queue.cohort else {}
    spec |= {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "queueingStrategy": "BestEffortFIFO",
        "preemption": {
            "withinClusterQueue": "LowerPriority" if queue.preempt else "Never",
            "reclaimWithinCohort": "Any" if queue.reclaim else "Never",
        },
        "fairSharing": _weight(queue.weight),
        "stopPolicy": "None" if queue.open else "Hold",
        "resourceGroups": [
            _resource_group(group, [_quotas(group, flavour, quotas, nobody=shared) for flavour in group.flavours])
            for group in groups
        ],
    }
    return {**_head("ClusterQueue", kueue_name(queue.name)), "spec": spec}


def _local_queue(queue: QueueSpec, namespace: str) -> Object:
    made = _head("LocalQueue", kueue_name(queue.name))
    made["metadata"]["namespace"] = namespace
    return {**made, "spec": {"clusterQueue": kueue_name(queue.name)}}


def _resource_group(group: _Group, flavours: list[Object]) -> Object:
    return {"coveredResources": list(group.resources), "flavors": flavours}


def _quotas(group: _Group, flavour: _Flavour, quotas: Mapping[str, QuotaOf], *, nobody: Object | None) -> Object:
    """`nobody` is how what no quota of the tree names is shared; None where it is not spoken of at all."""
    resources: list[Object] = []
    for resource, ours, whole in zip(group.resources, flavour.speaks_for, flavour.whole, strict=True):
        if ours:
            resources.append({"name": resource, **_quota(ours, quotas.get(ours))})
        elif nobody is None:
            resources.append({"name": resource, "nominalQuota": "0"})
        else:
            resources.append({"name": resource, "nominalQuota": whole, **nobody})
    return {"name": flavour.name, "resources": resources}


def _quota(resource: str, quota: QuotaOf | None) -> Object:
    if quota is None:
        return {"nominalQuota": "0"}
    limits: Object = {"nominalQuota": _amount(resource, quota.nominal)}
    if quota.borrow is not None:
        limits["borrowingLimit"] = _amount(resource, quota.borrow)
    if quota.lend is not None:
        limits["lendingLimit"] = _amount(resource, min(quota.lend, quota.nominal))
    return limits


def _amount(resource: str, amount: int) -> str:
    if resource == CPU:
        return f"{amount}m" if amount % 1000 else str(amount // 1000)
    return f"{amount}Mi" if resource == MEMORY else str(amount // CARD)


def _weight(weight: int) -> Object:
    return {"weight": f"{weight}m" if weight % 1000 else str(weight // 1000)}


def _check_names(kind: str, names: Sequence[str]) -> None:
    taken: dict[str, str] = {}
    for name in names:
        made = kueue_name(name)
        if len(made) > _LONGEST:
            raise Invalid(f"Of the {kind}, {name!r} is too long: names of Kueue's have {_LONGEST} letters at most.")
        if other := taken.get(made):
            raise Invalid(f"Of the {kind}, {other!r} and {name!r} would both be called {made!r}; rename one of them.")
        taken[made] = name


# What Kueue cannot


def _remarks(document: Document, trees: Mapping[str, str]) -> Iterable[str]:
    for queue in document.queues:
        yield from _queue_remarks(queue)
    for name, quotas in [(one.name, one.quotas) for one in document.queues] + [
        (one.name, one.quotas) for one in document.cohorts
    ]:
        yield from _quota_remarks(name, quotas)
    for tree in sorted(set(trees.values())):
        named = _named(document, trees, tree)
        if GPU in named and any(name.startswith(_ALL) and "/" not in name for name in named):
            yield f"In the tree of {tree}, quotas of models hold and those of gpu do not: Kueue has no sum over flavours."
        elif GPU in named and any(name.startswith(_ALL) for name in named):
            yield f"In the tree of {tree}, gpu counts whole cards alone: Kueue has no sum over MIG profiles."
    for priority in document.priorities:
        if priority.most:
            yield f"Priority class {priority.name} bounds what a project may have at once; Kueue does not."


def _queue_remarks(queue: QueueSpec) -> Iterable[str]:
    for words, is_said in (
        ("orders its jobs by what they still need; Kueue goes by priority and age", queue.order == "shortest"),
        (f"is for the projects {', '.join(queue.projects)}; Kueue knows namespaces only", bool(queue.projects)),
        ("has a budget; Kueue knows no prices", bool(queue.monthly_budget)),
        ("stops jobs whose GPUs idle; Kueue does not look", bool(queue.idle_gpu_seconds)),
    ):
        if is_said:
            yield f"Queue {queue.name} {words}. Falaj goes on doing so for its own jobs."


def _quota_remarks(name: str, quotas: Iterable[QuotaOf]) -> Iterable[str]:
    for quota in quotas:
        if quota.resource == IO:
            yield f"{name} has a quota of io, which Kubernetes does not count; it is left out."
        parts = (quota.nominal, quota.borrow or 0, quota.lend or 0)
        if quota.resource.startswith(GPU) and any(part % CARD for part in parts):
            yield f"{name} has parts of cards of {quota.resource}; Kueue counts whole ones, rounded down."
