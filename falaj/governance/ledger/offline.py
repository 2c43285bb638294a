"""Verifying an exported ledger with nothing but the file: what an auditor runs on a machine of his own."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from falaj.base.clock import Moment
from falaj.base.encoding import canonical
from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.governance.ledger.heads import Head, head_of
from falaj.governance.ledger.key_checks import check_exported_keys
from falaj.governance.ledger.reports import Findings, Found, Report
from falaj.governance.ledger.trees import Node
from falaj.governance.ledger.verification import verify
from falaj.keys.endorsements import Endorsement

FORMAT = "falaj-ledger-export/1"
BATCH = 500
LONGEST_LINE = 1 << 20


def verify_export(
    file: Path,
    *,
    keys: Mapping[str, bytes] | None = None,
    expected: Head | None = None,
) -> Report:
    """Verify an exported file with nothing but itself, the public keys and, better, a head that was kept.

    Keys that were made since are believed when they chain by endorsements to one of `keys`. Without `keys` those in the file
    are believed, which shows that the file is consistent, not who signed it.
    """
    findings = Findings()
    exported = ExportedLedger(file, findings)
    notes = [] if keys is not None else ["The public keys were taken from the file itself; compare them with ones you trust."]
    believed = check_exported_keys(exported.keys, exported.endorsements, keys, findings)
    return verify(exported, keys=believed, expected=expected, findings=findings, notes=notes)


@value
class ExportedLeaf:
    record: bytes
    columns: None = None


class ExportedLedger:
    """An exported file, as verification wants to see it. Read forwards, never held in memory."""

    has_inner_nodes = False

    def __init__(self, file: Path, findings: Findings) -> None:
        self._file = file
        self._findings = findings
        self._told: set[int] = set()
        self._leaves = self._lines()
        self._pending: tuple[int, dict[str, Any]] | None = None
        self._extent = 0
        _, header = next(self._leaves, (1, {}))
        if header.get("format") != FORMAT:
            raise Invalid(f"This file does not begin like an export of the ledger ({FORMAT}); export it in the format 'leaf'.")
        try:
            self.keys = {str(key): bytes.fromhex(public) for key, public in header["keys"].items()}
            self.endorsements = [_endorsement(document) for document in header["endorsements"]]
        except (KeyError, AttributeError, TypeError, ValueError) as error:
            raise Invalid("The first line of this export names no public keys with their endorsements.") from error

    def heads(self) -> Iterator[Head]:
        lines = self._lines()
        next(lines, None)
        for number, line in lines:
            if "index" in line:
                return
            try:
                yield head_of(line["head"])
            except (ValueError, TypeError, KeyError):
                self._damaged(number, "is not a head")

    def chunk(self, start: int, end: int) -> tuple[Mapping[int, ExportedLeaf], Mapping[Node, bytes]]:
        leaves: dict[int, ExportedLeaf] = {}
        hashes: dict[Node, bytes] = {}
        while (pending := self._pending or next(self._leaves, None)) is not None:
            self._pending = None
            number, line = pending
            if "head" in line:
                continue
            try:
                index, leaf, stored = line["index"], canonical(line["leaf"]), bytes.fromhex(line["hash"])
            except (KeyError, ValueError, TypeError):
                self._damaged(number, "is not a leaf")
                continue
            if type(index) is not int or index < start or index in leaves:
                self._damaged(number, "is out of order")
            elif index >= end:
                self._pending = pending
                break
            else:
                leaves[index] = ExportedLeaf(record=leaf)
                hashes[(0, index)] = stored
                self._extent = index + 1
        return leaves, {place: stored for place, stored in hashes.items() if stored}

    def extent(self) -> int:
        """Reads on to the end: leaves that no head covers come last."""
        while self._pending is not None:
            self.chunk(self._extent, self._pending[1]["index"] + BATCH)
        return self._extent

    def unsequenced(self) -> tuple[int, Moment | None]:
        return 0, None

    def _lines(self) -> Iterator[tuple[int, dict[str, Any]]]:
        with self._file.open("rb") as stream:
            number = 0
            while text := stream.readline(LONGEST_LINE):
                number += 1
                try:
                    line = json.loads(text)
                except (ValueError, RecursionError):
                    line = None
                if isinstance(line, dict):
                    yield number, line
                else:
                    self._damaged(number, "is not a JSON object")

    def _damaged(self, number: int, why: str) -> None:
        """Once a line, though heads are read several times."""
        if number not in self._told and len(self._told) < Findings.LARGEST:
            self._told.add(number)
            self._findings.add(Found.EXPORT_DAMAGED, f"Line {number} of the export {why}.")


def _endorsement(document: Mapping[str, Any]) -> Endorsement:
    endorsement = Endorsement(**document)
    if not all(type(text) is str for text in endorsement.document().values()):
        raise ValueError("not an endorsement: a field has the wrong type")
    return endorsement
