"""The script that an auditor checks a proof with: it believes what was signed, and nothing else."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from falaj.cli.demo.ground import CHECK
from falaj.governance.ledger.trees import Frontier, inclusion_proof, leaf_hash

LEAVES = 11


def proven(index: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """A proof, and the keys as `falaj audit head` tells them."""
    tree, nodes, key = Frontier(), {}, Ed25519PrivateKey.generate()
    for leaf in range(LEAVES):
        nodes |= dict(tree.add(leaf_hash(b"leaf %d" % leaf)))
    head: dict[str, Any] = {"at": "2026-11-15T20:30:34Z", "key": "k", "previous": "", "root": tree.root().hex(), "size": LEAVES}
    signed = json.dumps(head, sort_keys=True, separators=(",", ":")).encode()
    head["signature"] = key.sign(b"falaj ledger head v1\x00" + signed).hex()
    path = inclusion_proof(index, LEAVES, lambda wanted: {node: nodes[node] for node in wanted})
    proof = {"index": index, "record": f"leaf {index}", "path": [one.hex() for one in path], "head": head}
    return proof, {"keys": {"k": key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw).hex()}}


def check(folder: Path, proof: dict[str, Any], kept: dict[str, Any]) -> "subprocess.CompletedProcess[str]":
    (folder / "head.json").write_text(json.dumps(kept))
    command = [sys.executable, "-I", str(CHECK), str(folder / "head.json")]
    return subprocess.run(command, input=json.dumps(proof), capture_output=True, text=True, check=False)


@pytest.mark.parametrize("index", [0, 4, LEAVES - 1])
def test_what_was_signed_is_believed(tmp_path: Path, index: int) -> None:
    proof, kept = proven(index)
    done = check(tmp_path, proof, kept)
    assert (done.returncode, done.stdout.partition(" root")[0]) == (0, f"leaf {index} is below"), done.stderr


def test_a_leaf_a_head_and_a_key_that_were_changed_are_not(tmp_path: Path) -> None:
    proof, kept = proven(4)
    head, (_, others) = proof["head"], proven(4)
    for changed, keys, why in (
        (proof | {"record": "leaf 5"}, kept, "The path does not lead from the leaf to the root."),
        (proof | {"path": proof["path"][:-1]}, kept, "The path does not lead from the leaf to the root."),
        (proof | {"head": head | {"at": "2026-11-16T00:00:00Z"}}, kept, "The root is not signed by a key of head.json."),
        (proof, others, "The root is not signed by a key of head.json."),
        (proof, {"keys": {}}, "The root is not signed by a key of head.json."),
    ):
        done = check(tmp_path, changed, keys)
        assert (done.returncode, done.stderr.strip()) == (1, why)
