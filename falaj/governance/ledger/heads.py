"""Signed heads: who holds one can tell whether the ledger he is shown still begins with the one he saw."""

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from falaj.base.clock import Moment
from falaj.base.encoding import canonical
from falaj.base.values import Message, value

# A signature under the same key over something else can never be taken for a head's.
DOMAIN = b"falaj ledger head v1\x00"


@value
class Head(Message):
    """The summary of the first `size` leaves. `previous` is the digest of the head before it, empty for the first."""

    size: int
    root: str
    at: Moment
    previous: str
    key: str
    signature: str

    def signed_bytes(self) -> bytes:
        return DOMAIN + canonical(
            {"size": self.size, "root": self.root, "at": str(self.at), "previous": self.previous, "key": self.key}
        )

    def digest(self) -> str:
        return sha256(self.signed_bytes()).hexdigest()

    def document(self) -> dict[str, Any]:
        return {
            "size": self.size,
            "root": self.root,
            "at": str(self.at),
            "previous": self.previous,
            "key": self.key,
            "signature": self.signature,
        }


def read_head(text: str | bytes) -> Head:
    """A head from its JSON; ValueError where it is not one."""
    document = json.loads(text)
    if not isinstance(document, dict):
        raise ValueError("not a head")
    return head_of(document)


def head_of(document: Mapping[str, Any]) -> Head:
    try:
        head = Head(**{**document, "at": Moment.parse(document["at"])})
    except (TypeError, KeyError) as error:
        raise ValueError(f"not a head: {error}") from error
    texts = (head.root, head.previous, head.key, head.signature)
    if type(head.size) is not int or not all(type(text) is str for text in texts):
        raise ValueError("not a head: a field has the wrong type")
    return head
