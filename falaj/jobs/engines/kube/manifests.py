"""An attempt as objects of Kubernetes: a Job for one task, a JobSet for several, the Secret and the NetworkPolicy they own.

Nothing here speaks to a cluster. What a job may do is written down before it runs: it is nobody in particular, may gain no
rights, writes to its own folders alone, holds no token of the cluster's, and reaches what it declared.
"""

import ipaddress
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any, Final
from urllib.parse import quote, urlsplit

from falaj.base.clock import DAY, SECOND
from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.jobs.engines.engine import Launch
from falaj.jobs.engines.kube.hosts import HOSTNAME, WHOLE, Host
from falaj.jobs.engines.kueue import PRODUCT, kueue_name, priority_name

Object = dict[str, Any]
MANAGED: Final = {"app.kubernetes.io/managed-by": "falaj"}
ATTEMPT: Final = "falaj/attempt"
TASK: Final = "task"  # the container that runs the job's command
FETCH: Final = "source"
BATCH: Final = "batch/v1"
JOBSET: Final = "jobset.x-k8s.io/v1alpha2"
NETWORKING: Final = "networking.k8s.io/v1"
QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
PRIORITY_LABEL: Final = "kueue.x-k8s.io/priority-class"
_RANK: Final = "metadata.annotations['jobset.sigs.k8s.io/job-global-index']"
_PORT: Final = 29500
_USER: Final = 65532  # nobody's in particular
_WORK, _OUTPUT, _SCRATCH, _KEYS = "/falaj/work", "/falaj/output", "/tmp", "/falaj/keys"  # nosec B108 - in the pod
_MOST_GROUPS: Final = 16  # of hosts; Kueue takes 18 sets of pods in one workload
_KEPT: Final = 7 * DAY // SECOND  # what nobody comes back for
_BACKSTOP: Final = 600  # seconds after which the Job ends a pod that outlived its own deadline
_ALL: Final = "*"
_METADATA: Final = "169.254.0.0/16"  # where clouds answer whoever asks with the node's own rights


@value
class Wishes:
    """What the settings say. `image` is what jobs run in that name none, and what fetches sources: it has a `python3`."""

    image: str
    kueue: bool = True
    platform_url: str = ""  # how pods reach the platform, where that differs from what the launch says
    certificates: str = ""  # PEM text of what the platform shows, where that is not of the usual authorities


@value
class Reach:
    """A host that a pod may reach: its name, the addresses it has now, and the port; no port for every one."""

    name: str
    addresses: tuple[str, ...]
    port: int | None


def name_of(attempt: str) -> str:
    """Services are named after it, so that a letter comes first."""
    if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?", attempt):
        raise Invalid(f"{attempt[:100]!r} is no id of an attempt")
    return f"falaj-{attempt}"


def labels_of(launch: Launch) -> dict[str, str]:
    return {**MANAGED, ATTEMPT: launch.attempt, "falaj/job": launch.job, "falaj/project": launch.project}


def workload(launch: Launch, hosts: Sequence[Host], reaches: Sequence[Reach], wishes: Wishes) -> Object:
    """The Job or JobSet; `hosts` is where each of its seats is."""
    labels = labels_of(launch)
    if wishes.kueue:
        labels |= {QUEUE_LABEL: kueue_name(launch.queue or "default"), PRIORITY_LABEL: priority_name(launch.priority)}
    head = {"name": name_of(launch.attempt), "labels": labels, "annotations": {"falaj/name": launch.name}}
    groups = _groups(launch, hosts)
    if len(hosts) == 1:
        spec = _job(launch, groups[0], reaches, wishes) | {"suspend": wishes.kueue, "ttlSecondsAfterFinished": _KEPT}
        return {"apiVersion": BATCH, "kind": "Job", "metadata": head, "spec": spec}
    replicated = [
        {
            "name": f"h{number}",
            "replicas": group.count,
            "template": {"metadata": {"labels": labels_of(launch)}, "spec": _job(launch, group, reaches, wishes)},
        }
        for number, group in enumerate(groups)
    ]
    spec = {
        "suspend": wishes.kueue,
        "ttlSecondsAfterFinished": _KEPT,
        "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
        "failurePolicy": {"maxRestarts": 0},
        "replicatedJobs": replicated,
    }
    return {"apiVersion": JOBSET, "kind": "JobSet", "metadata": head, "spec": spec}


@value
class _Group:
    """Equal tasks on hosts where each of them runs equally many."""

    hosts: tuple[Host, ...]
    gpus: Mapping[str, int]  # of one task, by resource
    count: int


