"""Each project's key for signing its models: made on first use, kept wrapped under the project's key of the ring.

Shredding the project's key ends its signing for good; what was signed goes on being verified by the public keys.
"""

import logging

from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    EllipticCurvePrivateKey,
    EllipticCurvePublicKey,
    generate_private_key,
)
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_der_private_key,
    load_der_public_key,
)

from falaj.base.clock import Moment
from falaj.base.encoding import canonical
from falaj.base.errors import Conflict, Corrupt, NotFound
from falaj.base.ids import new_id
from falaj.database.binding import Bound, bind
from falaj.database.work import Context, UnitOfWork
from falaj.keys.errors import KeyDestroyed
from falaj.keys.ring import KeyRing, Wrapped, project_key
from falaj.registry.operations import keys as declared
from falaj.registry.signing import PublicKey, Signer, fingerprint, pem_of
from falaj.registry.store import signing_keys as store
from falaj.storage.store import hold_key

log = logging.getLogger(__name__)


class ProjectSigners:
    """The projects' signing keys. Thread-safe. Private keys are unwrapped for each use and remembered nowhere, so that a
    shredded one is gone."""

    def __init__(self, ring: KeyRing) -> None:
        self._ring = ring

    def prepare(self, work: UnitOfWork, project: str, now: Moment) -> Signer:
        """The signer of the project (by its id), made here where there is none: call it in a transaction that writes.
        Raises `KeyDestroyed` where the project's key was shredded."""
        self._hold(work, project)
        row = store.current(work, project)
        return self._opened(row) if row is not None else self._make(work, project, now)

    def public_keys(self, work: UnitOfWork, project: str) -> tuple[PublicKey, ...]:
        """Every key that ever signed for the project, oldest first."""
        return tuple(_public_key(row) for row in store.of_project(work, project))

    def rotate(self, work: UnitOfWork, project: str, now: Moment) -> None:
        """A new key signs from now on; the old one's private part is forgotten."""
        self._hold(work, project)
        store.retire(work, project, now)
        self._make(work, project, now)

    # What the rotation and the shredding of projects' keys ask of whoever keeps secrets under them

    def rewrap(self, work: UnitOfWork, project: str) -> None:
        """Wrap the private key under the newest version of the project's key, in the transaction that makes that version
        count: then none can be left under an older one."""
        row = store.current(work, project)
        if row is None or row.wrapped is None:
            return
        bound = _context(row.id, project, row.public)
        try:
            private = self._ring.unwrap(project_key(project), _wrapped(row), bound)
            new = self._ring.wrap(project_key(project), private, bound)
        except (Corrupt, Conflict, NotFound) as error:
            log.error("the signing key %s cannot be wrapped anew: %s", row.id, error)
            return
        store.rewrap(work, row.id, new.data, new.version)

    def forget(self, work: UnitOfWork, project: str, now: Moment) -> None:
        """The project is shredded: no private key of it is kept, not even wrapped."""
        store.retire(work, project, now)

    # Steps

    def _hold(self, work: UnitOfWork, project: str) -> None:
        """Neither shredding nor rotating comes in between until the transaction ends."""
        if hold_key(work, project).shredded is not None:
            raise KeyDestroyed("This project's key was destroyed; it cannot sign anything any more.")

    def _make(self, work: UnitOfWork, project: str, now: Moment) -> Signer:
        private, key_id = generate_private_key(SECP256R1()), new_id(now)
        public = private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        secret = private.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
        self._ring.create(project_key(project))
        wrapped = self._ring.wrap(project_key(project), secret, _context(key_id, project, public))
        if not store.add(
            work, id=key_id, project=project, public=public, wrapped=wrapped.data, ring_version=wrapped.version, created=now
        ):
            # Another transaction made one since we looked: then theirs is the one.
            if (theirs := store.current(work, project)) is None:
                raise Conflict("This project's signing key was changed at the same moment; try again.")
            return self._opened(theirs)
        return Signer(key_id, private)

    def _opened(self, row: store.Found) -> Signer:
        if row.wrapped is None:
            raise Corrupt(f"The signing key {row.id} has lost its private part; rotate it.")
        secret = self._ring.unwrap(project_key(row.project), _wrapped(row), _context(row.id, row.project, row.public))
        private = load_der_private_key(secret, password=None)
        if not isinstance(private, EllipticCurvePrivateKey):
            raise Corrupt(f"The signing key {row.id} is of a kind that signs no models.")
        return Signer(row.id, private)


class SigningKeyService:
    """The handlers."""

    def __init__(self, signers: ProjectSigners) -> None:
        self._signers = signers

    def bindings(self) -> list[Bound]:
        return [bind(declared.SIGNING_KEYS, self._show), bind(declared.ROTATE_SIGNING_KEY, self._rotate)]

    def _show(self, context: Context, _: declared.SigningKeysOf) -> declared.SigningKeys:
        keys = self._signers.public_keys(context.work, context.required_project.id)
        items = (declared.SigningKey(id=key.id, pem=key.pem, created=key.created, retired=key.retired) for key in keys)
        return declared.SigningKeys(items=tuple(items))

    def _rotate(self, context: Context, request: declared.SigningKeysOf) -> declared.SigningKeys:
        self._signers.rotate(context.work, context.required_project.id, context.now)
        keys = self._show(context, request)
        context.facts["signing_key"] = fingerprint(keys.items[-1].pem)
        return keys


def _public_key(row: store.Found) -> PublicKey:
    public = load_der_public_key(bytes(row.public))
    if not isinstance(public, EllipticCurvePublicKey):
        raise Corrupt(f"The signing key {row.id} is of a kind that signs no models.")
    retired = None if row.retired is None else Moment(row.retired)
    return PublicKey(id=row.id, pem=pem_of(public), created=Moment(row.created), retired=retired)


def _wrapped(row: store.Found) -> Wrapped:
    return Wrapped(version=row.ring_version, data=bytes(row.wrapped))


def _context(key_id: str, project: str, public: bytes) -> bytes:
    """The public key is part of it: a row whose public key was replaced does not open."""
    return canonical(["registry_signing_keys", key_id, project, bytes(public).hex()])
