"""The ring's document, as it lies on a disk: keys sealed under a master key, the master key sealed in slots.

A slot is one way to the master key: a secret file, a passphrase, or the recovery code. Where the document lies and who may
change it is the concern of `file`.
"""

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from falaj.base.clock import Moment
from falaj.base.encoding import canonical
from falaj.base.values import value
from falaj.keys.errors import KeyDestroyed, KeyNotFound, KeyRingLocked, Unopenable
from falaj.keys.ring import KeyVersion
from falaj.keys.sealing import derive, new_key, seal, unseal

FORMAT = 1
# The cost of a guess: 2^15 * 8 * 128 bytes = 32 MiB and about 0.1 s each.
SCRYPT_COST, SCRYPT_BLOCK, SCRYPT_MEMORY = 2**15, 8, 64 * 1024 * 1024
UNLOCK, RECOVERY = "unlock", "recovery"


@value
class Key:
    """One name in the ring. `latest` only grows, so that a version's number is never given twice."""

    latest: int
    versions: Mapping[int, tuple[Moment, bytes]]


@value
class Slot:
    kind: str  # secret: as strong as a key already; passphrase: stretched with scrypt
    salt: bytes
    sealed: bytes


@value
class Ring:
    """An opened ring. Changes make a new one."""

    id: str
    serial: int
    master: bytes
    slots: Mapping[str, Slot]
    keys: Mapping[str, Key]

    def __repr__(self) -> str:
        return f"<ring {self.id}, change {self.serial}>"

    def key(self, name: str) -> Key:
        if (key := self.keys.get(name)) is None:
            raise KeyNotFound(f"The key ring has no key {name!r}.")
        if not key.versions:
            raise KeyDestroyed(f"The key {name!r} was destroyed; what it sealed cannot be opened again.")
        return key

    def newest(self, name: str) -> tuple[int, bytes]:
        versions = self.key(name).versions
        version = max(versions)
        return version, versions[version][1]

    def version(self, name: str, version: int) -> bytes:
        if (found := self.key(name).versions.get(version)) is None:
            raise KeyNotFound(f"The key {name!r} has no version {version}: it was destroyed, or belongs to another ring.")
        return found[1]

    def described(self, name: str) -> tuple[KeyVersion, ...]:
        key = self.keys.get(name)
        return tuple(KeyVersion(version=v, created=key.versions[v][0]) for v in sorted(key.versions)) if key else ()

    def with_new_version(self, name: str, now: Moment) -> "Ring":
        old = self.keys.get(name, Key(latest=0, versions={}))
        return self._with(name, Key(latest=old.latest + 1, versions={**old.versions, old.latest + 1: (now, new_key())}))

    def without(self, name: str, version: int | None) -> "Ring":
        old = self.keys[name]
        kept = {} if version is None else {number: kept for number, kept in old.versions.items() if number != version}
        return self._with(name, Key(latest=old.latest, versions=kept))

    def with_slot(self, name: str, slot: Slot) -> "Ring":
        return replace(self, serial=self.serial + 1, slots=MappingProxyType({**self.slots, name: slot}))

    def _with(self, name: str, key: Key) -> "Ring":
        return replace(self, serial=self.serial + 1, keys=MappingProxyType({**self.keys, name: key}))


def make_slot(ring: str, name: str, master: bytes, *, secret: bytes = b"", passphrase: str = "") -> Slot:
    kind, salt = ("passphrase", new_key()) if passphrase else ("secret", new_key())
    key = _slot_key(kind, salt, secret, passphrase)
    return Slot(kind=kind, salt=salt, sealed=seal(key, master, _slot_context(ring, name)))


def write_ring(ring: Ring, *, slots: tuple[str, ...] = (UNLOCK, RECOVERY)) -> bytes:
    """The document, with these ways to open it."""
    keys = {name: _write_key(key) for name, key in ring.keys.items()}
    document = {
        "format": FORMAT,
        "ring": ring.id,
        "serial": ring.serial,
        "slots": {
            name: {"kind": slot.kind, "salt": _text(slot.salt), "sealed": _text(slot.sealed)}
            for name, slot in ring.slots.items()
            if name in slots
        },
        "sealed": _text(seal(ring.master, canonical(keys), _ring_context(ring.id, ring.serial))),
    }
    return json.dumps(document, indent=1).encode()


def read_ring(content: bytes, slot: str, *, secret: bytes = b"", passphrase: str = "") -> Ring:
    """Open the document by one of its slots. A wrong secret raises `KeyRingLocked`, changed content `Unopenable`."""
    document = _parse(content)
    try:
        slots = {name: _read_slot(found) for name, found in document["slots"].items()}
        ring, serial, sealed = str(document["ring"]), int(document["serial"]), _bytes(document["sealed"])
        way = slots[slot]
    except (KeyError, TypeError, ValueError, AttributeError, binascii.Error):
        raise Unopenable("The key ring's file is damaged; restore it from a copy or with the recovery kit.") from None
    try:
        master = unseal(_slot_key(way.kind, way.salt, secret, passphrase), way.sealed, _slot_context(ring, slot))
    except Unopenable:
        raise KeyRingLocked(f"The secret given does not open the key ring {ring}.") from None
    keys = json.loads(unseal(master, sealed, _ring_context(ring, serial)))
    return Ring(id=ring, serial=serial, master=master, slots=slots, keys={name: _read_key(key) for name, key in keys.items()})


def slot_kind(content: bytes, slot: str) -> str:
    try:
        return str(_parse(content)["slots"][slot]["kind"])
    except (KeyError, TypeError):
        return ""


def ring_state(content: bytes) -> tuple[str, int]:
    """Which ring a document is of, and after how many changes; told without opening it."""
    document = _parse(content)
    return str(document.get("ring")), int(document.get("serial", 0))


def _parse(content: bytes) -> dict[str, Any]:
    try:
        document = json.loads(content)
    except ValueError:
        document = None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise Unopenable("This is not a key ring of a format this version of Falaj knows.")
    return document


def _write_key(key: Key) -> dict[str, Any]:
    versions = {str(number): [made, _text(material)] for number, (made, material) in key.versions.items()}
    return {"latest": key.latest, "versions": versions}


def _read_key(key: dict[str, Any]) -> Key:
    versions = {int(v): (Moment(made), _bytes(material)) for v, (made, material) in key["versions"].items()}
    return Key(latest=int(key["latest"]), versions=versions)


def _read_slot(slot: dict[str, Any]) -> Slot:
    return Slot(kind=str(slot["kind"]), salt=_bytes(slot["salt"]), sealed=_bytes(slot["sealed"]))


def _slot_key(kind: str, salt: bytes, secret: bytes, passphrase: str) -> bytes:
    if kind == "passphrase":
        password = passphrase.encode()
        return hashlib.scrypt(password, salt=salt, n=SCRYPT_COST, r=SCRYPT_BLOCK, p=1, maxmem=SCRYPT_MEMORY, dklen=32)
    return derive(secret, b"falaj key ring slot" + salt)


def _slot_context(ring: str, name: str) -> bytes:
    return canonical(["falaj key ring slot", FORMAT, ring, name])


def _ring_context(ring: str, serial: int) -> bytes:
    return canonical(["falaj key ring", FORMAT, ring, serial])


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
