"""Moves that were asked for, as pages tell them: which kind of move, from where to where, and how the two versions differ."""

from collections.abc import Iterable
from typing import Any

from falaj.base.values import value
from falaj.registry.operations.models import OneModel
from falaj.registry.operations.versions import OneVersion
from falaj.web.visits import Visit


@value
class Wish:
    """An open approval with its words. `comparison` is an address, empty where there are not two versions to compare."""

    project: str
    approval: Any
    words: str
    before: int
    comparison: str


def words(approval: Any, before: int) -> str:
    """`before` is the version that the alias points at now; 0 for none."""
    alias, version = approval.alias, approval.version
    match approval.kind:
        case "remove":
            return f"remove {alias}, which points at version {before}" if before else f"remove {alias}"
        case "rollback":
            return (
                f"roll {alias} back from version {before} to {version}" if before else f"roll {alias} back to version {version}"
            )
        case "stage":
            return f"version {version} to the stage {alias}"
        case _:
            return f"{alias} from version {before} to version {version}" if before else f"{alias} to version {version}"


def wish(project: str, approval: Any, before: int, before_id: str) -> Wish:
    two = before_id and before and approval.version and before != approval.version
    address = f"/projects/{project}/versions/{before_id}?other={approval.version}#changes" if two else ""
    return Wish(project=project, approval=approval, words=words(approval, before), before=before, comparison=address)


def before_of(approval: Any, model: Any) -> int:
    """Where the alias points now. A stage is held by many versions, so that none of them is the one before."""
    if model is None or approval.kind == "stage":
        return 0
    return next((int(alias.version) for alias in model.aliases if alias.alias == approval.alias), 0)


# On pages of many models, what is loaded beside the approvals


def models_asked(asked: Iterable[tuple[str, Any]]) -> list[OneModel]:
    return list(dict.fromkeys(OneModel(project=project, model=approval.model) for project, approval in asked))


def versions_left(visit: Visit, asked: Iterable[tuple[str, Any]]) -> list[OneVersion]:
    """The versions that aliases would leave for another one."""
    left = ((project, approval, _before(visit, project, approval)) for project, approval in asked)
    wanted = (OneVersion(project=p, model=approval.model, version=n) for p, approval, n in left if n and approval.version)
    return list(dict.fromkeys(wanted))


def wishes(visit: Visit, asked: Iterable[tuple[str, Any]]) -> list[Wish]:
    found = visit.loaded["versions_left"] or {}
    told = []
    for project, approval in asked:
        before = _before(visit, project, approval)
        version = found.get(OneVersion(project=project, model=approval.model, version=before)) if before else None
        told.append(wish(project, approval, before, version.id if version is not None else ""))
    return told


def _before(visit: Visit, project: str, approval: Any) -> int:
    models = visit.loaded["models_asked"] or {}
    return before_of(approval, models.get(OneModel(project=project, model=approval.model)))
