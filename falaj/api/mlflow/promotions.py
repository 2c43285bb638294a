"""Aliases and stages, as MLflow's clients move and follow them. A move is a promotion, so policy may want approvals first."""

from typing import Final

from falaj.api.mlflow.adapters import Document, Visit, adapt, perform
from falaj.api.mlflow.bodies import body
from falaj.api.mlflow.versions import version
from falaj.api.mlflow.words import Ids, version_of
from falaj.base.errors import Forbidden, Invalid
from falaj.registry.operations import promotions as ops
from falaj.registry.operations.models import OneModel
from falaj.registry.operations.versions import SHOW_VERSION, OneVersion
from falaj.registry.operations.words import AliasName, ModelName, Stage

_STAGES: Final[dict[str, Stage]] = {"none": "None", "staging": "Staging", "production": "Production", "archived": "Archived"}


@body
class SetAlias:
    name: ModelName
    alias: AliasName
    version: str = ""


@body
class OneAlias:
    name: ModelName
    alias: AliasName


@body
class Latest:
    name: ModelName
    stages: Ids = ()


@body
class Transition:
    name: ModelName
    version: str = ""
    stage: str
    archive_existing_versions: bool = False


def stage_of(text: str) -> Stage:
    if (stage := _STAGES.get(text.lower())) is None:
        raise Invalid(f"A stage is None, Staging, Production or Archived, not {text[:100]!r}.")
    return stage


def moved(promotion: ops.Promotion) -> Document:
    """A move that waits has not happened, and MLflow's clients know only done or refused."""
    if promotion.state == "waiting":
        raise Forbidden(
            f"{promotion.alias!r} of model {promotion.model!r} was not moved to version {promotion.version}: policy wants "
            f"{promotion.needed} approval(s), {promotion.given} given so far. Have it approved "
            f"(`falaj model approve {promotion.approval}`), then do the same again.",
            rule=promotion.rule,
        )
    return {}


def _set_alias(sent: SetAlias, visit: Visit) -> ops.Promote:
    return ops.Promote(project=visit.project, model=sent.name, alias=sent.alias, version=version_of(sent.version))


def _delete_alias(sent: OneAlias, visit: Visit) -> ops.RemoveAlias:
    return ops.RemoveAlias(project=visit.project, model=sent.name, alias=sent.alias)


def _resolve(sent: OneAlias, visit: Visit) -> ops.Resolve:
    return ops.Resolve(project=visit.project, model=sent.name, alias=sent.alias)


def _latest(visit: Visit, sent: Latest) -> Document:
    """The newest of each stage, or of those stages that were named."""
    wanted = {stage_of(stage) for stage in sent.stages}
    found = visit.call(ops.LATEST, OneModel(project=visit.project, model=sent.name))
    return {"model_versions": [version(one) for one in found.items if not wanted or one.stage in wanted]}


def _transition(visit: Visit, sent: Transition) -> Document:
    number = version_of(sent.version)
    move = ops.SetStage(
        project=visit.project,
        model=sent.name,
        version=number,
        stage=stage_of(sent.stage),
        archive_others=sent.archive_existing_versions,
    )
    moved(visit.call(ops.SET_STAGE, move))
    found = visit.call(SHOW_VERSION, OneVersion(project=visit.project, model=sent.name, version=number))
    return {"model_version": version(found)}


_AT: Final = "/api/2.0/mlflow/registered-models"
_LATEST: Final = perform(ops.LATEST.name, Latest, _latest)
ROUTES: Final = (
    ("POST", f"{_AT}/alias", adapt(ops.PROMOTE, SetAlias, _set_alias, moved)),
    ("DELETE", f"{_AT}/alias", adapt(ops.REMOVE_ALIAS, OneAlias, _delete_alias, moved)),
    ("GET", f"{_AT}/alias", adapt(ops.RESOLVE, OneAlias, _resolve, lambda found: {"model_version": version(found)})),
    ("POST", f"{_AT}/get-latest-versions", _LATEST),
    ("GET", f"{_AT}/get-latest-versions", _LATEST),
    ("POST", "/api/2.0/mlflow/model-versions/transition-stage", perform(ops.SET_STAGE.name, Transition, _transition)),
)
