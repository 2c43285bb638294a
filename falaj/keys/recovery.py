"""The recovery kit: a code that a person can keep on paper, and the words that tell what to do with it."""

import base64
import binascii
import hashlib
import secrets
from pathlib import Path

from falaj.keys.errors import RecoveryCodeWrong

SECRET_SIZE = 32
CHECK_SIZE = 3
GROUP = 4
PREFIX = "FALAJ1"

KIT = """\
Falaj recovery kit
==================

Ring:  {ring}
Made:  {made}

Recovery code:

    {code}

Keep this sheet where you keep contracts: on paper or in a password safe, not on the machine it
belongs to. Whoever holds this code and a copy of the platform's home can read everything in it.
Without it, a lost key directory means that the data is lost too; nobody can make a new code.

If the key directory is ever lost, put this sheet into a file and say

    falaj key recover --kit FILE

on a machine that has the platform's home (restored from a backup, if need be).
Then start the platform again. When this sheet is in a safe place, delete this file.
"""


def new_secret() -> bytes:
    return secrets.token_bytes(SECRET_SIZE)


def write_code(secret: bytes) -> str:
    """256 bits and a checksum in base32 groups of four, so that one wrong letter is noticed before anything is tried."""
    text = base64.b32encode(secret + _check(secret)).decode()
    return "-".join([PREFIX, *(text[at : at + GROUP] for at in range(0, len(text), GROUP))])


def read_code(code: str) -> bytes:
    """The secret in a code as a person typed it: case, spaces and the look-alikes 0, 1 and 8 are forgiven."""
    letters = "".join(code.upper().split()).replace("-", "").removeprefix(PREFIX)
    try:
        raw = base64.b32decode(letters.translate(str.maketrans("018", "OIB")))
    except (binascii.Error, ValueError):
        raw = b""
    secret = raw[:SECRET_SIZE]
    if len(raw) != SECRET_SIZE + CHECK_SIZE or raw[SECRET_SIZE:] != _check(secret):
        raise RecoveryCodeWrong(
            "This is no recovery code, or a letter of it is wrong; compare it with the sheet, group by group."
        )
    return secret


def read_kit(kit: Path) -> str:
    """The code on a kit's sheet; a file that holds nothing but the code is a kit too."""
    lines = [line.strip() for line in kit.read_text(encoding="utf-8", errors="replace").splitlines()]
    found = [line for line in lines if line.upper().startswith(PREFIX)]
    if len(found) != 1:
        raise RecoveryCodeWrong(f"{kit} has {len(found)} lines that start with {PREFIX}; a recovery kit has one.")
    return found[0]


def write_kit(*, ring: str, made: str, code: str) -> str:
    return KIT.format(ring=ring, made=made, code=code)


def _check(secret: bytes) -> bytes:
    return hashlib.sha256(b"falaj recovery code" + secret).digest()[:CHECK_SIZE]
