"""A key ring in a hardware security module, through PKCS#11. Keys are made in the token and cannot leave it."""

import os
import re
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from falaj.base.clock import Clock, Moment
from falaj.keys.errors import KeyDestroyed, KeyNotFound, KeyRingLocked, TokenUnavailable, Unopenable
from falaj.keys.ring import KeyVersion, Wrapped, bound_context, check_key_name
from falaj.keys.sealing import NONCE_SIZE, TAG_SIZE

T = TypeVar("T")
LABEL = re.compile(r"falaj/([^/]+)/(\d+)")
TOMBSTONE = "falaj-destroyed/"
BROKEN = [
    "DeviceError",
    "DeviceRemoved",
    "GeneralError",
    "SessionClosed",
    "SessionHandleInvalid",
    "TokenNotPresent",
    "UserNotLoggedIn",
]
SHUT = ["NoSuchToken", "PinIncorrect", "PinLocked"]
# What tokens say of bytes that do not authenticate; they do not agree on one word for it, and SoftHSM says GeneralError.
REFUSED = ["EncryptedDataInvalid", "EncryptedDataLenRange", "DataInvalid", "DataLenRange", "FunctionFailed", "GeneralError"]


class Pkcs11KeyRing:
    """A `KeyRing` in a token. One session, used by one thread at a time; a broken one is opened again.

    The name and the version of a key are its label, the moment of its making its id. A destroyed name leaves an empty data
    object behind, so that no process makes it again.
    """

    def __init__(self, *, module: Path, token: str, pin: str, clock: Clock) -> None:
        self._pkcs11 = vendor = _pkcs11()
        self._broken, self._shut, self._refused = (
            tuple(getattr(vendor, name) for name in names) for names in (BROKEN, SHUT, REFUSED)
        )
        self._module = module
        self._token = token
        self._pin = pin
        self._clock = clock
        self._lock = threading.RLock()
        self._newest: dict[str, int] = {}
        self._session: Any = None
        self._asking(lambda session: None)

    def create(self, name: str) -> int:
        check_key_name(name)
        with self._lock:
            found = self._find(name)
            if not found:
                self._refuse_destroyed(name)
                return self._make(name, 1)
            return max(found)

    def wrap(self, name: str, plaintext: bytes, context: bytes) -> Wrapped:
        def encrypt(session: Any) -> Wrapped:
            version, key = self._newest_key(name)
            nonce = os.urandom(NONCE_SIZE)
            parameters = self._pkcs11.GCMParams(nonce, bound_context(name, version, context), 8 * TAG_SIZE)
            sealed = key.encrypt(plaintext, mechanism=self._pkcs11.Mechanism.AES_GCM, mechanism_param=parameters)
            return Wrapped(version=version, data=nonce + sealed)

        return self._asking(encrypt)

    def unwrap(self, name: str, wrapped: Wrapped, context: bytes) -> bytes:
        nonce, sealed = wrapped.data[:NONCE_SIZE], wrapped.data[NONCE_SIZE:]
        if len(sealed) < TAG_SIZE:
            raise Unopenable("A wrapped key is too short to be one; the record that holds it was changed.")
        parameters = self._pkcs11.GCMParams(nonce, bound_context(name, wrapped.version, context), 8 * TAG_SIZE)

        def decrypt(session: Any) -> bytes:
            # Two processes may have made the same version at the same moment: each of the keys with that label is tried.
            keys = self._version_keys(name, wrapped.version)
            for key in keys:
                try:
                    return bytes(key.decrypt(sealed, mechanism=self._pkcs11.Mechanism.AES_GCM, mechanism_param=parameters))
                except self._refused:
                    continue
            if not keys and self._known(name):
                raise KeyNotFound(f"The token has no version {wrapped.version} of the key {name!r}: it was destroyed.")
            raise Unopenable("A wrapped key does not open: it was changed, or belongs to something else.")

        return self._asking(decrypt)

    def rotate(self, name: str) -> int:
        with self._lock:
            return self._make(name, max(self._known(name)) + 1)

    def destroy(self, name: str, version: int | None = None) -> None:
        with self._lock:
            found = self._find(name)
            if not found:
                try:
                    self._known(name)
                except KeyDestroyed:
                    return
            if version is None or set(found) == {version}:
                self._bury(name)
            for number, keys in found.items():
                if version is None or number == version:
                    for key in keys:
                        self._asking(lambda session, key=key: key.destroy())  # type: ignore[misc]

    def versions(self, name: str) -> tuple[KeyVersion, ...]:
        found = self._find(name)
        return tuple(KeyVersion(version=number, created=_created(found[number][0])) for number in sorted(found))

    def names(self) -> tuple[str, ...]:
        def list_labels(session: Any) -> set[str]:
            keys = session.get_objects({self._pkcs11.Attribute.CLASS: self._pkcs11.ObjectClass.SECRET_KEY})
            return {match[1] for key in keys if (match := LABEL.fullmatch(key.label or ""))}

        return tuple(sorted(self._asking(list_labels)))

    def _find(self, name: str) -> dict[int, list[Any]]:
        def find(session: Any) -> dict[int, list[Any]]:
            # Tokens search by exact values only, so every key is looked at; `_newest` spares the common case that.
            found: dict[int, list[Any]] = {}
            for key in session.get_objects(
                {
                    self._pkcs11.Attribute.CLASS: self._pkcs11.ObjectClass.SECRET_KEY,
                    self._pkcs11.Attribute.KEY_TYPE: self._pkcs11.KeyType.AES,
                }
            ):
                match = LABEL.fullmatch(key.label or "")
                if match and match[1] == name:
                    found.setdefault(int(match[2]), []).append(key)
            return found

        return self._asking(find)

    def _version_keys(self, name: str, version: int) -> list[Any]:
        wanted = {
            self._pkcs11.Attribute.CLASS: self._pkcs11.ObjectClass.SECRET_KEY,
            self._pkcs11.Attribute.LABEL: f"falaj/{name}/{version}",
        }
        return self._asking(lambda session: list(session.get_objects(wanted)))

    def _newest_key(self, name: str) -> tuple[int, Any]:
        """The newest version as this process knows it; one that another process made since is found when this one is gone."""
        version = self._newest.get(name, 0)
        if not version or not (keys := self._version_keys(name, version)):
            found = self._known(name)
            self._newest[name] = version = max(found)
            keys = found[version]
        return version, keys[0]

    def _known(self, name: str) -> dict[int, list[Any]]:
        found = self._find(name)
        if not found:
            self._refuse_destroyed(name)
            raise KeyNotFound(f"The token has no key {name!r}.")
        return found

    def _make(self, name: str, version: int) -> int:
        template = {
            self._pkcs11.Attribute.TOKEN: True,
            self._pkcs11.Attribute.PRIVATE: True,
            self._pkcs11.Attribute.SENSITIVE: True,
            self._pkcs11.Attribute.EXTRACTABLE: False,
            self._pkcs11.Attribute.MODIFIABLE: False,
        }
        self._asking(
            lambda session: session.generate_key(
                self._pkcs11.KeyType.AES,
                256,
                id=struct.pack(">Q", self._clock.now()),
                label=f"falaj/{name}/{version}",
                capabilities=self._pkcs11.MechanismFlag.ENCRYPT | self._pkcs11.MechanismFlag.DECRYPT,
                template=template,
                store=True,
            )
        )
        self._newest[name] = version
        return version

    def _bury(self, name: str) -> None:
        attributes = {
            self._pkcs11.Attribute.CLASS: self._pkcs11.ObjectClass.DATA,
            self._pkcs11.Attribute.TOKEN: True,
            self._pkcs11.Attribute.LABEL: TOMBSTONE + name,
        }
        self._asking(lambda session: session.create_object({**attributes, self._pkcs11.Attribute.VALUE: b"destroyed"}))

    def _refuse_destroyed(self, name: str) -> None:
        grave = {self._pkcs11.Attribute.CLASS: self._pkcs11.ObjectClass.DATA, self._pkcs11.Attribute.LABEL: TOMBSTONE + name}
        if self._asking(lambda session: list(session.get_objects(grave))):
            raise KeyDestroyed(f"The key {name!r} was destroyed; what it sealed cannot be opened again.")

    def _asking(self, question: Callable[[Any], T]) -> T:
        with self._lock:
            try:
                if self._session is None:
                    self._session = self._open()
                return question(self._session)
            except self._broken as error:
                self._session = None
                reason = f"The token {self._token!r} does not answer ({type(error).__name__})."
                raise TokenUnavailable(reason, delay=2) from error
            except self._shut as error:
                reason = f"The token {self._token!r} cannot be opened ({type(error).__name__})."
                raise TokenUnavailable(reason, delay=30) from error

    def _open(self) -> Any:
        token = self._pkcs11.lib(str(self._module)).get_token(token_label=self._token)
        try:
            return token.open(rw=True, user_pin=self._pin)
        except self._pkcs11.UserAlreadyLoggedIn:  # a login is the whole process's, a session is not
            return token.open(rw=True)


def _pkcs11() -> Any:
    """The vendor's library, loaded when a ring needs it: it is an extra."""
    try:
        import pkcs11
    except ImportError:
        raise KeyRingLocked("A key ring in a hardware security module needs an extra: pip install falaj[hsm]") from None
    return pkcs11


def _created(key: Any) -> Moment:
    return Moment(struct.unpack(">Q", key.id)[0])
