"""SQL of zones."""

import json
from collections.abc import Iterable
from typing import Any

from sqlalchemy import BigInteger, Column, Row, String, Table, Text, delete, insert, select, update

from falaj.base.clock import Moment
from falaj.base.values import value
from falaj.database.work import UnitOfWork, metadata
from falaj.governance.store import changed

zones = Table(
    "governance_zones",
    metadata,
    Column("name", String(100), primary_key=True),
    Column("country", String(2), nullable=False),
    Column("jurisdictions", Text, nullable=False),
    Column("storage", String(100), nullable=False),
    Column("engines", Text, nullable=False),
    Column("created", BigInteger, nullable=False),
)


@value
class Zone:
    name: str
    country: str
    jurisdictions: tuple[str, ...]
    storage: str
    engines: tuple[str, ...]
    created: Moment


def _zone(row: Row[Any]) -> Zone:
    return Zone(
        name=row.name,
        country=row.country,
        jurisdictions=tuple(json.loads(row.jurisdictions)),
        storage=row.storage,
        engines=tuple(json.loads(row.engines)),
        created=Moment(row.created),
    )


def zone_named(work: UnitOfWork, name: str) -> Zone | None:
    row = work.execute(select(zones).where(zones.c.name == name)).first()
    return None if row is None else _zone(row)


def zones_named(work: UnitOfWork, names: Iterable[str]) -> dict[str, Zone]:
    return {row.name: _zone(row) for row in work.execute(select(zones).where(zones.c.name.in_(sorted(set(names)))))}


def zones_after(work: UnitOfWork, *, after: str, limit: int) -> list[Zone]:
    return [_zone(row) for row in work.execute(select(zones).where(zones.c.name > after).order_by(zones.c.name).limit(limit))]


def _columns(zone: Zone) -> dict[str, Any]:
    return {
        "country": zone.country,
        "jurisdictions": json.dumps(zone.jurisdictions),
        "storage": zone.storage,
        "engines": json.dumps(zone.engines),
    }


def add_zone(work: UnitOfWork, zone: Zone) -> None:
    work.execute(insert(zones).values(name=zone.name, created=zone.created, **_columns(zone)))
    changed(work)


def replace_zone(work: UnitOfWork, zone: Zone) -> None:
    work.execute(update(zones).where(zones.c.name == zone.name).values(**_columns(zone)))
    changed(work)


def remove_zone(work: UnitOfWork, name: str) -> None:
    work.execute(delete(zones).where(zones.c.name == name))
    changed(work)
