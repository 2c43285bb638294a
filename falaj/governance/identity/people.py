"""People: adding, disabling, erasing. There is no password anywhere: a person signs in by code or by provider.

Inviting again somebody who was added before is with the sessions, which know the profile.
"""

from typing import Any

from falaj.base.errors import Conflict, NotFound
from falaj.base.pages import page_of, read_text_cursor
from falaj.database.binding import Bound, bind
from falaj.database.work import Context, UnitOfWork
from falaj.governance.identity import operations as ops
from falaj.governance.identity.names import check_name
from falaj.governance.identity.store import (
    NO_OWNER,
    Principal,
    add_principal,
    erase_principal,
    memberships_of,
    other_admin_exists,
    person_among,
    principal_by_id,
    principal_named,
    principals_after,
    revoke_all_tokens,
    set_disabled,
)
from falaj.governance.ledger.leaves import personal_texts
from falaj.governance.ledger.store import erase_salts
from falaj.governance.roles import PLATFORM, Role
from falaj.governance.sessions.codes import INVITATION_LIFE, make_code
from falaj.governance.sessions.store import forget_codes_of
from falaj.governance.store import changed
from falaj.governance.zones.service import required_zone

PERSON = "person"


def find_person(work: UnitOfWork, name_or_id: str) -> Principal:
    found = principal_named(work, name_or_id) or principal_by_id(work, name_or_id)
    if found is None or found.kind != PERSON:
        raise NotFound(f"There is no user {name_or_id!r}; `falaj user list` shows everybody.")
    return found


def person_meant(work: UnitOfWork, request: Any) -> str:
    """The id of the person a request names, whatever came of it: erasing the person must find what was refused as well."""
    return person_among(work, personal_texts(request))


def user_view(work: UnitOfWork, person: Principal) -> ops.User:
    return ops.User(
        id=person.id,
        name=person.name,
        display=person.display,
        email=person.email,
        signs_in_with=person.issuer,
        disabled=person.disabled,
        erased=person.erased,
        platform_roles=tuple(sorted({row.role for row in memberships_of(work, person.id) if row.scope == PLATFORM})),
        created=person.created,
    )


def invitation(context: Context, id: str, zone: str) -> ops.Invited:
    if zone:
        required_zone(context.work, zone)
    code, expires = make_code(context.work, principal=id, zone=zone, now=context.now, life=INVITATION_LIFE)
    return ops.Invited(id=id, code=code, expires=expires)


class UserService:
    def bindings(self) -> list[Bound]:
        return [
            bind(ops.CREATE_USER, self.create),
            bind(ops.LIST_USERS, self.list),
            bind(ops.SHOW_USER, self.show),
            bind(ops.DISABLE_USER, self.disable),
            bind(ops.ENABLE_USER, self.enable),
            bind(ops.ERASE_USER, self.erase),
        ]

    def create(self, context: Context, request: ops.CreateUser) -> ops.Invited:
        check_name(request.name)
        if principal_named(context.work, request.name) is not None:
            raise Conflict(f"There is a user named {request.name!r} already.")
        id = add_principal(
            context.work, kind=PERSON, name=request.name, display=request.display, email=request.email, now=context.now
        )
        context.facts["principal"] = id
        return invitation(context, id, request.zone)

    def list(self, context: Context, request: ops.ListUsers) -> ops.Users:
        after = read_text_cursor(request.cursor)
        found = principals_after(context.work, kind=PERSON, owner=NO_OWNER, after=after, limit=request.limit + 1)
        page, following = page_of(found, request.limit, lambda person: (person.id,))
        return ops.Users(items=tuple(user_view(context.work, person) for person in page), next=following)

    def show(self, context: Context, request: ops.OneUser) -> ops.User:
        return user_view(context.work, find_person(context.work, request.user))

    def disable(self, context: Context, request: ops.OneUser) -> ops.User:
        person = self._expendable(context, request.user)
        set_disabled(context.work, person.id, True)
        revoke_all_tokens(context.work, person.id, now=context.now)
        forget_codes_of(context.work, person.id)
        return user_view(context.work, find_person(context.work, person.id))

    def enable(self, context: Context, request: ops.OneUser) -> ops.User:
        person = find_person(context.work, request.user)
        context.facts["principal"] = person.id
        if person.erased:
            raise Conflict("An erased account cannot come back; create a new one.")
        set_disabled(context.work, person.id, False)
        return user_view(context.work, find_person(context.work, person.id))

    def erase(self, context: Context, request: ops.OneUser) -> ops.User:
        person = self._expendable(context, request.user)
        erase_principal(context.work, person.id, now=context.now)
        forget_codes_of(context.work, person.id)
        context.facts["salts"] = erase_salts(context.work, principal=person.id)
        return user_view(context.work, find_person(context.work, person.id))

    def _expendable(self, context: Context, name_or_id: str) -> Principal:
        """Without its last admin nobody could administer the platform any more."""
        changed(context.work)  # first: of two admins who disable each other, the second waits here and sees that it is the last
        person = find_person(context.work, name_or_id)
        context.facts["principal"] = person.id
        is_admin = any(row.scope == PLATFORM and row.role is Role.ADMIN for row in memberships_of(context.work, person.id))
        if is_admin and not other_admin_exists(context.work, PLATFORM, besides=person.id):
            raise Conflict("This is the last platform admin; give somebody else the role first.")
        return person
