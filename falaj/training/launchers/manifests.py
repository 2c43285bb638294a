"""The same training as a manifest for Kubernetes' training operators, whose pods find each other as they say. Experimental:
written after the published definitions, and never run."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from falaj.base.values import value
from falaj.training.launchers.choosing import Launch
from falaj.training.launchers.errors import Unfit

Kind = Literal["trainjob", "pytorchjob"]
_RUNTIME: Final = "torch-distributed"  # the one that Kubeflow Trainer brings along


@value
class Pod:
    """What each node is given. The image has the script: nothing travels along here."""

    name: str
    image: str
    cpus: float
    memory_mib: int
    gpus: float
    variables: Mapping[str, str]
    retries: int


def written(kind: Kind, launch: Launch, script: Sequence[str], pod: Pod) -> dict[str, Any]:
    """Raises `Unfit` for what such an operator does not start."""
    if launch.launcher not in ("torchrun", "single"):
        raise Unfit(f"A {kind} starts torch's processes; {script[0]} needs {launch.launcher}, and is started by `falaj train`.")
    if not pod.image:
        raise Unfit(f"A {kind} runs in a container: name the image that has {script[0]} with --image.")
    if pod.gpus % 1:
        raise Unfit(f"Kubernetes gives whole GPUs, and {pod.gpus:g} were asked for.")
    return (_trainjob if kind == "trainjob" else _pytorchjob)(launch, list(script), pod)


def _trainjob(launch: Launch, script: list[str], pod: Pod) -> dict[str, Any]:
    trainer = {
        "image": pod.image,
        "command": _program(launch),
        "args": script,
        "env": _env(pod),
        "numNodes": launch.nodes,
        "numProcPerNode": launch.processes,
        "resourcesPerNode": _resources(pod),
    }
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": _label(pod.name)},
        "spec": {"runtimeRef": {"name": _RUNTIME}, "trainer": trainer},
    }


def _pytorchjob(launch: Launch, script: list[str], pod: Pod) -> dict[str, Any]:
    container = {
        "name": "pytorch",  # the operator looks for this name
        "image": pod.image,
        "command": [*_program(launch), *script],
        "env": _env(pod),
        "resources": _resources(pod),
    }
    each = {"restartPolicy": "OnFailure", "template": {"spec": {"containers": [container]}}}
    replicas = {"Master": {"replicas": 1} | each}
    if launch.nodes > 1:
        replicas["Worker"] = {"replicas": launch.nodes - 1} | each
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": _label(pod.name)},
        "spec": {
            "nprocPerNode": str(launch.processes),
            "runPolicy": {"backoffLimit": pod.retries},
            "pytorchReplicaSpecs": replicas,
        },
    }


def _program(launch: Launch) -> list[str]:
    """torchrun reads nodes, processes and where the first one is from variables that the operator sets."""
    return ["torchrun"] if launch.launcher == "torchrun" else ["python3"]


def _env(pod: Pod) -> list[dict[str, str]]:
    return [{"name": name, "value": text} for name, text in pod.variables.items()]


def _resources(pod: Pod) -> dict[str, Any]:
    amounts = {"cpu": f"{round(pod.cpus * 1000)}m", "memory": f"{pod.memory_mib}Mi"}
    if pod.gpus:
        amounts["nvidia.com/gpu"] = str(int(pod.gpus))
    return {"requests": amounts, "limits": amounts}


def _label(name: str) -> str:
    """As names of such objects have to be: small letters, digits and hyphens, beginning with a letter."""
    label = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:50].rstrip("-")
    return label if label[:1].isalpha() else f"training-{label}".rstrip("-")
