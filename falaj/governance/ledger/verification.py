"""Full verification: every leaf, node, head and copy against every other, streaming, with each damage found named.

Works on any `Source`: the database (`queries.StoredLedger`) or an exported file (`offline.ExportedLedger`).
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from falaj.governance.ledger.head_checks import HeadChecks
from falaj.governance.ledger.heads import Head
from falaj.governance.ledger.leaf_checks import LeafChecks
from falaj.governance.ledger.reports import Findings, Report
from falaj.governance.ledger.sources import Source


def verify(
    source: Source,
    *,
    keys: Mapping[str, bytes],
    copies: Sequence[Path] = (),
    expected: Head | None = None,
    findings: Findings | None = None,
    notes: Sequence[str] = (),
    arrived: Callable[[Head], bool] = lambda head: False,
) -> Report:
    """Hold everything against everything. `expected` is a head an auditor kept: the ledger must still begin with it.

    The source may be a snapshot while the sequencer goes on: `arrived` tells whether a head is in the database by now, so that
    a copy that is merely newer than the snapshot is not taken for a sign of a rollback.
    """
    findings = findings or Findings()
    heads = HeadChecks(keys, findings, arrived)
    heads.check_chain(source.heads())
    for file in copies:
        heads.check_copy(file, source.heads())
    if expected is not None:
        heads.check_expected(expected, source.heads())
    LeafChecks(source, heads, findings).check()
    count, oldest = source.unsequenced()
    return Report(
        ok=not findings.listed,
        leaves=source.extent(),
        heads=heads.count,
        copies=len(copies),
        head=heads.newest,
        unsequenced=count,
        oldest_unsequenced=oldest,
        notes=(*notes, *heads.notes),
        findings=tuple(findings.listed),
        omitted=findings.omitted,
    )
