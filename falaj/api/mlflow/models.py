"""Registered models, as MLflow's clients ask for them; their versions are `versions`, their aliases `promotions`."""

from typing import Annotated, Final

from falaj.api.mlflow.adapters import Document, Visit, adapt, nothing
from falaj.api.mlflow.bodies import body
from falaj.api.mlflow.failures import EXISTS
from falaj.api.mlflow.unserved import refuse_prompt
from falaj.api.mlflow.versions import version
from falaj.api.mlflow.words import milliseconds
from falaj.base.pages import Cursor
from falaj.base.values import Range
from falaj.registry.operations import models as ops
from falaj.registry.operations.words import Description, Filter, ModelName, ModelTags, Order, TagKey, TagValue


@body
class Create:
    name: ModelName
    tags: ModelTags = ()
    description: Description = ""


@body
class One:
    name: ModelName


@body
class Rename:
    name: ModelName
    new_name: ModelName


@body
class Update:
    name: ModelName
    description: Description = ""


@body
class Search:
    filter: Filter = ""
    max_results: Annotated[int, Range(least=1, most=1000)] = 100
    order_by: Order = ()
    page_token: Cursor = ""


@body
class SetTag:
    name: ModelName
    key: TagKey
    value: TagValue = ""


@body
class DeleteTag:
    name: ModelName
    key: TagKey


def model(found: ops.Model) -> Document:
    document: Document = {
        "name": found.name,
        "creation_timestamp": milliseconds(found.created),
        "last_updated_timestamp": milliseconds(found.changed),
        "user_id": found.created_by,
        "latest_versions": [version(one) for one in found.latest],
        "tags": [{"key": tag.key, "value": tag.value} for tag in found.tags],
        "aliases": [{"alias": one.alias, "version": str(one.version)} for one in found.aliases],
    }
    return document | ({"description": found.description} if found.description else {})


def _registered(found: ops.Model) -> Document:
    return {"registered_model": model(found)}


def _create(sent: Create, visit: Visit) -> ops.CreateModel:
    refuse_prompt({tag.key: tag.value for tag in sent.tags})
    return ops.CreateModel(project=visit.project, model=sent.name, description=sent.description, tags=sent.tags)


def _one(sent: One, visit: Visit) -> ops.OneModel:
    return ops.OneModel(project=visit.project, model=sent.name)


def _search(sent: Search, visit: Visit) -> ops.SearchModels:
    return ops.SearchModels(
        project=visit.project, filter=sent.filter, order=sent.order_by, limit=sent.max_results, cursor=sent.page_token
    )


def _found(page: ops.Models) -> Document:
    document: Document = {"registered_models": [model(found) for found in page.items]}
    return document | ({"next_page_token": page.next} if page.next else {})


_AT: Final = "/api/2.0/mlflow/registered-models"
ROUTES: Final = (
    ("POST", f"{_AT}/create", adapt(ops.CREATE_MODEL, Create, _create, _registered, conflict=EXISTS)),
    ("GET", f"{_AT}/get", adapt(ops.SHOW_MODEL, One, _one, _registered)),
    ("GET", f"{_AT}/search", adapt(ops.SEARCH_MODELS, Search, _search, _found)),
    (
        "POST",
        f"{_AT}/rename",
        adapt(
            ops.RENAME_MODEL,
            Rename,
            lambda sent, visit: ops.RenameModel(project=visit.project, model=sent.name, name=sent.new_name),
            _registered,
            conflict=EXISTS,
        ),
    ),
    (
        "PATCH",
        f"{_AT}/update",
        adapt(
            ops.DESCRIBE_MODEL,
            Update,
            lambda sent, visit: ops.DescribeModel(project=visit.project, model=sent.name, description=sent.description),
            _registered,
        ),
    ),
    ("DELETE", f"{_AT}/delete", adapt(ops.DELETE_MODEL, One, _one, nothing)),
    (
        "POST",
        f"{_AT}/set-tag",
        adapt(
            ops.TAG_MODEL,
            SetTag,
            lambda sent, visit: ops.TagModel(project=visit.project, model=sent.name, key=sent.key, value=sent.value),
            nothing,
        ),
    ),
    (
        "DELETE",
        f"{_AT}/delete-tag",
        adapt(
            ops.UNTAG_MODEL,
            DeleteTag,
            lambda sent, visit: ops.UntagModel(project=visit.project, model=sent.name, key=sent.key),
            nothing,
        ),
    ),
)
