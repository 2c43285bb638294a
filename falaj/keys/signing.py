"""Ed25519 signing keys, one current per purpose. Retired ones go on verifying what they signed.

Each key but the first is endorsed by the one it replaces: who trusted that one can follow, and a planted key is found out.
"""

import threading
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from falaj.base.clock import Moment
from falaj.base.encoding import canonical
from falaj.base.errors import Conflict, NotFound
from falaj.base.ids import new_id
from falaj.database.work import UnitOfWork
from falaj.keys import store
from falaj.keys.endorsements import Endorsement, endorsed_bytes
from falaj.keys.ring import PLATFORM, KeyRing, Wrapped
from falaj.keys.signatures import PublicKey

CACHED_SIGNERS = 16


class Signer:
    """Signs with one private key. Thread-safe."""

    def __init__(self, key_id: str, private: Ed25519PrivateKey) -> None:
        self.key_id: Final = key_id
        self.public: Final = private.public_key().public_bytes_raw()
        self._private = private

    def sign(self, message: bytes) -> bytes:
        return self._private.sign(message)


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
        return tuple(_public_key(row) for row in store.of_purpose(work, purpose))

    def every(self, work: UnitOfWork) -> tuple[PublicKey, ...]:
        """Every key that ever signed for any purpose."""
        return tuple(_public_key(row) for row in store.every(work))

    def rotate(self, work: UnitOfWork, purpose: str, now: Moment) -> Signer:
        """The last thing the retiring key signs is its successor."""
        if store.current(work, purpose) is None:
            raise NotFound(f"There is no signing key for {purpose!r}; the purposes in use are listed by `falaj key list`.")
        retiring = self.current(work, purpose)
        if not store.retire(work, retiring.key_id, now):
            raise Conflict(f"The signing key for {purpose!r} was rotated by somebody else at this very moment.")
        return self._make(work, purpose, now, retiring=retiring)

    def _make(self, work: UnitOfWork, purpose: str, now: Moment, *, retiring: Signer | None = None) -> Signer:
        private, key_id = Ed25519PrivateKey.generate(), new_id(now)
        public = private.public_key().public_bytes_raw()
        wrapped = self._ring.wrap(PLATFORM, private.private_bytes_raw(), _context(key_id, purpose, public))
        store.add(
            work,
            id=key_id,
            purpose=purpose,
            public=public,
            wrapped=wrapped.data,
            ring_version=wrapped.version,
            created=now,
            endorsed_by=retiring.key_id if retiring else None,
            endorsement=retiring.sign(endorsed_bytes(purpose, key_id, public)) if retiring else None,
        )
        return Signer(key_id, private)

    def _remember(self, signer: Signer) -> Signer:
        with self._lock:
            if len(self._signers) >= CACHED_SIGNERS:
                self._signers.clear()
            return self._signers.setdefault(signer.key_id, signer)


def _public_key(row: Any) -> PublicKey:
    endorsement = None
    if row.endorsed_by is not None or row.endorsement is not None:
        endorsement = Endorsement(key=row.id, by=row.endorsed_by or "", signature=bytes(row.endorsement or b"").hex())
    return PublicKey(
        id=row.id,
        purpose=row.purpose,
        public=bytes(row.public),
        created=Moment(row.created),
        retired=None if row.retired is None else Moment(row.retired),
        endorsement=endorsement,
    )


def _context(key_id: str, purpose: str, public: bytes) -> bytes:
    """The public key is part of it: a row whose public key was replaced does not open."""
    return canonical(["keys_signing", key_id, purpose, public.hex()])
