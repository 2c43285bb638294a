"""Modules that only doing something needs, and showing its help does not: they are imported when first used."""

from importlib import import_module
from typing import Any


class Deferred:
    """Stands for a module. Where it is used, `if TYPE_CHECKING` imports the module itself, so that types are checked."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self._name), attribute)
