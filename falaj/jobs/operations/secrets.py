"""A project's secrets: set once, seen by the jobs that name them, shown to nobody again."""

from typing import Annotated, Final

from falaj.base.clock import Moment
from falaj.base.operation import Group, Operation, Permission, Record, Scope
from falaj.base.values import Message, Name, Nothing, Secret, Text, value
from falaj.collaboration.operations.words import Person
from falaj.jobs.operations.words import SecretName


@value
class SetSecret(Message):
    project: Name
    name: SecretName
    value: Annotated[str, Text(longest=65_536), Secret()]


@value
class OneSecret(Message):
    project: Name
    name: SecretName


@value
class ListSecrets(Message):
    project: Name


@value
class SecretView(Message):
    """Everything but what it is."""

    name: SecretName
    set: Moment
    set_by: Person


@value
class Secrets(Message):
    items: tuple[SecretView, ...]


READ: Final = Permission(name="secret.list", group=Group.READ)
SET: Final = Permission(name="secret.set", group=Group.ADMINISTER)

SET_SECRET: Final = Operation(
    name="secret.set",
    summary="Keep a secret under a name, sealed with the project key.",
    method="PUT",
    path="projects/{project}/secrets/{name}",
    request=SetSecret,
    result=SecretView,
    permission=SET,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
LIST_SECRETS: Final = Operation(
    name="secret.list",
    summary="The names of the secrets.",
    method="GET",
    path="projects/{project}/secrets",
    request=ListSecrets,
    result=Secrets,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
DELETE_SECRET: Final = Operation(
    name="secret.delete",
    summary="Forget a secret.",
    method="DELETE",
    path="projects/{project}/secrets/{name}",
    request=OneSecret,
    result=Nothing,
    permission=SET,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
OPERATIONS: Final = (
    SET_SECRET,
    LIST_SECRETS,
    DELETE_SECRET,
)
