"""Where the key comes from that seals a job's checkpoints."""

import os
from collections.abc import Mapping
from typing import Final, Protocol

from falaj.training.checkpoints.errors import KeyMissing

KEY_SIZE: Final = 32
VARIABLE: Final = "FALAJ_CHECKPOINT_KEY"


class KeySource(Protocol):
    """Gives 32 secret bytes: the same ones at every try of a job, for another job others. May be asked more than once."""

    def key(self) -> bytes: ...


class GivenKey:
    """A key that the caller keeps: 32 random bytes, as `os.urandom(32)` makes them."""

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_SIZE:
            raise KeyMissing(f"A key of {len(key)} bytes was given to seal checkpoints with; it has to have {KEY_SIZE}.")
        self._key = key

    def key(self) -> bytes:
        return self._key


def key_from_environment(variables: Mapping[str, str] = os.environ) -> GivenKey:
    """The key that the platform gives to a job, as 64 hexadecimal digits."""
    text = variables.get(VARIABLE, "")
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != KEY_SIZE:
        found = "is not set" if not text else f"has {len(text)} characters that are no such key"
        raise KeyMissing(
            f"{VARIABLE} {found}; checkpoints are sealed with a key of 64 hexadecimal digits. Jobs are given one; elsewhere "
            "make one with `openssl rand -hex 32` and keep it, for nothing else opens them."
        )
    return GivenKey(key)
