"""Ed25519 signing keys, one current per purpose. Retired ones go on verifying what they signed."""

import threading
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from falaj.base.clock import Moment
from falaj.base.encoding import canonical
from falaj.base.errors import NotFound
from falaj.base.ids import new_id
from falaj.base.values import value
from falaj.database.work import UnitOfWork
from falaj.keys import store
from falaj.keys.ring import PLATFORM, KeyRing, Wrapped

CACHED_SIGNERS = 16


@value
class PublicKey:
    """What verifies a signature. `retired` keys sign no more."""

    id: str
    purpose: str
    public: bytes
    created: Moment
    retired: Moment | None


class Signer:
    """Signs with one private key. Thread-safe."""

    def __init__(self, key_id: str, private: Ed25519PrivateKey) -> None:
        self.key_id: Final = key_id
        self.public: Final = private.public_key().public_bytes_raw()
        self._private = private

    def sign(self, message: bytes) -> bytes:
        return self._private.sign(message)


def verify(public: bytes, signature: bytes, message: bytes) -> bool:
    """Whether the holder of the private key signed exactly this."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


class SigningKeys:
    """The platform's signing keys. Thread-safe. Private keys live in the database, wrapped by the ring's key `platform`."""

    def __init__(self, ring: KeyRing) -> None:
        ring.create(PLATFORM)
        self._ring = ring
        self._lock = threading.Lock()
        self._signers: dict[str, Signer] = {}

    def prepare(self, work: UnitOfWork, purpose: str, now: Moment) -> Signer:
        """The current signer; made here, in a transaction that writes, where there is none yet."""
        return self.current(work, purpose) if store.current(work, purpose) else self._make(work, purpose, now)

    def current(self, work: UnitOfWork, purpose: str) -> Signer:
        if (row := store.current(work, purpose)) is None:
            raise NotFound(f"There is no signing key for {purpose!r}.")
        with self._lock:
            signer = self._signers.get(row.id)
        if signer is None:
            wrapped = Wrapped(version=row.ring_version, data=row.wrapped)
            private = self._ring.unwrap(PLATFORM, wrapped, _context(row.id, purpose, row.public))
            signer = self._remember(Signer(row.id, Ed25519PrivateKey.from_private_bytes(private)))
        return signer

    def public(self, work: UnitOfWork, purpose: str) -> tuple[PublicKey, ...]:
        """Every key that ever signed for this purpose, oldest first."""
        rows = store.of_purpose(work, purpose)
        return tuple(
            PublicKey(
                id=row.id,
                purpose=row.purpose,
                public=row.public,
                created=Moment(row.created),
                retired=None if row.retired is None else Moment(row.retired),
            )
            for row in rows
        )

    def rotate(self, work: UnitOfWork, purpose: str, now: Moment) -> Signer:
        if store.current(work, purpose) is None:
            raise NotFound(f"There is no signing key for {purpose!r}; the purposes in use are listed by `falaj key list`.")
        store.retire(work, purpose, now)
        return self._make(work, purpose, now)

    def _make(self, work: UnitOfWork, purpose: str, now: Moment) -> Signer:
        private, key_id = Ed25519PrivateKey.generate(), new_id(now)
        public = private.public_key().public_bytes_raw()
        wrapped = self._ring.wrap(PLATFORM, private.private_bytes_raw(), _context(key_id, purpose, public))
        store.add(
            work, id=key_id, purpose=purpose, public=public, wrapped=wrapped.data, ring_version=wrapped.version, created=now
        )
        return Signer(key_id, private)

    def _remember(self, signer: Signer) -> Signer:
        with self._lock:
            if len(self._signers) >= CACHED_SIGNERS:
                self._signers.clear()
            return self._signers.setdefault(signer.key_id, signer)


def _context(key_id: str, purpose: str, public: bytes) -> bytes:
    """The public key is part of it: a row whose public key was replaced does not open."""
    return canonical(["keys_signing", key_id, purpose, public.hex()])
