"""Falaj: one platform from raw data to a monitored, governed model in production."""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# What notebooks and jobs use, by the module that has it: `import falaj` itself must stay light.
_OFFERED = {
    "dataset": "falaj.client.datasets",
    "save_dataset": "falaj.client.datasets",
    "source": "falaj.client.dataset_sources",
}


def __getattr__(name: str) -> Any:
    if name not in _OFFERED:
        raise AttributeError(f"module 'falaj' has no attribute {name!r}")
    return getattr(import_module(_OFFERED[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_OFFERED])
