"""Nodes of a cluster as hosts: what they have for jobs, in which zone they stand, and how to say that a pod belongs there."""

import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any, Final

from falaj.base.values import value
from falaj.jobs.engines.kueue import PRODUCT
from falaj.jobs.running.gpus import model_of
from falaj.jobs.scheduler.values import Node

HOSTNAME: Final = "kubernetes.io/hostname"
RACK: Final = "falaj/rack"  # a label that operators may give
WHOLE: Final = "nvidia.com/gpu"
_MIG: Final = "nvidia.com/mig-"
_TOLERATED: Final = (WHOLE,)  # what is tainted so is meant for jobs
_MIB: Final = 1 << 20
_SUFFIXES: Final = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    **{letter: Fraction(1000**power) for power, letter in enumerate("kMGTPE", 1)},
    **{f"{letter}i": Fraction(1024**power) for power, letter in enumerate("KMGTPE", 1)},
}
_QUANTITY: Final = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:[eE]([+-]?\d{1,3})|(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei))?")


def quantity(text: object) -> Fraction:
    """Kubernetes' way to write amounts: 500m, 2, 1.5Gi, 1e3."""
    match = _QUANTITY.fullmatch(str(text).strip())
    if match is None:
        raise ValueError(f"{text!r} is no quantity")
    number, power, suffix = match.groups()
    return Fraction(number) * (Fraction(10) ** int(power) if power else _SUFFIXES[suffix or ""])


@value
class Zones:
    """`label` is the one that says a node's zone; `usual` is the zone of those that lack it. Without either, a node is not
    used: nobody knows what may run there."""

    label: str = "topology.kubernetes.io/zone"
    usual: str = ""


@value
class Host:
    """A node, the labels that a pod on it may count on, and the resource by which each of its cards is asked for."""

    node: Node
    hostname: str
    zone_label: str  # empty where its zone is the usual one
    product: str
    resources: tuple[str, ...]


def host_of(told: Mapping[str, Any], zones: Zones, taken: Mapping[str, Fraction]) -> Host | None:
    """None for one whose zone nobody said. `taken` is what pods of others ask for there, by resource."""
    labels: Mapping[str, str] = told["metadata"].get("labels") or {}
    name = told["metadata"]["name"]
    own = labels.get(zones.label, "") if zones.label else ""
    if not (zone := own or zones.usual):
        return None
    offered: Mapping[str, str] = told.get("status", {}).get("allocatable") or {}
    left = {resource: max(Fraction(0), quantity(text) - taken.get(resource, 0)) for resource, text in offered.items()}
    product = labels.get(PRODUCT, "")
    model = model_of(product.replace("-", " ")) if product else "GPU"
    cards, resources = _cards(left, model)
    node = Node(
        name=name,
        zone=zone,
        cpu_milli=int(left.get("cpu", Fraction(0)) * 1000),
        memory_mib=int(left.get("memory", Fraction(0)) / _MIB),
        cards=cards,
        rack=labels.get(RACK, ""),
        open=_is_open(told),
        sharing=("whole",),  # parts of cards are MIG devices here, which are whole ones of their kind
    )
    return Host(
        node=node,
        hostname=labels.get(HOSTNAME, name),
        zone_label=zones.label if own else "",
        product=product,
        resources=resources,
    )


def _cards(left: Mapping[str, Fraction], model: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Models and resources, one for each card: whole ones first, then MIG devices by profile."""
    found = [(model, WHOLE)] * int(left.get(WHOLE, 0))
    for resource in sorted(resource for resource in left if resource.startswith(_MIG)):
        found += [(f"{model}/{resource.removeprefix(_MIG)}", resource)] * int(left[resource])
    return tuple(card for card, _ in found), tuple(resource for _, resource in found)


def _is_open(told: Mapping[str, Any]) -> bool:
    spec, status = told.get("spec") or {}, told.get("status") or {}
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions") or ())
    taints = [taint for taint in spec.get("taints") or () if taint.get("effect") in ("NoSchedule", "NoExecute")]
    return ready and not spec.get("unschedulable") and all(taint["key"] in _TOLERATED for taint in taints)


def taken_by(pods: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Fraction]]:
    """What running pods ask for, by node and resource. An init step counts where it asks for more than what follows it."""
    taken: dict[str, dict[str, Fraction]] = {}
    for pod in pods:
        node = pod.get("spec", {}).get("nodeName")
        if not node or pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
            continue
        of_node = taken.setdefault(node, {})
        for resource, amount in _asked(pod["spec"]).items():
            of_node[resource] = of_node.get(resource, Fraction(0)) + amount
    return taken


def _asked(spec: Mapping[str, Any]) -> dict[str, Fraction]:
    asked: dict[str, Fraction] = {}
    for container in spec.get("containers") or ():
        for resource, text in _requests(container).items():
            asked[resource] = asked.get(resource, Fraction(0)) + quantity(text)
    for container in spec.get("initContainers") or ():
        for resource, text in _requests(container).items():
            asked[resource] = max(asked.get(resource, Fraction(0)), quantity(text))
    return asked


def _requests(container: Mapping[str, Any]) -> Mapping[str, str]:
    return (container.get("resources") or {}).get("requests") or {}
