"""What hides a view's rows at rest: places are keyed hashes, rows are sealed with AES-256-GCM for their place alone.

- A place is 16 bytes for the view and 16 for the entity, both of HMAC-SHA256. Half of the hash is enough: nobody without the
  key can look for two entities with the same one, and by accident a thousand million entities share one in 10^20 cases.
- Nonces are random, as rows are overwritten for ever and counters would have to survive every crash. Random ones are safe for
  2^32 rows of one key, which a busy view writes within weeks: so the materialisations of each hour have a key of their own.
"""

import os
from collections.abc import Mapping
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.hmac import HMAC

from falaj.base.clock import HOUR
from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.datasets.online.errors import RowAltered
from falaj.datasets.online.stores import PLACE_BYTES, RANK_BYTES, VIEW_BYTES, Rank, pack_rank, unpack_rank
from falaj.keys.errors import KeyDestroyed
from falaj.keys.sealing import KEY_SIZE, NONCE_SIZE, TAG_SIZE, derive

_HEAD: Final = RANK_BYTES + 1  # the rank and the version of the key, in clear and authenticated
_OVERHEAD: Final = _HEAD + NONCE_SIZE + TAG_SIZE
_MOST_CIPHERS: Final = 4096


@value
class Secrets:
    """A project's keys: one that places are hashed with, and those that rows are sealed with, by version; the newest seals.
    A version may go once every view was materialised since and its older rows were dropped."""

    places: bytes
    rows: Mapping[int, bytes]

    def __post_init__(self) -> None:
        if not self.rows or any(not 0 <= version < 256 for version in self.rows):
            raise Invalid("Keys of rows have versions from 0 to 255, and there is one at least.")
        if any(len(key) != KEY_SIZE for key in (self.places, *self.rows.values())):
            raise Invalid(f"A key is {KEY_SIZE} bytes.")


@value
class ViewSecrets:
    """What opens the rows of one view of a project and of no other: its place, what its entities are hashed with, and what its
    rows are sealed with, by version."""

    place: bytes
    entities: bytes
    rows: Mapping[int, bytes]

    @classmethod
    def of(cls, secrets: Secrets, *, project: str, view: str) -> "ViewSecrets":
        named = b"%d:%s%s" % (len(project), project.encode(), view.encode())
        return cls(
            place=derive(secrets.places, b"falaj online 1 view:" + named)[:VIEW_BYTES],
            entities=derive(secrets.places, b"falaj online 1 entities:" + named),
            rows={version: derive(key, b"falaj online 1 rows:" + named) for version, key in secrets.rows.items()},
        )


class ViewKeys:
    """The keys of one view of one project, derived once. Thread-safe."""

    def __init__(self, secrets: Secrets | ViewSecrets, *, project: str, view: str) -> None:
        own = ViewSecrets.of(secrets, project=project, view=view) if isinstance(secrets, Secrets) else secrets
        self.view = own.place
        self._hash = HMAC(own.entities, SHA256())
        self._rows = own.rows
        self._newest = max(self._rows)
        self._name = view
        self._ciphers: dict[tuple[int, int], AESGCM] = {}

    def place(self, entity: bytes) -> bytes:
        hashing = self._hash.copy()
        hashing.update(entity)
        return self.view + hashing.finalize()[: PLACE_BYTES - VIEW_BYTES]

    def seal(self, place: bytes, rank: Rank, row: bytes) -> bytes:
        head = pack_rank(rank) + bytes((self._newest,))
        nonce = os.urandom(NONCE_SIZE)
        return head + nonce + self._cipher(self._newest, rank.of).encrypt(nonce, row, place + head)

    def open(self, place: bytes, sealed: bytes) -> tuple[Rank, bytes]:
        if len(sealed) < _OVERHEAD:
            raise self._altered(place)
        rank, head = unpack_rank(sealed), sealed[:_HEAD]
        cipher = self._cipher(sealed[RANK_BYTES], rank.of)
        try:
            return rank, cipher.decrypt(sealed[_HEAD : _HEAD + NONCE_SIZE], sealed[_HEAD + NONCE_SIZE :], place + head)
        except InvalidTag:
            raise self._altered(place) from None

    def _altered(self, place: bytes) -> RowAltered:
        return RowAltered(
            f"The row of an entity of view {self._name!r} was changed where it is stored (at {place.hex()}), or belongs to "
            "another entity or view: drop the view from the online store and materialise it again."
        )

    def _cipher(self, version: int, of: int) -> AESGCM:
        known = self._ciphers.get((version, of // HOUR))
        return known or self._new_cipher(version, of // HOUR)

    def _new_cipher(self, version: int, hour: int) -> AESGCM:
        if version not in self._rows:
            raise KeyDestroyed(
                f"A row of view {self._name!r} says that it is sealed with version {version} of its key, which is not there: "
                "drop the view from the online store and materialise it again."
            )
        if len(self._ciphers) >= _MOST_CIPHERS:
            self._ciphers.clear()
        cipher = AESGCM(derive(self._rows[version], b"hour:%d" % hour))
        self._ciphers[version, hour] = cipher
        return cipher
