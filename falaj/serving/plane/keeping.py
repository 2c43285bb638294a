"""The signed state as a plane has it: believed only under a key that chains to the pinned ones, and sealed on disk, for it
holds what callbacks are signed with."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import msgspec

from falaj.base.errors import Corrupt
from falaj.base.files import write_durably
from falaj.keys.endorsements import Endorsement
from falaj.keys.errors import Unopenable
from falaj.keys.sealing import seal, unseal
from falaj.keys.signatures import verify, vouched_for
from falaj.serving.operations.planes import Endorsed, SignedState
from falaj.serving.states import FORMAT, PURPOSE, State, decode

_CONTEXT: Final = b"plane state"


def verified(signed: SignedState, trusted: Mapping[str, bytes]) -> State:
    """`trusted` are the pinned keys by their id. Raises `Corrupt` for anything that was not signed under them."""
    offered, endorsements = {}, []
    for one in signed.endorsements:
        offered[one.key] = _from_hex(one.public)
        endorsements.append(Endorsement(key=one.key, by=one.by, signature=one.signature))
    keys = vouched_for(PURPOSE, trusted=trusted, offered=offered, endorsements=endorsements)
    body = signed.body.encode()
    if signed.key not in keys or not verify(keys[signed.key], _from_hex(signed.signature), body):
        raise Corrupt("The state that came is not signed by the platform this plane joined; it is not used.")
    try:
        state = decode(body)
    except msgspec.DecodeError as error:
        raise Corrupt(f"The state is of a kind this plane cannot read ({error}): bring both to the same version.") from error
    if state.format != FORMAT:
        raise Corrupt(f"The state is of format {state.format}, this plane reads {FORMAT}: bring both to the same version.")
    return state


class StateFile:
    """The last good state on disk, sealed under the plane's key."""

    def __init__(self, file: Path, trusted: Mapping[str, bytes], key: bytes) -> None:
        self._file = file
        self._trusted = trusted
        self._key = key

    def read(self) -> tuple[SignedState, State] | None:
        """None where there is none yet. Raises `Corrupt` where the file was changed."""
        if not self._file.exists():
            return None
        try:
            signed = _signed(json.loads(unseal(self._key, self._file.read_bytes(), _CONTEXT)))
        except (Unopenable, ValueError, TypeError, KeyError):
            raise Corrupt(f"{self._file} is not a state any more; the next one replaces it.") from None
        return signed, verified(signed, self._trusted)

    def write(self, signed: SignedState) -> None:
        write_durably(self._file, seal(self._key, json.dumps(asdict(signed)).encode(), _CONTEXT))


def _signed(document: Any) -> SignedState:
    endorsements = tuple(Endorsed(**one) for one in document.pop("endorsements"))
    return SignedState(**document, endorsements=endorsements)


def _from_hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""
