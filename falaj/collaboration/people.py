"""Who is meant by a name, and what the ids of principals are called today.

Only members of the project are found: whether anybody else exists is not told.
"""

from collections.abc import Iterable

from falaj.base.errors import NotFound
from falaj.collaboration.operations.words import Person
from falaj.database.work import Context, UnitOfWork
from falaj.governance.identity.store import (
    Principal,
    memberships_of,
    principal_by_id,
    principal_named,
    principals_with_ids,
)


def find_member(context: Context, name_or_id: str) -> Principal | None:
    """A person, or a service account of this project, that holds a role in it."""
    work, project = context.work, context.required_project.id
    candidates = (
        principal_named(work, name_or_id),
        principal_named(work, name_or_id, owner=project),
        principal_by_id(work, name_or_id),
    )
    for found in candidates:
        if found is not None and not found.disabled and any(held.scope == project for held in memberships_of(work, found.id)):
            return found
    return None


def required_member(context: Context, name_or_id: str) -> Principal:
    if (found := find_member(context, name_or_id)) is None:
        raise NotFound(f"{name_or_id!r} is no member of this project; `falaj project member list` shows who is.")
    return found


def persons(work: UnitOfWork, ids: Iterable[str]) -> dict[str, Person]:
    """Everybody with these ids, as they are called today."""
    wanted = {id for id in ids if id}
    known = principals_with_ids(work, wanted) if wanted else {}
    return {id: _person(id, known.get(id)) for id in wanted}


def _person(id: str, principal: Principal | None) -> Person:
    if principal is None or principal.erased:
        return Person(id=id)
    return Person(id=id, name=principal.name, display=principal.display)
