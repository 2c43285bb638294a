"""Checking a proof takes no Falaj: RFC 9162, section 2.1.3.2, and one Ed25519 signature. And four ways to forge an exported
ledger.
"""

import hashlib
import json
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from falaj.cli.demo.stage import Unexpected


def merkle_root(proof: dict[str, Any]) -> str:
    """The root that follows from the leaf and the path."""
    position, last = proof["index"], proof["head"]["size"] - 1
    node = hashlib.sha256(b"\x00" + proof["record"].encode()).digest()
    for sibling in map(bytes.fromhex, proof["path"]):
        if position & 1 or position == last:
            node = hashlib.sha256(b"\x01" + sibling + node).digest()
            while not position & 1 and position:
                position, last = position >> 1, last >> 1
        else:
            node = hashlib.sha256(b"\x01" + node + sibling).digest()
        position, last = position >> 1, last >> 1
    return node.hex()


def check_signature(head: dict[str, Any], public: str) -> None:
    """Raises InvalidSignature for a head that this key did not sign."""
    signed = {name: head[name] for name in ("at", "key", "previous", "root", "size")}
    message = b"falaj ledger head v1\x00" + json.dumps(signed, sort_keys=True, separators=(",", ":")).encode()
    Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)).verify(bytes.fromhex(head["signature"]), message)


# Lines of an export are: the keys, then the signed heads, then the leaves in order.


def change(lines: list[str]) -> list[str]:
    """Let the refusal look as if it had been allowed."""
    at, entry = _refusal(lines)
    entry["leaf"]["outcome"] = "done"
    return [*lines[:at], json.dumps(entry) + "\n", *lines[at + 1 :]]


def remove(lines: list[str]) -> list[str]:
    at, _ = _refusal(lines)
    return [*lines[:at], *lines[at + 1 :]]


def reorder(lines: list[str]) -> list[str]:
    """Let the refusal come before what preceded it."""
    at, entry = _refusal(lines)
    before = json.loads(lines[at - 1])
    before["leaf"], entry["leaf"] = entry["leaf"], before["leaf"]
    return [*lines[: at - 1], json.dumps(before) + "\n", json.dumps(entry) + "\n", *lines[at + 1 :]]


def truncate(lines: list[str]) -> list[str]:
    """Cut the refusal and all that came after it off, and every head that would tell of it."""
    at, entry = _refusal(lines)
    heads = {number: json.loads(line)["head"]["size"] for number, line in enumerate(lines[:at]) if line.startswith('{"head"')}
    return [line for number, line in enumerate(lines[:at]) if heads.get(number, 0) <= entry["index"]]


FORGERIES: Final = (
    (change, "leaf-changed"),
    (remove, "leaf-removed"),
    (reorder, "leaves-reordered"),
    (truncate, "log-truncated"),
)


def _refusal(lines: list[str]) -> tuple[int, dict[str, Any]]:
    """What somebody might want to hide: the line of the last refusal, and its content."""
    for at in range(len(lines) - 1, -1, -1):
        entry = json.loads(lines[at])
        if entry.get("leaf", {}).get("outcome") == "refused":
            return at, entry
    raise Unexpected("The export has no refusal.")
