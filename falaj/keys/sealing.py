"""Sealing small secrets: AES-256-GCM with a random nonce in front. Large data is sealed in `storage.sealed`."""

import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from falaj.keys.errors import Unopenable

KEY_SIZE = 32
NONCE_SIZE = 12
TAG_SIZE = 16


def new_key() -> bytes:
    return os.urandom(KEY_SIZE)


def seal(key: bytes, plaintext: bytes, context: bytes) -> bytes:
    nonce = os.urandom(NONCE_SIZE)
    return nonce + AESGCM(key).encrypt(nonce, plaintext, context)


def unseal(key: bytes, sealed: bytes, context: bytes) -> bytes:
    if len(sealed) < NONCE_SIZE + TAG_SIZE:
        raise Unopenable("A wrapped key is too short to be one; the record that holds it was changed.")
    try:
        return AESGCM(key).decrypt(sealed[:NONCE_SIZE], sealed[NONCE_SIZE:], context)
    except InvalidTag:
        raise Unopenable("A wrapped key does not open: it was changed, or belongs to something else.") from None


def derive(secret: bytes, purpose: bytes) -> bytes:
    """A key of its own for each purpose, from a secret that is already as strong as a key."""
    return HKDF(algorithm=SHA256(), length=KEY_SIZE, salt=None, info=purpose).derive(secret)
