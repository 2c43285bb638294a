"""Signing heads, and telling a genuine one from a forged one."""

from collections.abc import Mapping
from typing import Protocol

from falaj.base.clock import Moment
from falaj.governance.ledger.heads import Head
from falaj.keys.signatures import verify


class Signer(Protocol):
    """Signs with Ed25519 under the one key that `key_id` names. Thread-safe; raises the errors of `base.errors`."""

    @property
    def key_id(self) -> str: ...

    def sign(self, message: bytes) -> bytes: ...


def sign_head(signer: Signer, *, size: int, root: bytes, at: Moment, previous: Head | None) -> Head:
    unsigned = Head(
        size=size, root=root.hex(), at=at, previous=previous.digest() if previous else "", key=signer.key_id, signature=""
    )
    signature = signer.sign(unsigned.signed_bytes()).hex()
    return Head(**unsigned.document() | {"at": at, "signature": signature})


def is_genuine(head: Head, keys: Mapping[str, bytes]) -> bool:
    """Whether one of `keys` (key id -> 32 raw bytes) signed exactly this."""
    key = keys.get(head.key)
    try:
        return key is not None and verify(key, bytes.fromhex(head.signature), head.signed_bytes())
    except ValueError:
        return False
