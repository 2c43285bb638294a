"""One's own tokens, and who one is."""

from falaj.base.clock import SECOND, Moment
from falaj.base.errors import Forbidden, NotFound
from falaj.base.pages import page_of, read_text_cursor
from falaj.base.values import Nothing
from falaj.database.binding import Bound, bind
from falaj.database.work import Context
from falaj.governance.gate import Gatekeeper, no_such_project, sees
from falaj.governance.identity import operations as ops
from falaj.governance.identity.minting import Wish, bounded, life_of, maker_of, mint
from falaj.governance.identity.store import (
    StoredToken,
    memberships_of,
    principal_by_id,
    revoke_token,
    token_by_id,
    tokens_after,
)
from falaj.governance.passes import Claims, Passes
from falaj.governance.profiles import Profile
from falaj.governance.projects.store import project_names
from falaj.governance.roles import PLATFORM
from falaj.governance.zones.service import required_zone


def token_view(token: StoredToken) -> ops.Token:
    return ops.Token(
        id=token.id,
        kind=token.kind,
        label=token.label,
        scopes=tuple(sorted(token.scopes)),
        projects=tuple(sorted(token.projects)),
        zone=token.zone,
        created=token.created,
        expires=token.expires,
        revoked=token.revoked,
        last_used=token.last_used,
    )


def token_page(context: Context, principal: str, *, limit: int, cursor: str) -> ops.Tokens:
    found = tokens_after(context.work, principal, after=read_text_cursor(cursor), limit=limit + 1)
    page, following = page_of(found, limit, lambda token: (token.id,))
    return ops.Tokens(items=tuple(token_view(token) for token in page), next=following)


class TokenService:
    def __init__(self, *, gate: Gatekeeper, profile: Profile, passes: Passes) -> None:
        self._gate = gate
        self._profile = profile
        self._passes = passes

    def bindings(self) -> list[Bound]:
        return [
            bind(ops.CREATE_TOKEN, self.create),
            bind(ops.LIST_TOKENS, self.list),
            bind(ops.REVOKE_TOKEN, self.revoke),
            bind(ops.EXCHANGE_TOKEN, self.exchange),
            bind(ops.WHOAMI, self.whoami),
        ]

    def create(self, context: Context, request: ops.CreateToken) -> ops.NewToken:
        self._check_places(context, request.projects, request.zone)
        maker = maker_of(context)
        wish = Wish(scopes=request.scopes, projects=request.projects, zone=request.zone, life=life_of(request.days))
        bounds = bounded(
            context.identity,
            maker,
            wish,
            longest=self._profile.token_life,
            permissions=self._gate.cedar.permissions,
            now=context.now,
        )
        minted = mint(
            context.work,
            principal=context.identity.principal,
            kind="api",
            label=request.label,
            bounds=bounds,
            parent=maker.id,
            now=context.now,
        )
        context.facts["token"] = minted.id
        return ops.NewToken(id=minted.id, token=minted.secret, expires=bounds.expires, zone=bounds.zone)

    def _check_places(self, context: Context, projects: tuple[str, ...], zone: str) -> None:
        """A token may name only what its holder may know of."""
        generation = self._gate.generation(context.work)
        standing = self._gate.standing(context.work, generation, context.identity.principal)
        for name in projects:
            project = self._gate.project(context.work, generation, name)
            if project is None or standing is None or not sees(standing, project):
                raise no_such_project(name)
        if zone:
            required_zone(context.work, zone)

    def list(self, context: Context, request: ops.ListTokens) -> ops.Tokens:
        return token_page(context, context.identity.principal, limit=request.limit, cursor=request.cursor)

    def revoke(self, context: Context, request: ops.RevokeToken) -> Nothing:
        token = token_by_id(context.work, request.token)
        if token is None or token.principal != context.identity.principal:
            raise NotFound(f"You have no token {request.token}; `falaj token list` shows yours.")
        revoke_token(context.work, token.id, now=context.now, descendants=request.descendants)
        return Nothing()

    def exchange(self, context: Context, request: ops.ExchangeToken) -> ops.Pass:
        self._check_places(context, request.projects, request.zone)
        maker = maker_of(context)
        wish = Wish(scopes=request.scopes, projects=request.projects, zone=request.zone, life=request.seconds * SECOND)
        bounds = bounded(
            context.identity,
            maker,
            wish,
            longest=min(self._profile.pass_life, maker.expires - context.now),
            permissions=self._gate.cedar.permissions,
            now=context.now,
        )
        claims = Claims(
            principal=context.identity.principal,
            token=maker.id,
            scopes=bounds.scopes,
            projects=bounds.projects,
            zone=bounds.zone,
            not_before=context.now,
            expires=bounds.expires,
        )
        return ops.Pass(
            token=self._passes.issue(context.work, claims, context.now), expires=Moment(bounds.expires // SECOND * SECOND)
        )

    def whoami(self, context: Context, _request: Nothing) -> ops.Me:
        identity = context.identity
        principal = principal_by_id(context.work, identity.principal)
        if principal is None:
            raise Forbidden("Nobody is calling.", rule="identity.required")
        held = memberships_of(context.work, principal.id)
        names = project_names(context.work, (row.scope for row in held if row.scope != PLATFORM))
        reached = {(names[row.scope], row.role) for row in held if row.scope in names}
        token = None if identity.token is None else token_by_id(context.work, identity.token)
        return ops.Me(
            id=principal.id,
            kind=identity.kind,
            name=principal.name,
            display=principal.display,
            platform_roles=tuple(sorted({row.role for row in held if row.scope == PLATFORM})),
            roles=tuple(
                ops.ProjectRole(project=name, role=role)
                for name, role in sorted(reached)
                if not identity.projects or name in identity.projects
            ),
            scopes=tuple(sorted(identity.scopes)),
            projects=tuple(sorted(identity.projects)),
            zone=identity.zone,
            until=None if token is None else token.expires,
        )
