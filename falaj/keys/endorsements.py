"""What a retiring signing key says of the one that takes over, so that whoever trusts the old one can trust the new one."""

from falaj.base.encoding import canonical
from falaj.base.values import Message, value

# A signature under the same key over something else can never be taken for an endorsement.
DOMAIN = b"falaj signing key v1\x00"


@value
class Endorsement(Message):
    """The key `by` signed that `key`, with the public key it is known under, signs for the same purpose from then on."""

    key: str
    by: str
    signature: str  # Ed25519, hex, over `endorsed_bytes`

    def document(self) -> dict[str, str]:
        return {"key": self.key, "by": self.by, "signature": self.signature}


def endorsed_bytes(purpose: str, key: str, public: bytes) -> bytes:
    return DOMAIN + canonical({"purpose": purpose, "key": key, "public": public.hex()})
