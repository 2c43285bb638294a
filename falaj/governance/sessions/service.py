"""Signing in and out. A person is known by (issuer, subject); roles that come from groups are recomputed at each sign-in."""

import secrets
from collections.abc import Callable

from falaj.base.clock import DAY, Clock, Moment
from falaj.base.errors import Conflict, Forbidden, NotFound, Unauthenticated
from falaj.base.ids import PrincipalId
from falaj.base.values import Nothing
from falaj.database.binding import Bound, bind, bind_prepared
from falaj.database.work import Context, Database, UnitOfWork
from falaj.governance.gate import Gatekeeper, token_hash
from falaj.governance.identity.minting import Bounds, maker_of, mint
from falaj.governance.identity.operations import INVITE_USER, PROVIDERS, Invited, InviteUser, Provider, Providers
from falaj.governance.identity.people import find_person, invitation
from falaj.governance.identity.store import (
    add_principal,
    any_group_mapped,
    describe_principal,
    live_token_count,
    memberships_of,
    principal_by_id,
    principal_named,
    principal_with_subject,
    remove_tokens_expired_before,
    replace_group_roles,
    revoke_token,
    token_by_id,
)
from falaj.governance.profiles import Profile
from falaj.governance.roles import PLATFORM
from falaj.governance.sessions import operations as ops
from falaj.governance.sessions.codes import CODE_LIFE, make_code
from falaj.governance.sessions.oidc import OidcProvider, Person
from falaj.governance.sessions.store import (
    OidcState,
    add_oidc_state,
    forget_expired,
    oidc_state,
    take_code,
    take_oidc_state,
    use_id_token,
)

# How long the record of an expired token is kept for its owner to look at.
REMEMBER_TOKENS_FOR = 30 * DAY
_ROUND = 500


