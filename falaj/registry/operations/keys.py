"""What can be done with the key that signs a project's models."""

from typing import Final

from falaj.base.clock import Moment
from falaj.base.operation import Group, Operation, Permission, Record, Scope
from falaj.base.values import Id, Message, Name, value


@value
class SigningKeysOf(Message):
    project: Name


@value
class SigningKey(Message):
    """`pem` is the public key; `falaj` and OpenSSF's `model_signing verify key` take it. A retired key signs no more and goes
    on verifying what it signed."""

    id: Id
    pem: str
    created: Moment
    retired: Moment | None = None


@value
class SigningKeys(Message):
    """Oldest first; none before the project's first version is registered."""

    items: tuple[SigningKey, ...]


SIGNING_KEYS: Final = Operation(
    name="model.signing-keys",
    summary="Show the public keys that verify the signatures of a project's models.",
    method="GET",
    path="projects/{project}/signing-keys",
    request=SigningKeysOf,
    result=SigningKeys,
    permission=Permission(name="model.signing-keys", group=Group.READ),
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
ROTATE_SIGNING_KEY: Final = Operation(
    name="model.rotate-signing-key",
    summary="Sign the project's models with a new key from now on; the old one signs no more and goes on verifying.",
    method="POST",
    path="projects/{project}/signing-keys/rotate",
    request=SigningKeysOf,
    result=SigningKeys,
    permission=Permission(name="model.rotate-signing-key", group=Group.ADMINISTER),
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)

OPERATIONS: Final = (SIGNING_KEYS, ROTATE_SIGNING_KEY)
