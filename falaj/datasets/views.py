"""Rows as messages, and finding what a caller names: only ever within his project."""

from collections.abc import Iterable, Sequence

from falaj.base.clock import Moment
from falaj.base.errors import Conflict, NotFound
from falaj.database.work import Context, UnitOfWork
from falaj.datasets.external.pins import registered_of
from falaj.datasets.operations.datasets import Dataset, DatasetTag, External
from falaj.datasets.operations.derivations import Derivation, Input, Kind
from falaj.datasets.operations.versions import Finding, Version
from falaj.datasets.operations.words import CURRENT, QUARANTINED
from falaj.datasets.store import checks as check_store
from falaj.datasets.store import datasets as dataset_store
from falaj.datasets.store import derivations as derivation_store
from falaj.datasets.store import versions as version_store
from falaj.datasets.store import writes as write_store
from falaj.datasets.store.tables import Found
from falaj.operations.messages import adapter
from falaj.tables.schemas import Schema

LINEAGE_DIGITS = 32  # MLflow takes digests of at most 36 characters


def required_dataset(context: Context, name: str, *, hold: bool = False) -> Found:
    found = dataset_store.find(context.work, context.required_project.id, name, hold=hold)
    if found is None:
        raise NotFound(f"There is no dataset {name!r} here.")
    return found


def required_version(
    context: Context, dataset: Found, word: str, *, gone_too: bool = False, quarantined_too: bool = False
) -> Found:
    """By number, by tag, the current one, or the newest that is in quarantine. `gone_too`: even if its rows are not there any
    more; `quarantined_too`: even if it was not published."""
    if word == CURRENT:
        number = dataset.current
        missing = f"Dataset {dataset.name!r} has no version yet."
    elif word == QUARANTINED:
        number = version_store.newest_quarantined(context.work, dataset.id)
        missing = f"No version of {dataset.name!r} is in quarantine."
    elif word.isdigit():
        number = int(word) if len(word) < 19 else 0
        missing = f"Dataset {dataset.name!r} has no version {word}."
    else:
        number = dataset_store.tagged(context.work, dataset.id, word)
        missing = f"Dataset {dataset.name!r} has no tag {word!r}."
    if not number or (found := version_store.find(context.work, dataset.id, number)) is None:
        raise NotFound(missing)
    if found.pruned is not None and not gone_too:
        if found.line != version_store.PUBLISHED:
            raise NotFound(
                f"Version {number} of dataset {dataset.name!r} was in quarantine until {str(Moment(found.pruned))[:10]}: "
                "then it was released under another number, or dropped."
            )
        raise NotFound(
            f"Version {number} of dataset {dataset.name!r} was pruned on {str(Moment(found.pruned))[:10]}: its rows are gone."
        )
    if found.line != version_store.PUBLISHED and not quarantined_too and not gone_too:
        raise Conflict(
            f"Version {number} of dataset {dataset.name!r} is in quarantine, because it failed a check: "
            "look at it with a preview or a query, and release or drop it."
        )
    return found


def required_write(context: Context, dataset: Found, write: str, *, hold: bool = False) -> Found:
    found = write_store.find(context.work, dataset.id, write, hold=hold)
    if found is None:
        raise NotFound(f"Dataset {dataset.name!r} has no write {write}.")
    return found


def schema_of(row: Found) -> Schema:
    """Of a version or a part."""
    schema: Schema = adapter(Schema).validate_json(row.schema)
    return schema


def schema_text(schema: Schema) -> str:
    return adapter(Schema).dump_json(schema).decode()


def lineage_id(name: str, digest: str) -> str:
    """What lineage calls a version: as a run's input is called that names the dataset and the first digits of its digest."""
    return f"{name}@{digest[:LINEAGE_DIGITS]}"


def datasets_shown(work: UnitOfWork, rows: Sequence[Found]) -> tuple[Dataset, ...]:
    ids = [row.id for row in rows]
    counts, current = dataset_store.version_counts(work, ids), version_store.current_of(work, ids)
    tags: dict[str, list[DatasetTag]] = {}
    for row in dataset_store.tags_of(work, ids):
        tags.setdefault(row.dataset, []).append(DatasetTag(tag=row.tag, version=row.version))
    return tuple(
        Dataset(
            id=row.id,
            name=row.name,
            description=row.description,
            zone=row.zone,
            current=row.current,
            versions=counts.get(row.id, 0),
            rows=current[row.id].rows if row.id in current else 0,
            size=current[row.id].size if row.id in current else 0,
            tags=tuple(tags.get(row.id, ())),
            created=Moment(row.created),
            changed=Moment(row.changed),
            created_by=row.created_by,
            external=_external(row),
        )
        for row in rows
    )


def _external(row: Found) -> External | None:
    found = registered_of(row)
    return None if found is None else External(place=found.place, kind=found.kind, table=found.table)


def versions_shown(work: UnitOfWork, dataset: Found, rows: Iterable[Found]) -> tuple[Version, ...]:
    tags: dict[int, list[str]] = {}
    for tag in dataset_store.tags_of(work, [dataset.id]):
        tags.setdefault(tag.version, []).append(tag.tag)
    rows = list(rows)
    found = check_store.findings_of(work, [row.id for row in rows])
    made = derivation_store.of_versions(work, [row.id for row in rows])
    return tuple(
        Version(
            id=row.id,
            dataset=dataset.name,
            version=row.number,
            current=row.number == dataset.current,
            parent=row.parent,
            mode=row.mode,
            columns=schema_of(row).columns,
            rows=row.rows,
            parts=row.parts,
            size=row.size,
            digest=row.digest,
            lineage=lineage_id(dataset.name, row.digest),
            zone=row.zone,
            origin=row.origin,
            tags=tuple(tags.get(row.number, ())),
            created=Moment(row.created),
            created_by=row.created_by,
            pruned=Moment(row.pruned) if row.pruned is not None else None,
            quarantined=row.line != version_store.PUBLISHED,
            findings=adapter(tuple[Finding, ...]).validate_json(found[row.id].found) if row.id in found else (),
            derivation=derivation_of(made[row.id]) if row.id in made else None,
        )
        for row in rows
    )


def derivation_of(row: Found) -> Derivation:
    inputs = adapter(tuple[Input, ...]).validate_json(row.inputs)
    kind: Kind = adapter(Kind).validate_python(row.kind)
    return Derivation(kind=kind, code=row.code, digest=row.digest, inputs=inputs)


def inputs_text(derivation: Derivation) -> str:
    return adapter(tuple[Input, ...]).dump_json(derivation.inputs).decode()
