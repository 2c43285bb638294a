"""Falaj: one platform from raw data to a monitored, governed model in production."""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# What notebooks and jobs use, by the module that has it: `import falaj` itself must stay light.
_OFFERED = {
    "batch": "falaj.client.batches.asking",
    "dataset": "falaj.client.datasets",
    "features": "falaj.client.features",
    "optimise": "falaj.client.optimising.asking",
    "pusher": "falaj.client.pushing",
    "save_dataset": "falaj.client.datasets",
    "derive": "falaj.client.derivations",
    "source": "falaj.client.dataset_sources",
}
_MODULES = {"spark": "falaj.client.spark"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name not in _OFFERED:
        raise AttributeError(f"module 'falaj' has no attribute {name!r}")
    return getattr(import_module(_OFFERED[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_OFFERED, *_MODULES])
