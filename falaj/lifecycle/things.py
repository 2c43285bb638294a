"""What steps hand to each other by name: what a name means now, and whether what was handed on is still there."""

from collections.abc import Mapping
from typing import Any

from falaj.base.errors import Invalid
from falaj.base.ids import ProjectId
from falaj.database.work import UnitOfWork
from falaj.datasets.store import datasets as dataset_store
from falaj.datasets.store import versions as dataset_version_store
from falaj.lifecycle.checking import THINGS, is_of_kind
from falaj.lifecycle.operations.words import Kind
from falaj.registry.store import models as model_store
from falaj.registry.store import versions as version_store


def pinned(work: UnitOfWork, project: ProjectId, kind: Kind, given: Any) -> Any:
    """`flights` and `late@champion` as what they are now, so that a run has the same from its beginning to its end."""
    if kind not in THINGS or not isinstance(given, str):
        return given
    if kind == "dataset":
        return _dataset(work, project, given)
    if kind == "model":
        return _model(work, project, given)
    return {"run": given} if kind == "run" else {"endpoint": given}


def _dataset(work: UnitOfWork, project: ProjectId, given: str) -> dict[str, Any]:
    name, _, number = given.partition("@")
    found = dataset_store.find(work, project, name)
    if found is None:
        raise Invalid(f"There is no dataset {name!r} here.")
    if number and not number.isdigit():
        raise Invalid(f"{given!r} is no version of a dataset: write it like {name}@3.")
    version = int(number or found.current)
    if not version or dataset_version_store.find(work, found.id, version) is None:
        raise Invalid(f"The dataset {name!r} has no version{f' {number}' if number else ' yet'}.")
    return {"dataset": name, "version": version}


def _model(work: UnitOfWork, project: ProjectId, given: str) -> dict[str, Any]:
    name, by, which = given.partition("@") if "@" in given else given.partition(":")
    found = model_store.find(work, project, name)
    if found is None:
        raise Invalid(f"There is no model {name!r} here.")
    if not which or (by == ":" and not which.isdigit()):
        raise Invalid(f"{given!r} is no version of a model: write it like {name}:3 or {name}@champion.")
    version = model_store.aliased_version(work, found.id, which) if by == "@" else int(which)
    if not version or version_store.of_model(work, found.id, version) is None:
        raise Invalid(f"The model {name!r} has no version {which!r}.")
    return {"model": name, "version": version}


def are_there(work: UnitOfWork, project: ProjectId, result: Any) -> bool:
    """Whether everything that a result names can still be had; what it only says is there for ever."""
    if isinstance(result, list | tuple):
        return all(are_there(work, project, one) for one in result)
    if is_of_kind(result, "dataset"):
        found = dataset_store.find(work, project, result["dataset"])
        version = None if found is None else dataset_version_store.find(work, found.id, int(result["version"]))
        return version is not None and version.pruned is None
    if is_of_kind(result, "model"):
        model = model_store.find(work, project, result["model"])
        return model is not None and version_store.of_model(work, model.id, int(result["version"])) is not None
    if isinstance(result, Mapping):
        return all(are_there(work, project, one) for one in result.values())
    return True