def _groups(launch: Launch, hosts: Sequence[Host]) -> list[_Group]:
    """One for each host and kind of card, as long as there are few enough; else equal ones share a group."""
    alone: dict[tuple[str, tuple[tuple[str, int], ...]], list[Host]] = {}
    for seat, host in zip(launch.seats, hosts, strict=True):
        alone.setdefault((host.node.name, _gpus(launch, seat.cards, host)), []).append(host)
    found = [_Group(hosts=(same[0],), gpus=dict(gpus), count=len(same)) for (_, gpus), same in alone.items()]
    if len(found) <= _MOST_GROUPS:
        return found
    alike: dict[tuple[Any, ...], list[_Group]] = {}
    for one in found:
        alike.setdefault((one.count, tuple(one.gpus.items()), one.hosts[0].zone_label, one.hosts[0].node.zone), []).append(one)
    size = -(-len(found) // max(1, _MOST_GROUPS - len(alike) + 1))
    merged = [
        _Group(hosts=tuple(one.hosts[0] for one in part), gpus=part[0].gpus, count=sum(one.count for one in part))
        for same in alike.values()
        for part in (same[at : at + size] for at in range(0, len(same), size))
    ]
    if len(merged) > _MOST_GROUPS + 2:
        raise Invalid(f"The tasks stand in {len(merged)} unequal ways; Kueue takes {_MOST_GROUPS + 2} in one workload.")
    return merged


def _gpus(launch: Launch, cards: Sequence[int], host: Host) -> tuple[tuple[str, int], ...]:
    asked: dict[str, int] = {}
    for card in cards:
        resource = host.resources[card] if card < len(host.resources) else WHOLE
        asked[resource] = asked.get(resource, 0) + 1
    if launch.shape.gpus and sum(asked.values()) != launch.shape.gpus:
        raise Invalid(f"A task asks for {launch.shape.gpus} cards and was given {sum(asked.values())} of {host.node.name}.")
    return tuple(sorted(asked.items()))


def _job(launch: Launch, group: _Group, reaches: Sequence[Reach], wishes: Wishes) -> Object:
    """The spec of a Job of one pod. Whether it is tried again is not Kubernetes' to decide."""
    spec: Object = {
        "backoffLimit": 0,
        "completionMode": "Indexed",
        "completions": 1,
        "parallelism": 1,
        "podReplacementPolicy": "Failed",
        "template": {"metadata": {"labels": labels_of(launch)}, "spec": _pod(launch, group, reaches, wishes)},
    }
    if launch.limits.seconds:
        spec["activeDeadlineSeconds"] = launch.limits.seconds + _grace(launch) + _BACKSTOP
    return spec


def _pod(launch: Launch, group: _Group, reaches: Sequence[Reach], wishes: Wishes) -> Object:
    disk = {"sizeLimit": f"{launch.limits.disk_mib}Mi"} if launch.limits.disk_mib else {}
    folders = {"work": _WORK, "output": _OUTPUT, "scratch": _SCRATCH}
    mounts: list[Object] = [{"name": name, "mountPath": place} for name, place in folders.items()]
    volumes: list[Object] = [{"name": name, "emptyDir": dict(disk)} for name in folders]
    if _files(launch, wishes):
        mounts.append({"name": "keys", "mountPath": _KEYS, "readOnly": True})
        items = [{"key": key, "path": key} for key in _files(launch, wishes)]
        secret: Object = {"secretName": name_of(launch.attempt), "defaultMode": 0o440, "items": items}
        volumes.append({"name": "keys", "secret": secret})
    pod: Object = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": _grace(launch),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "shareProcessNamespace": True,  # so that the command is not the first process, which no signal ends
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "fsGroup": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "tolerations": [{"key": WHOLE, "operator": "Exists", "effect": "NoSchedule"}],
        **_where(launch, group),
        "volumes": volumes,
        "containers": [_task(launch, group, mounts, wishes)],
    }
    if launch.limits.seconds:
        pod["activeDeadlineSeconds"] = launch.limits.seconds
    if launch.source is not None:
        pod["initContainers"] = [_fetch(launch, mounts, wishes)]
    if named := [reach for reach in reaches if reach.addresses and reach.name not in reach.addresses]:
        pod["hostAliases"] = _aliases(named)
    return pod


