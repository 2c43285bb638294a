"""The first start: an owner, a zone, a project. There is no password: the owner gets a token."""

from typing import Final

from falaj.base.clock import Moment
from falaj.base.errors import Conflict
from falaj.base.ids import ProjectId, new_id
from falaj.base.values import value
from falaj.database.work import UnitOfWork
from falaj.governance.identity.minting import Bounds, mint
from falaj.governance.identity.store import add_membership, add_principal, people_count, principal_named
from falaj.governance.passes import Passes
from falaj.governance.profiles import Profile
from falaj.governance.projects.service import ProjectKeys
from falaj.governance.projects.store import add_project, project_named
from falaj.governance.roles import PLATFORM, Role
from falaj.governance.zones.store import Zone, add_zone, zone_named

OWNER: Final = "owner"
PROJECT: Final = "default"


@value
class FirstZone:
    name: str
    country: str
    storage: str
    jurisdictions: tuple[str, ...] = ()


def bootstrap(work: UnitOfWork, *, keys: ProjectKeys, passes: Passes, zone: FirstZone, now: Moment) -> bool:
    """Create what is missing; True where this was the first start."""
    passes.prepare(work, now)
    if people_count(work) > 0:
        return False
    owner = add_principal(work, kind="person", name=OWNER, now=now)
    add_membership(work, owner, PLATFORM, Role.ADMIN, now=now)
    if zone_named(work, zone.name) is None:
        add_zone(
            work,
            Zone(
                name=zone.name,
                country=zone.country,
                jurisdictions=zone.jurisdictions,
                storage=zone.storage,
                engines=(),
                created=now,
            ),
        )
    if project_named(work, PROJECT) is None:
        project = ProjectId(new_id(now))
        keys.create(project)
        add_project(work, id=project, name=PROJECT, description="The first project.", zones=(zone.name,), now=now)
        add_membership(work, owner, project, Role.ADMIN, now=now)
    return True


def owner_token(work: UnitOfWork, *, profile: Profile, zone: str, now: Moment) -> str:
    """A fresh token for the owner, for whoever holds the home: with the database and the keys, he is the owner.

    It declares the zone only where the profile asks for one, so that a single person may use several.
    """
    owner = principal_named(work, OWNER)
    if owner is None or owner.disabled:
        raise Conflict("The owner's account was renamed, erased or disabled; sign in as another admin.")
    expires = Moment(now + profile.token_life)
    place = zone if profile.zone_required else ""
    bounds = Bounds(scopes=frozenset(), projects=frozenset(), zone=place, expires=expires, reach=None)
    return mint(work, principal=owner.id, kind="api", label="owner", bounds=bounds, parent=None, now=now).secret