class SessionService:
    """`database` is read before the transaction, for what a sign-in under way needs while it talks to the provider."""

    def __init__(
        self, *, database: Database, gate: Gatekeeper, profile: Profile, clock: Clock, provider: OidcProvider | None
    ) -> None:
        self._database = database
        self._gate = gate
        self._profile = profile
        self._clock = clock
        self._provider = provider

    def bindings(self) -> list[Bound]:
        return [
            bind(PROVIDERS, self.providers),
            bind(INVITE_USER, self.invite),
            bind(ops.LINK_SESSION, self.link),
            bind(ops.OPEN_SESSION, self.open),
            bind(ops.CLOSE_SESSION, self.close),
            bind_prepared(ops.START_OIDC, self.prepare_start, self.start),
            bind_prepared(ops.FINISH_OIDC, self.redeem, self.finish),
            bind_prepared(ops.OIDC_TOKEN, self.verify, self.token),
        ]

    # One-time codes

    def link(self, context: Context, _request: Nothing) -> ops.Link:
        maker = maker_of(context)
        code, expires = make_code(
            context.work,
            principal=context.identity.principal,
            zone=maker.zone,
            now=context.now,
            life=CODE_LIFE,
            scopes=maker.scopes,
            projects=maker.projects,
            reach=maker.reach,
            parent=maker.id,
        )
        return ops.Link(code=code, expires=expires)

    def invite(self, context: Context, request: InviteUser) -> Invited:
        person = find_person(context.work, request.user)
        if person.disabled:
            raise Conflict(f"{request.user!r} is disabled; enable the account first.")
        if person.issuer:
            raise Conflict(f"{request.user!r} signs in through {person.issuer}; there is nothing to invite to.")
        # An admin who holds the code is that person. So it never happens unseen: whoever can still sign in is not invited.
        if live_token_count(context.work, person.id, context.now):
            raise Conflict(
                f"{request.user!r} has valid tokens and can sign in; disable and enable the account to replace them."
            )
        context.facts["principal"] = person.id
        self._refuse_entry(context, person.id)
        return invitation(context, person.id, request.zone)

    def _refuse_entry(self, context: Context, person: str) -> None:
        """Where platform admins stay out of projects, they may not become somebody who is in one either."""
        inside = any(row.scope != PLATFORM for row in memberships_of(context.work, person))
        if inside and not self._profile.admins_enter_projects:
            raise Forbidden(
                f"Under the profile {self._profile.name!r} nobody who has a role in a project is invited again, because the "
                "code lets its holder into that project; have the project's admin take the role away first.",
                rule="profile.invite",
            )

    def open(self, context: Context, request: ops.OpenSession) -> ops.Session:
        code = take_code(context.work, token_hash(request.code))
        if code is None or context.now >= code.expires or not self._still_stands(context, code.principal, code.parent):
            raise Unauthenticated("This sign-in code is unknown, used or expired; make a new one with `falaj console`.")
        return self._session(
            context,
            code.principal,
            label="console",
            zone=code.zone,
            scopes=code.scopes,
            projects=code.projects,
            reach=code.reach,
            parent=code.parent,
        )

    def _still_stands(self, context: Context, principal: str, parent: str | None) -> bool:
        """A code falls with the person and with the token it was made with."""
        found = principal_by_id(context.work, principal)
        if found is None or found.disabled:
            return False
        if parent is None:
            return True
        token = token_by_id(context.work, parent)
        return token is not None and token.revoked is None and context.now < token.expires

    def close(self, context: Context, _request: Nothing) -> Nothing:
        """Tokens made in this session stay. A pass is not the session: it was given away to do less than its token."""
        if context.identity.kind == "process":
            raise Forbidden("A short-lived token cannot end the token it came from; it ends by itself.", rule="token.process")
        if context.identity.token is not None:
            revoke_token(context.work, context.identity.token, now=context.now, descendants=False)
        return Nothing()

    def _session(
        self,
        context: Context,
        principal: str,
        *,
        label: str,
        zone: str,
        scopes: frozenset[str] = frozenset(),
        projects: frozenset[str] = frozenset(),
        reach: Moment | None = None,
        parent: str | None = None,
    ) -> ops.Session:
        longest = context.now + self._profile.session_life
        expires = Moment(longest if reach is None else min(longest, reach))
        bounds = Bounds(scopes=scopes, projects=projects, zone=zone, expires=expires, reach=reach)
        minted = mint(
            context.work, principal=principal, kind="session", label=label, bounds=bounds, parent=parent, now=context.now
        )
        context.facts.update(principal=principal, token=minted.id)
        return ops.Session(id=minted.id, token=minted.secret, expires=expires)

    # The identity provider

    def providers(self, _context: Context, _request: Nothing) -> Providers:
        if self._provider is None:
            return Providers(items=())
        settings = self._provider.settings
        return Providers(
            items=(Provider(issuer=settings.issuer, client_id=self._provider.cli_client_id, scopes=settings.scopes),)
        )

    def _required_provider(self) -> OidcProvider:
        if self._provider is None:
            raise NotFound("No identity provider is configured here; sign in with a one-time code.")
        return self._provider

    def prepare_start(self, context: Context, _request: Nothing) -> tuple[str, OidcState, str]:
        provider, state = self._required_provider(), secrets.token_urlsafe(32)
        kept = OidcState(
            verifier=secrets.token_urlsafe(48), nonce=secrets.token_urlsafe(32), expires=Moment(context.now + CODE_LIFE)
        )
        url = provider.authorisation_url(state=state, nonce=kept.nonce, verifier=kept.verifier, now=context.now)
        return state, kept, url

    def start(self, context: Context, _request: Nothing, prepared: tuple[str, OidcState, str]) -> ops.OidcStarted:
        state, kept, url = prepared
        add_oidc_state(context.work, token_hash(state), kept)
        return ops.OidcStarted(url=url, state=state, expires=kept.expires)

    def redeem(self, context: Context, request: ops.FinishOidc) -> Person:
        provider = self._required_provider()
        kept = self._database.read(lambda work: oidc_state(work, token_hash(request.state)))
        if kept is None or context.now >= kept.expires:
            raise _sign_in_expired()
        return provider.redeem(request.code, verifier=kept.verifier, nonce=kept.nonce, now=context.now)

    def finish(self, context: Context, request: ops.FinishOidc, person: Person) -> ops.Session:
        if not take_oidc_state(context.work, token_hash(request.state)):
            raise _sign_in_expired()
        return self._sign_in(context, person, label="console")

    def verify(self, context: Context, request: ops.OidcToken) -> Person:
        return self._required_provider().verify(request.id_token, nonce=request.nonce, now=context.now)

    def token(self, context: Context, _request: ops.OidcToken, person: Person) -> ops.Session:
        return self._sign_in(context, person, label="command line")

    def _sign_in(self, context: Context, person: Person, *, label: str) -> ops.Session:
        if not use_id_token(context.work, person.id_token_hash, person.id_token_expires):
            raise Unauthenticated("This id_token was used before; sign in again.")
        principal = self._admit(context.work, person, context.now)
        return self._session(context, principal, label=label, zone=self._required_provider().settings.zone)

    def _admit(self, work: UnitOfWork, person: Person, now: Moment) -> PrincipalId:
        """Known people come in, if only to find that they lost their roles; unknown ones where a group of theirs brings one."""
        known = principal_with_subject(work, person.issuer, person.subject)
        if known is not None and known.disabled:
            raise Forbidden("This account is disabled; ask an admin.", rule="identity.disabled")
        if known is None:
            if not any_group_mapped(work, person.groups):
                raise Forbidden("None of your groups has a role here; ask an admin to map one.", rule="identity.no-role")
            name = _free_name(person.login, lambda name: principal_named(work, name) is None)
            id = add_principal(
                work,
                kind="person",
                name=name,
                display=person.display,
                email=person.email,
                issuer=person.issuer,
                subject=person.subject,
                now=now,
            )
        else:
            id = known.id
            if (known.display, known.email) != (person.display, person.email):
                describe_principal(work, id, display=person.display, email=person.email)
        replace_group_roles(work, id, person.groups, now=now)
        return id

    # Upkeep

    def step(self) -> bool:
        """One round of forgetting what has expired and noting which tokens were used; True where more waits."""

        def forget(work: UnitOfWork) -> int:
            now = self._clock.now()
            self._gate.note_used_tokens(work, now)
            forget_expired(work, now)
            return remove_tokens_expired_before(work, Moment(now - REMEMBER_TOKENS_FOR), _ROUND)

        return self._database.write(forget) >= _ROUND


def _sign_in_expired() -> Unauthenticated:
    return Unauthenticated("This sign-in was not begun here, is finished or took longer than ten minutes; begin again.")


def _free_name(wished: str, is_free: Callable[[str], bool]) -> str:
    if is_free(wished):
        return wished
    return next(name for number in range(2, 1_000_000) if is_free(name := f"{wished}-{number}"))