def _where(launch: Launch, group: _Group) -> Object:
    """The zone is a condition of its own, whatever host was chosen."""
    host = group.hosts[0]
    chosen: list[Object] = [{"key": HOSTNAME, "operator": "In", "values": sorted({one.hostname for one in group.hosts})}]
    if WHOLE in group.gpus and (products := sorted({one.product for one in group.hosts if one.product})):
        chosen.append({"key": PRODUCT, "operator": "In", "values": products})
    required = {"nodeSelectorTerms": [{"matchExpressions": chosen}]}
    where: Object = {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}
    if host.zone_label:
        where["nodeSelector"] = {host.zone_label: launch.zone or host.node.zone}
    return where


def _task(launch: Launch, group: _Group, mounts: list[Object], wishes: Wishes) -> Object:
    shape = launch.shape
    amounts = {"cpu": f"{shape.cpu_milli}m", "memory": f"{shape.memory_mib}Mi"}
    if launch.limits.disk_mib:
        amounts["ephemeral-storage"] = f"{launch.limits.disk_mib}Mi"
    amounts |= {resource: str(count) for resource, count in group.gpus.items()}
    return {
        "name": TASK,
        "image": launch.environment.image or wishes.image,
        "command": [_literal(part) for part in launch.command],
        "workingDir": _WORK,
        "env": _variables(launch, wishes),
        "resources": {"requests": dict(amounts), "limits": dict(amounts)},
        "securityContext": _confined(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts,
    }


def _literal(text: str) -> str:
    """Kubernetes puts variables into what it starts; ours are for the shell, or for nobody."""
    return text.replace("$", "$$")


def _confined() -> Object:
    return {
        "allowPrivilegeEscalation": False,
        "privileged": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def _variables(launch: Launch, wishes: Wishes) -> list[Object]:
    """What is secret comes from the Secret, and what the platform says comes after what the job asked for."""
    own = {"HOME": _SCRATCH, "TMPDIR": _SCRATCH, "FALAJ_OUTPUT": _OUTPUT, "PYTHONUNBUFFERED": "1"}
    if url := (wishes.platform_url or launch.platform_url):
        own |= {"FALAJ_URL": url, "MLFLOW_TRACKING_URI": url}
    if wishes.certificates:
        own["FALAJ_CA"] = f"{_KEYS}/platform.pem"
    if is_encrypted(launch):
        gloo = "GLOO_DEVICE_TRANSPORT"
        own |= {gloo: "TCP_TLS", f"{gloo}_TCP_TLS_CERT": f"{_KEYS}/gang.crt", f"{gloo}_TCP_TLS_PKEY": f"{_KEYS}/gang.key"}
        own[f"{gloo}_TCP_TLS_CA_FILE"] = f"{_KEYS}/gang-authority.crt"
    ranked: list[Object] = []
    if len(launch.seats) > 1:
        name = name_of(launch.attempt)
        own |= {"WORLD_SIZE": str(len(launch.seats)), "MASTER_ADDR": f"{name}-h0-0-0.{name}", "MASTER_PORT": str(_PORT)}
        own |= {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
        ranked = [{"name": "RANK", "valueFrom": {"fieldRef": {"fieldPath": _RANK}}}]
    hidden = [_from_secret(launch, key) for key in launch.variables if key not in own and key != "RANK"]
    return [*hidden, *({"name": key, "value": _literal(text)} for key, text in own.items()), *ranked]


def _from_secret(launch: Launch, key: str) -> Object:
    return {"name": key, "valueFrom": {"secretKeyRef": {"name": name_of(launch.attempt), "key": key}}}


def _fetch(launch: Launch, mounts: list[Object], wishes: Wishes) -> Object:
    url = (wishes.platform_url or launch.platform_url).rstrip("/")
    project = quote(launch.variables.get("FALAJ_PROJECT", launch.project), safe="")
    told = {"FALAJ_SOURCE": f"{url}/v1/projects/{project}/jobs/{launch.job}/source", "FALAJ_SOURCE_FOLDER": _WORK}
    if wishes.certificates:
        told["FALAJ_CA"] = f"{_KEYS}/platform.pem"
    script = files("falaj.jobs.engines.kube").joinpath("fetching.py").read_text()
    amounts = {"cpu": "100m", "memory": "128Mi"}
    return {
        "name": FETCH,
        "image": wishes.image,
        "command": ["python3", "-I", "-c", _literal(script)],
        "workingDir": _WORK,
        "env": [
            _from_secret(launch, "FALAJ_TOKEN"),
            *({"name": key, "value": _literal(text)} for key, text in told.items()),
        ],
        "resources": {"requests": dict(amounts), "limits": dict(amounts)},
        "securityContext": _confined(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts,
    }


def _aliases(reaches: Sequence[Reach]) -> list[Object]:
    names: dict[str, list[str]] = {}
    for reach in reaches:
        for address in reach.addresses:
            if reach.name not in names.setdefault(address, []):
                names[address].append(reach.name)
    return [{"ip": address, "hostnames": hostnames} for address, hostnames in names.items()]


def is_encrypted(launch: Launch) -> bool:
    return len(launch.seats) > 1 and not launch.private_network


def _files(launch: Launch, wishes: Wishes) -> list[str]:
    gang = ["gang.crt", "gang.key", "gang-authority.crt"] if is_encrypted(launch) else []
    return [*gang, *(["platform.pem"] if wishes.certificates else [])]


def secret(launch: Launch, owner: Object, wishes: Wishes, gang: Sequence[str]) -> Object:
    """What the job sees and nobody else should. It goes with the Job. `gang` is certificate, key and authority."""
    texts = [*gang, *([wishes.certificates] if wishes.certificates else [])]
    kept = dict(launch.variables) | dict(zip(_files(launch, wishes), texts, strict=True))
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _owned(launch, owner),
        "immutable": True,
        "type": "Opaque",
        "stringData": kept,
    }


def network(launch: Launch, owner: Object, reaches: Sequence[Reach]) -> Object:
    """What `closed` does not let through, this does: the platform, the declared hosts, and the job's own tasks."""
    egress: list[Object] = []
    for reach in reaches:
        ports = [{"protocol": "TCP", "port": reach.port}] if reach.port else []
        if reach.name == _ALL:
            egress.append({"to": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": [_METADATA]}}, {"ipBlock": {"cidr": "::/0"}}]})
        elif reach.addresses:
            egress.append({"to": [{"ipBlock": {"cidr": _alone(address)}} for address in reach.addresses], "ports": ports})
    own = {"podSelector": {"matchLabels": {ATTEMPT: launch.attempt}}}
    spec: Object = {"podSelector": own["podSelector"], "policyTypes": ["Ingress", "Egress"], "egress": egress, "ingress": []}
    if len(launch.seats) > 1:
        spec["ingress"] = [{"from": [own]}]
        egress.append({"to": [own]})
    if len(launch.seats) > 1 or any(reach.name == _ALL for reach in reaches):
        # Names of tasks, and of hosts that nobody named, are asked for; everything else has its address in the pod already.
        system = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}}
        egress.append({"to": [system], "ports": [{"protocol": kind, "port": 53} for kind in ("UDP", "TCP")]})
    return {"apiVersion": NETWORKING, "kind": "NetworkPolicy", "metadata": _owned(launch, owner), "spec": spec}


def closed() -> Object:
    """No job's pod speaks or listens to anybody, unless a policy of its own says so: also not before that one is there."""
    return {
        "apiVersion": NETWORKING,
        "kind": "NetworkPolicy",
        "metadata": {"name": "falaj-closed", "labels": dict(MANAGED)},
        "spec": {"podSelector": {"matchLabels": dict(MANAGED)}, "policyTypes": ["Ingress", "Egress"]},
    }


def _alone(address: str) -> str:
    return str(ipaddress.ip_network(address))


def _owned(launch: Launch, owner: Object) -> Object:
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
    }
    return {"name": name_of(launch.attempt), "labels": labels_of(launch), "ownerReferences": [reference]}


def _grace(launch: Launch) -> int:
    return max(1, -(-launch.grace // SECOND))


def _is_loopback(name: str) -> bool:
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return name == "localhost"
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def reached(launch: Launch, wishes: Wishes) -> list[tuple[str, int | None]]:
    """Names and ports of what a job may reach. Raises `Invalid` where pods could not reach the platform."""
    found: list[tuple[str, int | None]] = []
    if url := (wishes.platform_url or launch.platform_url):
        parts = urlsplit(url)
        name = parts.hostname or ""
        if _is_loopback(name):
            raise Invalid(f"Pods cannot reach the platform at {url}: set jobs.kubernetes_platform_url to an address they can.")
        found.append((name, parts.port or (443 if parts.scheme == "https" else 80)))
    elif launch.source is not None:
        raise Invalid("Pods get a job's files from the platform, and nobody said where it is: set server.url.")
    for host in launch.hosts:
        name, _, port = host.rpartition(":")
        found.append((_ALL, None) if host == _ALL else (name, int(port)))
    return found
