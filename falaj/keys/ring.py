"""The protocol of a key ring: named wrapping keys with versions, whose bytes never leave it."""

import re
from typing import Protocol

from falaj.base.clock import Moment
from falaj.base.errors import Invalid
from falaj.base.values import NAME_PATTERN, value

PLATFORM = "platform"


@value
class Wrapped:
    """A secret sealed by a ring, and the version of the key that sealed it. Safe to store anywhere."""

    version: int
    data: bytes


@value
class KeyVersion:
    version: int
    created: Moment


class KeyRing(Protocol):
    """Named 256-bit keys that seal small secrets with AES-256-GCM.

    Thread-safe. A change is durable when the call returns. Names follow `base.values.Name`; the newest version wraps, every
    version that was not destroyed unwraps. Wrapped bytes open only under the name and the context they were wrapped with:
    anything else raises `Unopenable`. A name that never had a key raises `KeyNotFound`, one whose every version was destroyed
    `KeyDestroyed`, for good. Repeating `create` or `destroy` changes nothing; repeating `rotate` makes one version more. A
    ring that does not answer raises `Unavailable`.
    """

    def create(self, name: str) -> int:
        """Make the first version unless there is one; the newest version's number."""
        ...

    def wrap(self, name: str, plaintext: bytes, context: bytes) -> Wrapped: ...

    def unwrap(self, name: str, wrapped: Wrapped, context: bytes) -> bytes: ...

    def rotate(self, name: str) -> int:
        """Make a new version, and its number. What older versions wrapped still opens."""
        ...

    def destroy(self, name: str, version: int | None = None) -> None:
        """Forget one version, or all of them and the name with them."""
        ...

    def versions(self, name: str) -> tuple[KeyVersion, ...]:
        """Oldest first; empty when the name is unknown or destroyed."""
        ...

    def names(self) -> tuple[str, ...]:
        """The names that have a key, in order."""
        ...


def check_key_name(name: str) -> None:
    if not re.fullmatch(NAME_PATTERN, name):
        raise Invalid(f"{name!r} is no name for a key: small letters, digits, '.', '_' and '-', at most 100.")


def bound_context(name: str, version: int, context: bytes) -> bytes:
    """The name and the version are part of what is authenticated, so that a wrapped secret cannot be moved between keys."""
    return b"%s\0%d\0%s" % (name.encode(), version, context)


def project_key(project: str) -> str:
    """The name of the key that wraps a project's data keys."""
    return f"project-{project}"
