"""What somebody asked for with a job, as far as it is not what everybody gets."""

from typing import Any, Final

from falaj.cli.amounts import memory_told, span_told
from falaj.cli.layout import shown
from falaj.jobs.operations.jobs import Spec

_USUAL: Final = Spec(command=("",))


def unusual_of(spec: Spec) -> list[tuple[str, Any]]:
    """Names and texts for people. Of variables and secrets the names alone: a value may be nobody else's business."""
    wish = spec.resources
    told: dict[str, tuple[str, Any]] = {
        "least": ("makes do with", f"{spec.least} tasks"),
        "seconds": ("takes", span_told(spec.seconds)),
        "timeout": ("timeout", span_told(spec.timeout)),
        "deadline": ("deadline", spec.deadline),
        "retries": ("retries", spec.retries),
        "grace": ("grace", span_told(spec.grace)),
        "disk_mib": ("disk", memory_told(spec.disk_mib)),
        "lock": ("lock", True),
        "image": ("image", spec.image),
        "variables": ("variables", [one.name for one in spec.variables]),
        "secrets": ("secrets", spec.secrets),
        "hosts": ("hosts", spec.hosts),
        "permissions": ("permissions", spec.permissions),
        "inputs": ("reads", [shown(f"{one.kind}={one.id}") for one in spec.inputs]),
        "outputs": ("writes", [shown(name) for name in spec.outputs]),
        "topology": ("topology", spec.topology),
        "label": ("label", spec.label),
        "apart_from": ("apart from", spec.apart_from),
        "checkpoints": ("checkpoints", spec.checkpoints),
        "continues": ("goes on from", [job[-8:] for job in spec.continues[:1]]),
        "preemptible": ("preemptible", spec.preemptible),
    }
    models = [("GPU models", wish.gpu_models)] if wish.gpu_models else []
    return models + [row for name, row in told.items() if getattr(spec, name) != getattr(_USUAL, name)]
