"""Telling a genuine signature from a forged one, and a key that was handed over to from one that somebody planted."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from falaj.base.clock import Moment
from falaj.base.values import value
from falaj.keys.endorsements import Endorsement, endorsed_bytes


@value
class PublicKey:
    """What verifies a signature. `retired` keys sign no more; every key but the first was endorsed by the one before."""

    id: str
    purpose: str
    public: bytes
    created: Moment
    retired: Moment | None = None
    endorsement: Endorsement | None = None


def verify(public: bytes, signature: bytes, message: bytes) -> bool:
    """Whether the holder of the private key signed exactly this."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def vouched_for(
    purpose: str, *, trusted: Mapping[str, bytes], offered: Mapping[str, bytes], endorsements: Iterable[Endorsement]
) -> dict[str, bytes]:
    """The trusted keys (key id -> 32 raw bytes), and those of the offered ones that chain to one of them by endorsements.

    A key hands over once: where it endorsed several, which the platform never does, the trusted or else the oldest counts.
    """
    known = {**offered, **trusted}
    by_endorser: dict[str, list[Endorsement]] = defaultdict(list)
    for endorsement in sorted(endorsements, key=lambda one: (one.key not in trusted, one.key)):
        by_endorser[endorsement.by].append(endorsement)
    accepted, waiting = dict(trusted), list(trusted)
    while waiting:
        endorser = waiting.pop()
        for endorsement in by_endorser[endorser]:
            if _holds(purpose, endorsement, accepted[endorser], known.get(endorsement.key)):
                if endorsement.key not in accepted:
                    accepted[endorsement.key] = known[endorsement.key]
                    waiting.append(endorsement.key)
                break
    return accepted


def chained(keys: Sequence[PublicKey]) -> dict[str, bytes]:
    """Of all the keys of one purpose the first, and those that chain to it. The first alone has nobody to endorse it."""
    first = min((key for key in keys if key.endorsement is None), key=lambda key: key.id, default=None)
    if first is None:
        return {}
    return vouched_for(
        first.purpose,
        trusted={first.id: first.public},
        offered={key.id: key.public for key in keys},
        endorsements=endorsements_of(keys),
    )


def endorsements_of(keys: Iterable[PublicKey]) -> tuple[Endorsement, ...]:
    return tuple(key.endorsement for key in keys if key.endorsement is not None)


def _holds(purpose: str, endorsement: Endorsement, endorser: bytes, endorsed: bytes | None) -> bool:
    if endorsed is None:
        return False
    try:
        signature = bytes.fromhex(endorsement.signature)
    except ValueError:
        return False
    return verify(endorser, signature, endorsed_bytes(purpose, endorsement.key, endorsed))
