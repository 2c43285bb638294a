"""Packages whose names are imported when they are first used: what a name needs may be large, or not installed."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def fetching(package: str, homes: Mapping[str, str], *, extra: str) -> Callable[[str], Any]:
    """The package's `__getattr__`; `homes` names the module of each name, and `extra` brings the libraries that those need."""

    def fetched(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            return getattr(import_module(f"{package}.{homes[name]}"), name)
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] == "falaj":
                raise
            told = f"{error.name}, which {name} needs, is not installed: pip install 'falaj[{extra}]'"
            raise ModuleNotFoundError(told, name=error.name) from error

    return fetched
