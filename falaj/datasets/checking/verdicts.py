"""What was found of a version that is about to be made: kept with it, the examples sealed."""

import json
from collections.abc import Collection, Sequence

from falaj.base.caller import ProjectFacts
from falaj.base.values import value
from falaj.database.work import Context
from falaj.datasets.checking.running import stops
from falaj.datasets.letting_go import EVIDENCE
from falaj.datasets.operations.checks import Outcome
from falaj.datasets.operations.versions import Finding, Version
from falaj.datasets.store import checks as store
from falaj.operations.messages import adapter
from falaj.storage.service import BlobService, Owner, Reader, Received


@value
class Verdict:
    """`of` is the version that was current, `rules` the checks that were declared: with others it does not count."""

    of: int
    rules: str
    outcomes: tuple[Outcome, ...]
    evidence: Received | None

    @property
    def broken(self) -> tuple[Finding, ...]:
        return tuple(one.finding for one in self.outcomes if one.broken)

    @property
    def stops(self) -> bool:
        return stops(self.outcomes)


class Verdicts:
    def __init__(self, blobs: BlobService) -> None:
        self._blobs = blobs

    def made(self, project: ProjectFacts, zone: str, of: int, rules: str, outcomes: tuple[Outcome, ...]) -> Verdict:
        """Where it stops a version, examples are stored, sealed. Opens no transaction."""
        evidence = None
        if stops(outcomes):
            text = adapter(tuple[Outcome, ...]).dump_json(tuple(one for one in outcomes if one.broken))
            evidence = self._blobs.receive(project, zone, iter([text]))
        return Verdict(of=of, rules=rules, outcomes=outcomes, evidence=evidence)

    def keep(self, context: Context, dataset: str, version: Version, verdict: Verdict) -> None:
        if not verdict.broken:
            return
        found = json.dumps([adapter(Finding).dump_python(one, mode="json") for one in verdict.broken], ensure_ascii=False)
        evidence = ""
        if verdict.evidence is not None:
            evidence = self._blobs.keep(context, verdict.evidence, Owner(kind=EVIDENCE, id=version.id)).id
        store.add_findings(context.work, version=version.id, dataset=dataset, found=found, evidence=evidence)
        context.facts["broken"] = [one.check for one in verdict.broken]

    def evidence(self, context: Context, blob: str) -> Reader:
        return self._blobs.open(context, blob)

    def decided(self, context: Context, version: str) -> None:
        """Somebody released or dropped it: the examples are shredded."""
        self._blobs.release(context, Owner(kind=EVIDENCE, id=version))
        store.decide(context.work, version, context.now)


def outcomes_of(reader: Reader) -> Sequence[Outcome]:
    found: tuple[Outcome, ...] = adapter(tuple[Outcome, ...]).validate_json(b"".join(reader.read()))
    return found


def without(outcomes: Sequence[Outcome], masked: Sequence[str], unseen: Collection[str] = ()) -> tuple[Outcome, ...]:
    """What was found, for somebody who may not see these columns. What a SELECT of its own calls them is not known: of such no
    row is shown, nor why it could not be run, which may name a value. Nor is either of the checks `unseen`, which read what
    else he may not see."""
    if not masked and not unseen:
        return tuple(outcomes)
    return tuple(_bare(one) if one.finding.check in unseen else _masked(one, masked) for one in outcomes)


def _masked(one: Outcome, masked: Sequence[str]) -> Outcome:
    if not masked:
        return one
    if one.finding.kind in ("sql", "fresh"):
        return _bare(one)
    hidden = [column.name in masked for column in one.columns]
    rows = (tuple(None if gone else cell for gone, cell in zip(hidden, row, strict=True)) for row in one.examples)
    return Outcome(finding=one.finding, broken=one.broken, columns=one.columns, examples=tuple(rows))


def _bare(one: Outcome) -> Outcome:
    return Outcome(finding=one.finding, broken=one.broken)
