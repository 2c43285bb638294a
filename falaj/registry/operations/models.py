"""What can be done with registered models; moving their aliases is in `promotions.py`."""

from typing import Final

from falaj.base.clock import Moment
from falaj.base.operation import Group, Operation, Permission, Record, Scope
from falaj.base.pages import Cursor, Limit
from falaj.base.values import Id, Message, Name, Nothing, value
from falaj.registry.operations.versions import Version
from falaj.registry.operations.words import (
    Description,
    Filter,
    ModelName,
    ModelTag,
    ModelTags,
    Order,
    TagKey,
    TagValue,
)


@value
class CreateModel(Message):
    project: Name
    model: ModelName
    description: Description = ""
    tags: ModelTags = ()


@value
class Alias(Message):
    alias: str
    version: int


@value
class Model(Message):
    """`latest` holds the newest version of each stage that has one."""

    id: Id
    name: ModelName
    description: Description
    tags: tuple[ModelTag, ...]
    aliases: tuple[Alias, ...]
    latest: tuple[Version, ...]
    versions: int
    created: Moment
    changed: Moment
    created_by: str


@value
class OneModel(Message):
    project: Name
    model: ModelName


@value
class SearchModels(Message):
    """`filter` and `order` are MLflow's language: `name LIKE 'fraud%' AND tags.team = 'risk'`, `name DESC`."""

    project: Name
    filter: Filter = ""
    order: Order = ()
    limit: Limit = 100
    cursor: Cursor = ""


@value
class Models(Message):
    items: tuple[Model, ...]
    next: str = ""


@value
class DescribeModel(Message):
    project: Name
    model: ModelName
    description: Description


@value
class RenameModel(Message):
    project: Name
    model: ModelName
    name: ModelName


@value
class TagModel(Message):
    project: Name
    model: ModelName
    key: TagKey
    value: TagValue = ""


@value
class UntagModel(Message):
    project: Name
    model: ModelName
    key: TagKey


WRITE: Final = Permission(name="model.write", group=Group.WRITE)
READ: Final = Permission(name="model.read", group=Group.READ)

CREATE_MODEL: Final = Operation(
    name="model.create",
    summary="Create a registered model, still without versions.",
    method="POST",
    path="projects/{project}/models",
    request=CreateModel,
    result=Model,
    permission=WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
SHOW_MODEL: Final = Operation(
    name="model.show",
    summary="Show a registered model: tags, aliases, the newest version of each stage.",
    method="GET",
    path="projects/{project}/model",
    request=OneModel,
    result=Model,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
SEARCH_MODELS: Final = Operation(
    name="model.search",
    summary="Search registered models, by name unless ordered otherwise.",
    method="POST",
    path="projects/{project}/models/search",
    request=SearchModels,
    result=Models,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
DESCRIBE_MODEL: Final = Operation(
    name="model.describe",
    summary="Set a registered model's description.",
    method="PUT",
    path="projects/{project}/model/description",
    request=DescribeModel,
    result=Model,
    permission=WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
RENAME_MODEL: Final = Operation(
    name="model.rename",
    summary="Give a registered model another name; its versions, aliases and history go with it.",
    method="PUT",
    path="projects/{project}/model/name",
    request=RenameModel,
    result=Model,
    permission=WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
DELETE_MODEL: Final = Operation(
    name="model.delete",
    summary="Delete a registered model and its versions; refused while an alias points at one. What happened stays on record.",
    method="DELETE",
    path="projects/{project}/model",
    request=OneModel,
    result=Nothing,
    permission=WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
TAG_MODEL: Final = Operation(
    name="model.tag",
    summary="Set a tag of a registered model.",
    method="PUT",
    path="projects/{project}/model/tags",
    request=TagModel,
    result=Nothing,
    permission=WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
UNTAG_MODEL: Final = Operation(
    name="model.untag",
    summary="Remove a tag of a registered model.",
    method="DELETE",
    path="projects/{project}/model/tags",
    request=UntagModel,
    result=Nothing,
    permission=WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)

OPERATIONS: Final = (
    CREATE_MODEL,
    SHOW_MODEL,
    SEARCH_MODELS,
    DESCRIBE_MODEL,
    RENAME_MODEL,
    DELETE_MODEL,
    TAG_MODEL,
    UNTAG_MODEL,
)
