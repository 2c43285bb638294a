"""Four ways to forge an exported ledger."""

import json
from typing import Any, Final

from falaj.cli.demo.stage import Unexpected

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
