"""Service accounts: owned by a project, administered by its admins, reaching that project alone."""

from falaj.base.errors import Conflict, NotFound
from falaj.base.pages import page_of, read_text_cursor
from falaj.base.values import Nothing
from falaj.database.binding import Bound, bind
from falaj.database.work import Context
from falaj.governance.gate import Gatekeeper
from falaj.governance.identity import operations as ops
from falaj.governance.identity.minting import Wish, bounded, life_of, maker_of, mint
from falaj.governance.identity.names import check_name
from falaj.governance.identity.store import (
    Principal,
    add_membership,
    add_principal,
    memberships_of,
    principal_named,
    principals_after,
    revoke_all_tokens,
    revoke_token,
    set_disabled,
    token_by_id,
)
from falaj.governance.identity.tokens import token_page
from falaj.governance.profiles import Profile

SERVICE = "service"


def _find(context: Context, name: str) -> Principal:
    project = context.required_project
    found = principal_named(context.work, name, owner=project.id)
    if found is None:
        raise NotFound(f"Project {project.name!r} has no service account {name!r}.")
    return found


def _view(context: Context, account: Principal) -> ops.Service:
    project = context.required_project
    held = {row.role for row in memberships_of(context.work, account.id) if row.scope == project.id}
    return ops.Service(
        id=account.id,
        name=account.name,
        description=account.display,
        disabled=account.disabled,
        roles=tuple(sorted(held)),
        created=account.created,
    )


class ServiceAccounts:
    def __init__(self, *, gate: Gatekeeper, profile: Profile) -> None:
        self._gate = gate
        self._profile = profile

    def bindings(self) -> list[Bound]:
        return [
            bind(ops.CREATE_SERVICE, self.create),
            bind(ops.LIST_SERVICES, self.list),
            bind(ops.SHOW_SERVICE, self.show),
            bind(ops.DISABLE_SERVICE, self.disable),
            bind(ops.ENABLE_SERVICE, self.enable),
            bind(ops.CREATE_SERVICE_TOKEN, self.create_token),
            bind(ops.LIST_SERVICE_TOKENS, self.list_tokens),
            bind(ops.REVOKE_SERVICE_TOKEN, self.revoke_token),
        ]

    def create(self, context: Context, request: ops.CreateService) -> ops.Service:
        project = context.required_project
        check_name(request.name)
        if principal_named(context.work, request.name, owner=project.id) is not None:
            raise Conflict(f"Project {project.name!r} has a service account {request.name!r} already.")
        id = add_principal(
            context.work, kind=SERVICE, name=request.name, owner=project.id, display=request.description, now=context.now
        )
        add_membership(context.work, id, project.id, request.role, now=context.now)
        context.facts["principal"] = id
        return _view(context, _find(context, request.name))

    def list(self, context: Context, request: ops.ListServices) -> ops.Services:
        after = read_text_cursor(request.cursor)
        owner = context.required_project.id
        found = principals_after(context.work, kind=SERVICE, owner=owner, after=after, limit=request.limit + 1)
        page, following = page_of(found, request.limit, lambda account: (account.id,))
        return ops.Services(items=tuple(_view(context, account) for account in page), next=following)

    def show(self, context: Context, request: ops.OneService) -> ops.Service:
        return _view(context, _find(context, request.service))

    def disable(self, context: Context, request: ops.OneService) -> ops.Service:
        account = _find(context, request.service)
        set_disabled(context.work, account.id, True)
        revoke_all_tokens(context.work, account.id, now=context.now)
        return _view(context, _find(context, request.service))

    def enable(self, context: Context, request: ops.OneService) -> ops.Service:
        set_disabled(context.work, _find(context, request.service).id, False)
        return _view(context, _find(context, request.service))

    def create_token(self, context: Context, request: ops.CreateServiceToken) -> ops.NewToken:
        """The zone is where the account runs, not where its maker sits; policy held it against the project's zones."""
        account, maker = _find(context, request.service), maker_of(context)
        if account.disabled:
            raise Conflict(f"Service account {request.service!r} is disabled.")
        wish = Wish(
            scopes=request.scopes, projects=(context.required_project.name,), zone=request.zone, life=life_of(request.days)
        )
        bounds = bounded(
            context.identity,
            maker,
            wish,
            longest=self._profile.token_life,
            permissions=self._gate.cedar.permissions,
            now=context.now,
            own_zone=False,
        )
        minted = mint(
            context.work,
            principal=account.id,
            kind="api",
            label=request.label,
            bounds=bounds,
            parent=maker.id,
            now=context.now,
        )
        context.facts["token"] = minted.id
        return ops.NewToken(id=minted.id, token=minted.secret, expires=bounds.expires, zone=bounds.zone)

    def list_tokens(self, context: Context, request: ops.ListServiceTokens) -> ops.Tokens:
        account = _find(context, request.service)
        return token_page(context, account.id, limit=request.limit, cursor=request.cursor)

    def revoke_token(self, context: Context, request: ops.RevokeServiceToken) -> Nothing:
        account, token = _find(context, request.service), token_by_id(context.work, request.token)
        if token is None or token.principal != account.id:
            raise NotFound(f"Service account {request.service!r} has no token {request.token}.")
        revoke_token(context.work, token.id, now=context.now, descendants=True)
        return Nothing()
