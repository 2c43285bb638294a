"""Making a version, in the transaction that makes it: numbered, with its parts in their places, linked to what it came from."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Final

from falaj.base.ids import new_id
from falaj.base.values import value
from falaj.database.work import Context
from falaj.datasets.external.pins import refuse_external
from falaj.datasets.operations.derivations import Derivation
from falaj.datasets.operations.versions import Version
from falaj.datasets.store import datasets as dataset_store
from falaj.datasets.store import derivations as derivation_store
from falaj.datasets.store import versions as store
from falaj.datasets.store.tables import Found
from falaj.datasets.views import inputs_text, lineage_id, schema_of, schema_text, versions_shown
from falaj.lineage.graph import Node, link
from falaj.tables.schemas import Schema

_ROWS_STAY: Final = ("pin", "restore", "rename", "release")  # modes that write no rows
_STRIDE: Final = 1 << 20  # positions between the first part of one version and that of the next


@value
class Placed:
    """A part in its place. `position` is that of the part it replaces; None puts it behind all others."""

    part: str
    position: int | None = None
    renamed: str = ""


@value
class Draft:
    """What shall become of the current version: which of its parts go (None: all of them), and which come. `derivation` is what
    the version is made of, where it is made of others."""

    mode: str
    schema: Schema
    removed: Sequence[str] | None
    added: Sequence[Placed]
    origin: str = ""
    derivation: Derivation | None = None


def publish(context: Context, dataset: Found, draft: Draft) -> Version:
    """Make the draft the current version of a dataset whose row is held."""
    _refuse_rows(dataset, draft)
    work, number, parent = context.work, dataset.last_version + 1, dataset.current
    before = store.find(work, dataset.id, parent) if parent else None
    if draft.removed is None:
        store.end_all_spans(work, dataset.id, number)
    else:
        store.end_spans(work, dataset.id, draft.removed, number)
    store.add_spans(work, [_span(dataset, number, index, placed) for index, placed in enumerate(draft.added)])
    store.publish_parts(work, [placed.part for placed in draft.added], context.now)
    _add_row(context, dataset, draft, number, store.PUBLISHED)
    dataset_store.change(work, dataset.id, last_version=number, current=number, changed=context.now)
    made, now_current = _made(context, dataset, number)
    _link(context, now_current, before, made)
    if draft.derivation is not None:
        link_inputs(context, now_current, draft.derivation, made)
    return versions_shown(work, now_current, [made])[0]


def quarantine(context: Context, dataset: Found, draft: Draft) -> Version:
    """Make the draft a version that nobody reads unless he asks for it by its number: on a line of its own. What is current
    stays."""
    _refuse_rows(dataset, draft)
    work, number = context.work, dataset.last_version + 1
    before = store.find(work, dataset.id, dataset.current) if dataset.current else None
    gone = set(draft.removed or ())
    stay = store.parts_of(work, before) if before is not None and draft.removed is not None else ()
    kept = [Placed(part=part.id, position=part.position, renamed=part.renamed) for part in stay if part.id not in gone]
    placed = [*kept, *draft.added]
    store.add_spans(work, [_span(dataset, number, index, one, line=number) for index, one in enumerate(placed)])
    _add_row(context, dataset, draft, number, number)
    dataset_store.change(work, dataset.id, last_version=number, changed=context.now)
    made, now = _made(context, dataset, number)
    context.facts["quarantined"] = True
    return versions_shown(work, now, [made])[0]


def _refuse_rows(dataset: Found, draft: Draft) -> None:
    if draft.mode not in _ROWS_STAY:
        refuse_external(dataset, "change its rows")


def digest_of(schema: str, parts: Sequence[Found]) -> str:
    """Over the columns, and the content of each part in its order."""
    seen = hashlib.sha256(f"falaj dataset version 1\n{schema}\n".encode())
    for part in parts:
        seen.update(f"{part.digest} {part.rows}\n".encode())
    return seen.hexdigest()


def renamed_text(part: Found, renames: Mapping[str, str]) -> str:
    """What the part's own columns are called once those of the version are renamed so; empty where they are called the same."""
    before = json.loads(part.renamed) if part.renamed else {}
    after = {own: renames.get(now, now) for own in schema_of(part).names for now in [before.get(own, own)]}
    differing = {own: now for own, now in after.items() if own != now}
    return json.dumps(differing, ensure_ascii=False) if differing else ""


def _add_row(context: Context, dataset: Found, draft: Draft, number: int, line: int) -> None:
    """Of a version whose spans are there."""
    parts, schema = store.parts_at(context.work, dataset.id, line, number), schema_text(draft.schema)
    row = {
        "id": new_id(context.now),
        "project": context.required_project.id,
        "dataset": dataset.id,
        "number": number,
        "line": line,
        "parent": dataset.current,
        "mode": draft.mode,
        "schema": schema,
        "rows": sum(part.rows for part in parts),
        "parts": len(parts),
        "size": sum(part.size for part in parts),
        "digest": digest_of(schema, parts),
        "zone": dataset.zone,
        "origin": draft.origin,
        "created": context.now,
        "created_by": context.identity.principal,
    }
    store.add(context.work, row)
    if (of := draft.derivation) is not None:
        shown = of.code[: derivation_store.LONGEST_CODE]
        derivation_store.add(
            context.work,
            version=str(row["id"]),
            dataset=dataset.id,
            digest=of.digest,
            kind=of.kind,
            code=shown,
            inputs=inputs_text(of),
        )


def _made(context: Context, dataset: Found, number: int) -> tuple[Found, Found]:
    """The version, and the dataset as it is now."""
    made = store.find(context.work, dataset.id, number)
    now = dataset_store.find(context.work, context.required_project.id, dataset.name)
    if made is None or now is None:
        raise RuntimeError("a version that was just made is not there")
    context.facts.update(dataset=dataset.id, version=made.id, number=number, digest=made.digest)
    return made, now


def _span(dataset: Found, number: int, index: int, placed: Placed, line: int = store.PUBLISHED) -> dict[str, object]:
    return {
        "dataset": dataset.id,
        "line": line,
        "since": number,
        "part": placed.part,
        "until": store.STANDING,
        "position": number * _STRIDE + index if placed.position is None else placed.position,
        "renamed": placed.renamed,
    }


def _link(context: Context, dataset: Found, before: Found | None, made: Found) -> None:
    """A version is known to lineage by its content; what was overwritten is nothing that it came from."""
    if before is None or made.mode in ("overwrite", "pin") or before.digest == made.digest:
        return
    link(
        context.work,
        project=context.required_project.id,
        source=Node(kind="dataset", id=lineage_id(dataset.name, before.digest), label=f"{dataset.name} v{before.number}"),
        target=Node(kind="dataset", id=lineage_id(dataset.name, made.digest), label=f"{dataset.name} v{made.number}"),
        relation=made.mode,
        now=context.now,
    )


def link_inputs(context: Context, dataset: Found, of: Derivation, made: Found) -> None:
    target = Node(kind="dataset", id=lineage_id(dataset.name, made.digest), label=f"{dataset.name} v{made.number}")
    for one in of.inputs:
        source = Node(kind="dataset", id=lineage_id(one.dataset, one.digest), label=f"{one.dataset} v{one.version}")
        if source.id != target.id:
            link(
                context.work,
                project=context.required_project.id,
                source=source,
                target=target,
                relation=one.relation,
                now=context.now,
            )
