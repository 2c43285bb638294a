"""Tokens for calling endpoints: short-lived ones for whoever can come back, long-lived keys for programs that cannot.

The law is that of all tokens: nothing made with a token has more power or a longer life than its maker may give.
"""

import json
from collections.abc import Collection, Sequence
from typing import Final

from falaj.base.clock import SECOND, Moment
from falaj.base.errors import Conflict, Forbidden, NotFound, Unauthenticated
from falaj.base.ids import new_id
from falaj.base.pages import page_of, read_text_cursor
from falaj.base.values import Nothing
from falaj.database.binding import Bound, bind
from falaj.database.work import Context
from falaj.governance.gate import Gatekeeper
from falaj.governance.identity.minting import Wish, bounded, life_of, maker_of
from falaj.governance.identity.store import token_by_id
from falaj.governance.profiles import Profile
from falaj.keys.signing import SigningKeys
from falaj.registry.views import people
from falaj.serving import tokens
from falaj.serving.operations import keys as declared
from falaj.serving.operations.endpoints import DELETE_ENDPOINT, OneEndpoint
from falaj.serving.operations.keys import PREDICT, EndpointKey, EndpointToken, NewEndpointKey
from falaj.serving.publishing import TOKEN_LIFE
from falaj.serving.states import PURPOSE
from falaj.serving.store import endpoints as endpoint_store
from falaj.serving.store import keys as store
from falaj.serving.store import states
from falaj.serving.store.tables import Found

MOST_KEYS: Final = 1000  # good ones, of one project


class EndpointKeyService:
    def __init__(self, *, gate: Gatekeeper, profile: Profile, keys: SigningKeys, issuer: str) -> None:
        self._gate = gate
        self._profile = profile
        self._keys = keys
        self._issuer = issuer

    def bindings(self) -> list[Bound]:
        return [
            bind(declared.ASK_FOR_TOKEN, self.token),
            bind(declared.CREATE_KEY, self.create),
            bind(declared.LIST_KEYS, self.list),
            bind(declared.REVOKE_KEY, self.revoke),
        ]

    def token(self, context: Context, request: declared.AskForToken) -> EndpointToken:
        """Ends with the token that it was asked for with, at the latest."""
        own = None if context.identity.token is None else token_by_id(context.work, context.identity.token)
        if own is None:
            raise Unauthenticated("A token for endpoints is given for another token; sign in first.")
        life = min(self._profile.pass_life, TOKEN_LIFE)
        expires = min(context.now + life, own.expires) // SECOND * SECOND
        if expires <= context.now:
            raise Conflict("Your own token ends within a second; sign in again.")
        wanted = _ids(context, (request.endpoint,)) if request.endpoint else ()
        claims = tokens.Claims(
            principal=context.identity.principal,
            id=new_id(context.now),
            project=context.required_project.id,
            endpoints=frozenset(wanted),
            manage=self._may_manage(context),
            not_before=context.now,
            expires=Moment(expires),
        )
        context.facts.update(endpoints=sorted(wanted), endpoint_token=claims.id)
        return EndpointToken(token=self._issue(context, claims)[1], expires=claims.expires)

    def create(self, context: Context, request: declared.CreateKey) -> NewEndpointKey:
        maker = maker_of(context)
        bounds = bounded(
            context.identity,
            maker,
            Wish(scopes=(PREDICT.name,), projects=(context.required_project.name,), zone="", life=life_of(request.days)),
            longest=self._profile.token_life,
            permissions=self._gate.cedar.permissions,
            now=context.now,
        )
        if request.manage and not self._may_manage(context):
            raise Forbidden("Who may not deploy here cannot make a key that loads and unloads models.", rule="token.scope")
        if store.count_good(context.work, context.required_project.id, context.now) >= MOST_KEYS:
            raise Conflict(f"The project has {MOST_KEYS} keys that are good; revoke some, or wait until they expire.")
        claims = tokens.Claims(
            principal=context.identity.principal,
            id=new_id(context.now),
            project=context.required_project.id,
            endpoints=frozenset(_ids(context, request.endpoints)),
            manage=request.manage,
            not_before=context.now,
            expires=Moment(bounds.expires // SECOND * SECOND),
        )
        signer, text = self._issue(context, claims)
        row = {
            "id": claims.id,
            "project": claims.project,
            "label": request.label,
            "endpoints": json.dumps(sorted(claims.endpoints)),
            "manage": claims.manage,
            "signer": signer,
            "created": context.now,
            "created_by": context.identity.principal,
            "expires": claims.expires,
            "revoked": None,
        }
        store.add(context.work, row)
        context.facts.update(key=claims.id, endpoints=sorted(claims.endpoints))
        return NewEndpointKey(key=_shown(context, [_required(context, claims.id)])[0], token=text)

    def list(self, context: Context, request: declared.ListKeys) -> declared.EndpointKeys:
        before = read_text_cursor(request.cursor)
        found = store.page(context.work, context.required_project.id, before, request.limit + 1)
        page, following = page_of(found, request.limit, lambda row: (row.id,))
        return declared.EndpointKeys(items=_shown(context, page), next=following)

    def revoke(self, context: Context, request: declared.RevokeKey) -> Nothing:
        """In every zone of the project: a key for all endpoints is good wherever it has some."""
        row = _required(context, request.key)
        if row.revoked is None:
            store.revoke(context.work, row.id, context.now)
            for place in sorted(context.required_project.places, key=lambda place: place.zone):
                if states.find_zone(context.work, place.zone) is not None:
                    states.bump(context.work, place.zone, PURPOSE, context.now)
        return Nothing()

    def _issue(self, context: Context, claims: tokens.Claims) -> tuple[str, str]:
        signer = self._keys.current(context.work, PURPOSE)
        return signer.key_id, tokens.issue(signer, claims, issuer=self._issuer, now=context.now)

    def _may_manage(self, context: Context) -> bool:
        """Loading and unloading is for those who may deploy."""
        asked = OneEndpoint(project=context.required_project.name, endpoint="any")
        try:
            self._gate.authorise(context.work, context.identity, DELETE_ENDPOINT, asked)
        except (Forbidden, NotFound):
            return False
        return True


def _required(context: Context, id: str) -> Found:
    found = store.find(context.work, context.required_project.id, id)
    if found is None:
        raise NotFound(f"The project has no endpoint key {id}.")
    return found


def _ids(context: Context, names: Collection[str]) -> tuple[str, ...]:
    known = endpoint_store.ids_of(context.work, context.required_project.id, names)
    if missing := sorted(set(names) - set(known)):
        raise NotFound(f"There is no endpoint {missing[0]!r} here.")
    return tuple(known.values())


def _shown(context: Context, rows: Sequence[Found]) -> tuple[EndpointKey, ...]:
    named = people(context.work, {row.created_by for row in rows})
    reached = {row.id: json.loads(row.endpoints) for row in rows}
    names = endpoint_store.names_of(context.work, context.required_project.id, {id for ids in reached.values() for id in ids})
    return tuple(
        EndpointKey(
            id=row.id,
            label=row.label,
            endpoints=tuple(sorted(names[id] for id in reached[row.id] if id in names)),
            manage=bool(row.manage),
            created=Moment(row.created),
            expires=Moment(row.expires),
            revoked=None if row.revoked is None else Moment(row.revoked),
            created_by=named[row.created_by],
        )
        for row in rows
    )
