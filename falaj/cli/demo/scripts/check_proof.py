"""Checks a proof of the ledger with nothing of Falaj: RFC 9162, section 2.1.3.2, and one Ed25519 signature.

falaj audit head --json > head.json
falaj audit prove 4 --json | python check_proof.py head.json

`head.json` has the public keys: take it at a time and from a place that you trust.
"""

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


def root_of(proof: dict[str, Any]) -> str:
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


def is_signed(head: dict[str, Any], public: str) -> bool:
    signed = {name: head[name] for name in ("at", "key", "previous", "root", "size")}
    message = b"falaj ledger head v1\x00" + json.dumps(signed, sort_keys=True, separators=(",", ":")).encode()
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)).verify(bytes.fromhex(head["signature"]), message)
    except InvalidSignature:
        return False
    return True


def main() -> None:
    keys, proof = json.loads(Path(sys.argv[1]).read_text())["keys"], json.load(sys.stdin)
    head = proof["head"]
    if root_of(proof) != head["root"]:
        sys.exit("The path does not lead from the leaf to the root.")
    if head["key"] not in keys or not is_signed(head, keys[head["key"]]):
        sys.exit("The root is not signed by a key of head.json.")
    print(f"leaf {proof['index']} is below root {head['root']}, signed at {head['at']}")


if __name__ == "__main__":
    main()
