"""Declaring zones. One that projects use stays where it is: their data is there."""

from collections.abc import Collection

from falaj.base.errors import Conflict, Invalid, NotFound
from falaj.base.pages import page_of, read_text_cursor
from falaj.base.values import Nothing
from falaj.database.binding import Bound, bind
from falaj.database.work import Context, UnitOfWork
from falaj.governance.projects.store import zone_is_listed
from falaj.governance.store import changed
from falaj.governance.zones import operations as ops
from falaj.governance.zones.countries import COUNTRIES
from falaj.governance.zones.store import Zone, add_zone, remove_zone, replace_zone, zone_named, zones_after


def required_zone(work: UnitOfWork, name: str) -> Zone:
    zone = zone_named(work, name)
    if zone is None:
        raise NotFound(f"There is no zone {name!r}; `falaj zone list` shows them.")
    return zone


def _view(zone: Zone) -> ops.ZoneView:
    return ops.ZoneView(
        name=zone.name,
        country=zone.country,
        jurisdictions=zone.jurisdictions,
        storage=zone.storage,
        engines=zone.engines,
        created=zone.created,
    )


class ZoneService:
    """`storages` are the names that the settings know."""

    def __init__(self, *, storages: Collection[str]) -> None:
        self._storages = frozenset(storages)

    def bindings(self) -> list[Bound]:
        return [
            bind(ops.CREATE_ZONE, self.create),
            bind(ops.LIST_ZONES, self.list),
            bind(ops.SHOW_ZONE, self.show),
            bind(ops.UPDATE_ZONE, self.update),
            bind(ops.DELETE_ZONE, self.delete),
        ]

    def create(self, context: Context, request: ops.CreateZone) -> ops.ZoneView:
        if zone_named(context.work, request.name) is not None:
            raise Conflict(f"There is a zone {request.name!r} already.")
        zone = Zone(
            name=request.name,
            country=request.country,
            jurisdictions=request.jurisdictions,
            storage=request.storage,
            engines=request.engines,
            created=context.now,
        )
        self._check(zone)
        add_zone(context.work, zone)
        return _view(zone)

    def list(self, context: Context, request: ops.ListZones) -> ops.Zones:
        found = zones_after(context.work, after=read_text_cursor(request.cursor), limit=request.limit + 1)
        page, following = page_of(found, request.limit, lambda zone: (zone.name,))
        return ops.Zones(items=tuple(_view(zone) for zone in page), next=following)

    def show(self, context: Context, request: ops.OneZone) -> ops.ZoneView:
        return _view(required_zone(context.work, request.zone))

    def update(self, context: Context, request: ops.UpdateZone) -> ops.ZoneView:
        changed(context.work)  # first, for the same reason as in `delete`
        old = required_zone(context.work, request.zone)
        new = Zone(
            name=old.name,
            country=old.country if request.country is None else request.country,
            jurisdictions=old.jurisdictions if request.jurisdictions is None else request.jurisdictions,
            storage=old.storage if request.storage is None else request.storage,
            engines=old.engines if request.engines is None else request.engines,
            created=old.created,
        )
        self._check(new)
        if (new.country, new.storage) != (old.country, old.storage) and zone_is_listed(context.work, old.name):
            raise Conflict(
                f"Projects use zone {old.name!r}, so it keeps its country and its storage; declare another zone instead."
            )
        replace_zone(context.work, new)
        return _view(new)

    def delete(self, context: Context, request: ops.OneZone) -> Nothing:
        changed(context.work)  # first: a project that lists the zone at the same moment waits for this, or this for it
        zone = required_zone(context.work, request.zone)
        if zone_is_listed(context.work, zone.name):
            raise Conflict(f"Projects use zone {zone.name!r}; take it out of their zones first.")
        remove_zone(context.work, zone.name)
        return Nothing()

    def _check(self, zone: Zone) -> None:
        if zone.country not in COUNTRIES:
            raise Invalid(f"{zone.country!r} is no country code of ISO 3166; write it like AE or DE.")
        if zone.storage not in self._storages:
            raise Invalid(f"There is no storage {zone.storage!r} in the settings; known: {', '.join(sorted(self._storages))}.")
