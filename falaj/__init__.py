"""Falaj: one platform from raw data to a monitored, governed model in production."""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# What notebooks and jobs use, by the module that has it: `import falaj` itself must stay light.
_OFFERED = {
    "DatasetVersion": "falaj.client.pipelines.kinds",
    "Endpoint": "falaj.client.pipelines.kinds",
    "ModelVersion": "falaj.client.pipelines.kinds",
    "Run": "falaj.client.pipelines.kinds",
    "TemporaryError": "falaj.base.errors",
    "against_champion": "falaj.client.pipelines.judging",
    "among": "falaj.client.pipelines.tracing",
    "batch": "falaj.client.batches.asking",
    "continuous": "falaj.client.pipelines.continuous",
    "copy_model": "falaj.client.copying",
    "count": "falaj.client.pipelines.tracing",
    "dataset": "falaj.client.datasets",
    "each": "falaj.client.pipelines.tracing",
    "features": "falaj.client.features",
    "first": "falaj.client.pipelines.tracing",
    "optimise": "falaj.client.optimising.asking",
    "pipeline": "falaj.client.pipelines.definitions",
    "pusher": "falaj.client.pushing",
    "register": "falaj.client.registering",
    "save_dataset": "falaj.client.datasets",
    "derive": "falaj.client.derivations",
    "source": "falaj.client.dataset_sources",
    "step": "falaj.client.pipelines.functions",
    "text": "falaj.client.pipelines.tracing",
    "when": "falaj.client.pipelines.tracing",
}
_MODULES = {"spark": "falaj.client.spark", "steps": "falaj.client.pipelines.steps"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name not in _OFFERED:
        raise AttributeError(f"module 'falaj' has no attribute {name!r}")
    return getattr(import_module(_OFFERED[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_OFFERED, *_MODULES])
