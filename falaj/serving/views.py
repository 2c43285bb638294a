"""Rows as messages, whole pages at a time: a fixed number of queries, however many rows."""

import json
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from falaj.base.clock import SECOND, Moment
from falaj.base.errors import NotFound
from falaj.database.work import Context, UnitOfWork
from falaj.datasets.features.definitions import definition_of
from falaj.registry.operations.promotions import Person
from falaj.registry.views import people
from falaj.serving.operations.endpoints import Change, Endpoint, Options, Revision, Rung
from falaj.serving.operations.words import Steps
from falaj.serving.rungs import ladder_shown, remarks_on
from falaj.serving.splits import Arms, read_arms
from falaj.serving.store import endpoints as store
from falaj.serving.store import lookups as lookup_store
from falaj.serving.store import planes as plane_store
from falaj.serving.store import rungs as rung_store
from falaj.serving.store.tables import Found

HEARD_WITHIN: Final = 30 * SECOND
MOST_PROBLEMS: Final = 20


def required_endpoint(context: Context, name: str, *, hold: bool = False) -> Found:
    found = store.find(context.work, context.required_project.id, name, hold=hold)
    if found is None:
        raise NotFound(f"There is no endpoint {name!r} here; `falaj endpoint list` shows those there are.")
    return found


def read_options(text: str) -> Options:
    return msgspec.json.decode(text, type=Options)


def options_written(options: Options) -> str:
    return msgspec.json.encode(options).decode()


def read_steps(text: str) -> Steps:
    return msgspec.json.decode(text, type=Steps)


def revisions_shown(work: UnitOfWork, rows: Sequence[Found]) -> tuple[Revision, ...]:
    ids = [row.id for row in rows]
    named, looked = people(work, {row.created_by for row in rows}), lookup_store.of_revisions(work, ids)
    rungs = rung_store.of_revisions(work, ids)
    ladders = {row.id: ladder_shown(row, rungs.get(row.id, ())) for row in rows}
    return tuple(_revision(row, named[row.created_by], looked.get(row.id, ()), ladders[row.id]) for row in rows)


def changes_shown(work: UnitOfWork, rows: Sequence[Found]) -> tuple[Change, ...]:
    named = people(work, {row.by for row in rows if row.by})
    return tuple(
        Change(
            id=row.id,
            kind=row.kind,
            before=read_arms(row.before),
            arms=read_arms(row.arms),
            by=named.get(row.by),
            at=Moment(row.at),
            reason=row.reason,
        )
        for row in rows
    )


def endpoint_shown(work: UnitOfWork, row: Found, now: Moment) -> Endpoint:
    return endpoints_shown(work, [row], now)[0]


def endpoints_shown(work: UnitOfWork, rows: Sequence[Found], now: Moment) -> tuple[Endpoint, ...]:
    ids = [row.id for row in rows]
    used = store.used_revisions(work, ids)
    named = people(work, {revision.created_by for of_one in used.values() for revision in of_one})
    planes = plane_store.in_zones(work, {row.zone for row in rows}, heard_since=Moment(now - HEARD_WITHIN))
    instances = plane_store.instances_of(work, ids)
    revisions = [revision.id for of_one in used.values() for revision in of_one]
    looked, ladders = lookup_store.of_revisions(work, revisions), rung_store.of_revisions(work, revisions)
    return tuple(
        _endpoint(row, used.get(row.id, ()), named, looked, ladders, planes.get(row.zone, ()), instances.get(row.id, ()))
        for row in rows
    )


def _endpoint(
    row: Found,
    used: Sequence[Found],
    named: dict[str, Person],
    looked: dict[str, list[Found]],
    ladders: dict[str, list[Found]],
    planes: Sequence[Found],
    instances: Sequence[Found],
) -> Endpoint:
    arms, names = read_arms(row.arms), {plane.id: plane.name for plane in planes}
    ready = [plane for plane in planes if _is_ready(row, arms, plane, instances)]
    urls = tuple(plane.url for plane in ready if plane.url)
    certificates = tuple(dict.fromkeys(plane.certificate for plane in ready if plane.certificate))
    heard = [one for one in instances if one.plane in names]
    cold: dict[int, float] = {}
    for one in heard:
        cold[one.revision] = max(cold.get(one.revision, 0.0), one.cold_start_ms)
    return Endpoint(
        id=row.id,
        name=row.name,
        zone=row.zone,
        arms=arms,
        revisions=tuple(
            _revision(
                one,
                named[one.created_by],
                looked.get(one.id, ()),
                ladder_shown(one, ladders.get(one.id, ()), [told for told in heard if told.revision == one.number]),
                cold.get(one.number, 0.0),
            )
            for one in used
        ),
        back_to=row.back_to,
        steps=read_steps(row.steps),
        step=row.step,
        next_step=None if row.next_step is None else Moment(row.next_step),
        options=read_options(row.options),
        planes=len(planes),
        ready=len(ready),
        url=next(iter(urls), ""),
        urls=urls,
        certificates=certificates,
        problems=_problems(row, planes, heard, names),
        remarks=remarks_on(used, ladders, heard, names)[:MOST_PROBLEMS],
        created=Moment(row.created),
        changed=Moment(row.changed),
        serial=row.serial,
    )


def _is_ready(row: Found, arms: Arms, plane: Found, instances: Sequence[Found]) -> bool:
    if plane.serial < row.serial:
        return False
    ready = {one.revision for one in instances if one.plane == plane.id and one.ready}
    return bool(arms) and all(arm.revision in ready for arm in arms)


def _problems(row: Found, planes: Sequence[Found], heard: Sequence[Found], names: Mapping[str, str]) -> tuple[str, ...]:
    if not planes:
        return (f"No serving plane of zone {row.zone!r} has reported of late; start one there with `falaj serve`.",)
    told = [f"Plane {names[one.plane]!r}, revision {one.revision}: {one.problem}" for one in heard if one.problem]
    told += [f"Plane {plane.name!r}: {problem}" for plane in planes for problem in json.loads(plane.problems)]
    return tuple(told[:MOST_PROBLEMS])


def _revision(
    row: Found, by: Person, looked: Sequence[Found], ladder: tuple[Rung, ...], cold_start_ms: float = 0.0
) -> Revision:
    return Revision(
        id=row.id,
        number=row.number,
        model=row.model_name,
        version=row.version,
        version_id=row.version_id,
        runtime=row.runtime,
        size=row.size,
        digest=row.digest,
        converted=row.converted,
        created=Moment(row.created),
        created_by=by,
        quarantined=row.quarantined,
        cold_start_ms=cold_start_ms,
        features=tuple(f"{one.name}@{one.version}:{feature}" for one in looked for feature in json.loads(one.features)),
        keys=tuple(dict.fromkeys(key.in_labels for one in looked for key in definition_of(one).keys)),
        variant=row.variant,
        certificate=row.certificate,
        ladder=ladder,
    )
