"""Evidence of gates: written down with its leaf or not at all, and what of it counts when a version is to be promoted.

What a gate is and how it judges is known to the room above. Here a definition is a digest, and evidence counts under the
present one.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, Final

from falaj.base.caller import Identity
from falaj.base.clock import Moment
from falaj.base.encoding import canonical
from falaj.base.ids import new_id
from falaj.base.pages import page_of, read_text_cursor
from falaj.base.values import value
from falaj.database.binding import Bound, bind
from falaj.database.work import Context, UnitOfWork
from falaj.governance.ledger import recording
from falaj.registry.operations import evidence as declared
from falaj.registry.operations.evidence import Evidence
from falaj.registry.operations.versions import OneVersion
from falaj.registry.store import evidence as store
from falaj.registry.store import models as model_store
from falaj.registry.store.tables import Found
from falaj.registry.views import people, required_version

RULE: Final = "gates.required"
LARGEST: Final = 65_536  # bytes of a document
_LONGEST: Final = 2000


@value
class Judgement:
    """What a gate concluded of a version. `definition` is the digest of what the gate was; `job` is empty where none was
    needed; `against` is the version that `against_alias` pointed at then, 0 where at none."""

    gate: str
    definition: str
    passed: bool
    words: str
    document: Mapping[str, Any]
    job: str = ""
    by: str
    against_alias: str = ""
    against: int = 0


@value
class Shown:
    """What a version has to show at the moment: the gates that it `passed`, and why it did not pass the others."""

    passed: tuple[str, ...] = ()
    missing: Mapping[str, str] = field(default_factory=dict)

    def told(self, names: Iterable[str]) -> str:
        """In sentences; a gate that nobody defined is missing as well."""
        because = {name: self.missing.get(name, "is not defined") for name in sorted(names)}
        return f"It lacks the gates that are needed: {'; '.join(f'{name} {why}' for name, why in because.items())}."


def put_down(
    work: UnitOfWork, *, project: str, version: Found, judgement: Judgement, identity: Identity | None, now: Moment
) -> str:
    """Evidence and its leaf, in the caller's transaction; the id of it. `project` is the project's name. A document that is too
    large is not cut: it is replaced by a word, and the gate has failed."""
    document = canonical(judgement.document)
    passed, words = judgement.passed, judgement.words[:_LONGEST]
    if len(document) > LARGEST:
        document = canonical({"problem": f"The figures took {len(document)} bytes, and {LARGEST} are the most."})
        passed, words = False, "Its figures were too many to be kept; look at fewer slices or groups."
    row = {
        "id": new_id(now),
        "project": version.project,
        "version": version.id,
        "gate": judgement.gate,
        "definition": judgement.definition,
        "passed": passed,
        "words": words,
        "document": document.decode(),
        "digest": hashlib.sha256(document).hexdigest(),
        "against_alias": judgement.against_alias,
        "against": judgement.against,
        "job": judgement.job,
        "by": judgement.by,
        "at": int(now),
    }
    store.add(work, row)
    told = ("gate", "definition", "passed", "words", "digest", "against", "job", "by")
    recording.append(
        work,
        operation=declared.JUDGE_VERSION,
        request=OneVersion(project=project, model=version.model_name, version=version.number),
        identity=identity,
        project=version.project,
        now=now,
        request_id="",
        facts={"evidence": row["id"], "version": version.id} | {name: row[name] for name in told},
    )
    return str(row["id"])


# What counts


def shown_by(work: UnitOfWork, version: Found) -> Shown:
    """Of each gate as it is defined now, the newest evidence. What was held against another than the alias points at by now, or
    at itself, says nothing any more."""
    defined = store.gates_of(work, version.project)
    newest = {row.gate: row for row in store.newest(work, version.id) if _is_current(row, defined)}
    passed, missing = list[str](), dict[str, str]()
    for name in defined:
        row = newest.get(name)
        if row is None:
            missing[name] = "was not run as it is defined now"
        elif not row.passed:
            missing[name] = f"was not passed ({row.words.rstrip('.')})"
        elif not _still_holds(work, version, row):
            missing[name] = f"was held against another version than {row.against_alias} is by now"
        else:
            passed.append(name)
    return Shown(passed=tuple(passed), missing=missing)


def once_shown_by(work: UnitOfWork, version: Found) -> Shown:
    """Of each gate the newest evidence there is, whatever it was defined as and whatever was in use then."""
    newest = {row.gate: row for row in store.newest(work, version.id)}
    return Shown(passed=tuple(sorted(name for name, row in newest.items() if row.passed)))


def nothing_to_show(work: UnitOfWork, project: str) -> Shown:
    """For what ends a use: no gate can be held against that."""
    return Shown(passed=tuple(store.gates_of(work, project)))


def _is_current(row: Found, defined: Mapping[str, Found]) -> bool:
    gate = defined.get(row.gate)
    return gate is not None and gate.digest == row.definition


def _still_holds(work: UnitOfWork, version: Found, row: Found) -> bool:
    if not row.against_alias:
        return True
    return model_store.aliased_version(work, version.model, row.against_alias) in (row.against, version.number)


class EvidenceService:
    def bindings(self) -> list[Bound]:
        return [bind(declared.READ_EVIDENCE, self.read)]

    def read(self, context: Context, request: declared.ReadEvidence) -> declared.EvidenceOf:
        version = required_version(context, request.model, request.version)
        before = read_text_cursor(request.cursor)
        found = store.page(context.work, version.id, request.gate, before, request.limit + 1)
        page, following = page_of(found, request.limit, lambda row: (row.id,))
        defined = store.gates_of(context.work, version.project)
        newest = {row.gate: row for row in store.newest(context.work, version.id) if _is_current(row, defined)}
        counting = {row.id for row in newest.values() if _still_holds(context.work, version, row)}
        persons = people(context.work, {row.by for row in page})
        items = tuple(
            Evidence(
                id=row.id,
                gate=row.gate,
                definition=row.definition,
                current=_is_current(row, defined),
                counts=row.id in counting,
                passed=bool(row.passed),
                words=row.words,
                document=row.document,
                digest=row.digest,
                against_alias=row.against_alias,
                against=row.against,
                job=row.job,
                by=persons[row.by],
                at=Moment(row.at),
            )
            for row in page
        )
        return declared.EvidenceOf(items=items, next=following)
