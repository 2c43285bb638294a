"""Rows as messages, whole pages at a time: a fixed number of queries, however many rows."""

import json
from collections.abc import Iterable, Sequence

from falaj.base.clock import Moment
from falaj.base.errors import NotFound
from falaj.database.work import Context, UnitOfWork
from falaj.governance.identity.store import principals_with_ids
from falaj.registry import servable
from falaj.registry.operations.models import Alias, Model
from falaj.registry.operations.promotions import Person
from falaj.registry.operations.versions import Version
from falaj.registry.operations.words import ModelTag
from falaj.registry.store import models as model_store
from falaj.registry.store import versions as version_store
from falaj.registry.store.tables import Found


def required_model(context: Context, name: str, *, hold: bool = False) -> Found:
    found = model_store.find(context.work, context.required_project.id, name, hold=hold)
    if found is None:
        raise NotFound(f"There is no registered model {name!r} here.")
    return found


def required_version(context: Context, model: str, number: int) -> Found:
    found = version_store.find(context.work, context.required_project.id, model, number)
    if found is None:
        required_model(context, model)
        raise NotFound(f"Model {model!r} has no version {number}.")
    return found


def models_shown(work: UnitOfWork, rows: Sequence[Found]) -> tuple[Model, ...]:
    ids = [row.id for row in rows]
    tags, counts = model_store.tags_of(work, ids), model_store.version_counts(work, ids)
    aliases: dict[str, list[Alias]] = {}
    for row in model_store.aliases_of(work, ids):
        aliases.setdefault(row.model, []).append(Alias(alias=row.alias, version=row.version))
    newest = version_store.latest(work, ids)
    latest: dict[str, list[Version]] = {}
    for row, shown in zip(newest, versions_shown(work, newest), strict=True):
        latest.setdefault(row.model, []).append(shown)
    return tuple(
        Model(
            id=row.id,
            name=row.name,
            description=row.description,
            tags=_tags(tags.get(row.id, ())),
            aliases=tuple(aliases.get(row.id, ())),
            latest=tuple(latest.get(row.id, ())),
            versions=counts.get(row.id, 0),
            created=Moment(row.created),
            changed=Moment(row.changed),
            created_by=row.created_by,
        )
        for row in rows
    )


def model_shown(work: UnitOfWork, row: Found) -> Model:
    return models_shown(work, [row])[0]


def versions_shown(work: UnitOfWork, rows: Sequence[Found]) -> tuple[Version, ...]:
    """Rows that came with `model_name`."""
    tags = version_store.tags_of(work, [row.id for row in rows])
    aliases: dict[tuple[str, int], list[str]] = {}
    for row in model_store.aliases_of(work, sorted({row.model for row in rows})):
        aliases.setdefault((row.model, row.version), []).append(row.alias)
    return tuple(_version(row, aliases.get((row.model, row.number), ()), tags.get(row.id, ())) for row in rows)


def version_shown(work: UnitOfWork, row: Found) -> Version:
    return versions_shown(work, [row])[0]


def people(work: UnitOfWork, ids: Iterable[str]) -> dict[str, Person]:
    """Everybody by id; one who is not known any more goes by the id."""
    wanted = set(ids)
    known = principals_with_ids(work, wanted)
    return {id: Person(id=id, name=known[id].name if id in known else id) for id in wanted}


def is_convertible(row: Found) -> bool:
    return servable.is_convertible(servable=bool(row.servable), flavours=json.loads(row.flavors), files=row.files)


def _version(row: Found, aliases: Iterable[str], tags: Iterable[Found]) -> Version:
    return Version(
        id=row.id,
        model=row.model_name,
        version=row.number,
        description=row.description,
        stage=row.stage,
        aliases=tuple(aliases),
        tags=_tags(tags),
        source=row.source,
        holder=row.holder,
        folder=row.folder,
        logged_model=row.holder if row.holder.startswith("m-") else "",
        run=row.run,
        files=row.files,
        size=row.size,
        digest=row.digest,
        signed=bool(row.digest),
        servable=bool(row.servable),
        convertible=is_convertible(row),
        runtime=row.runtime,
        flavors=tuple(json.loads(row.flavors)),
        inputs=row.inputs,
        outputs=row.outputs,
        created=Moment(row.created),
        changed=Moment(row.changed),
        created_by=row.created_by,
    )


def _tags(rows: Iterable[Found]) -> tuple[ModelTag, ...]:
    return tuple(ModelTag(key=row.key, value=row.value) for row in rows)
