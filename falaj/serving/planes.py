"""Planes: letting them in, and giving each the signed state and the models of its own zone.

A plane is a service account of the platform that may do nothing but serve. What it reports is taken in by `reporting.py`.
"""

import json
from dataclasses import replace
from typing import Final

from falaj.base.clock import Moment
from falaj.base.errors import Conflict, Forbidden, NotFound
from falaj.base.ids import new_id
from falaj.base.operation import Download
from falaj.base.pages import page_of, read_text_cursor
from falaj.base.values import Nothing
from falaj.database.binding import Bound, bind
from falaj.database.work import Context, UnitOfWork
from falaj.governance.gate import Gatekeeper, project_facts
from falaj.governance.identity.minting import MOST_TOKENS, Bounds, Wish, bounded, life_of, maker_of, mint
from falaj.governance.identity.store import (
    add_membership,
    add_principal,
    erase_principal,
    revoke_all_tokens,
    revoke_token,
    tokens_after,
)
from falaj.governance.profiles import Profile
from falaj.governance.projects.store import project_by_id
from falaj.governance.roles import PLATFORM, Role
from falaj.governance.zones.service import required_zone
from falaj.keys.signing import SigningKeys
from falaj.serving.deployed_files import DeployedFiles
from falaj.serving.loads import load_of
from falaj.serving.operations import planes as declared
from falaj.serving.operations.planes import SERVE, NewPlane, Plane, PlaneToken, SignedState, TrustedKey
from falaj.serving.publishing import Publisher
from falaj.serving.states import PURPOSE
from falaj.serving.store import endpoints as endpoint_store
from falaj.serving.store import planes as store
from falaj.serving.store import states
from falaj.serving.store.tables import Found

OWNER: Final = "planes"  # of the principals that planes are; a project's id is longer, so no project's accounts are among them


class PlaneService:
    def __init__(
        self,
        *,
        gate: Gatekeeper,
        profile: Profile,
        keys: SigningKeys,
        publisher: Publisher,
        files: DeployedFiles,
    ) -> None:
        self._gate = gate
        self._profile = profile
        self._keys = keys
        self._publisher = publisher
        self._files = files

    def bindings(self) -> list[Bound]:
        return [
            bind(declared.CREATE_PLANE, self.create),
            bind(declared.LIST_PLANES, self.list),
            bind(declared.DELETE_PLANE, self.delete),
            bind(declared.READ_STATE, self.state),
            bind(declared.FETCH_FILE, self.fetch),
            bind(declared.RENEW_TOKEN, self.renew_own),
            bind(declared.RETIRE_TOKENS, self.retire_tokens),
        ]

    # Letting in

    def create(self, context: Context, request: declared.CreatePlane) -> NewPlane:
        """The token's zone is the plane's, not its maker's."""
        maker = maker_of(context)
        bounds = bounded(
            context.identity,
            maker,
            Wish(scopes=(SERVE.name,), projects=(), zone=request.zone, life=life_of(request.days)),
            longest=self._profile.token_life,
            permissions=self._gate.cedar.permissions,
            now=context.now,
            own_zone=False,
        )
        row = self._enter(context.work, request.plane, request.zone, context.now)
        minted = mint(
            context.work,
            principal=row.principal,
            kind="api",
            label=f"plane {request.plane}"[:100],
            bounds=bounds,
            parent=maker.id,
            now=context.now,
        )
        context.facts.update(plane=row.id, principal=row.principal, token=minted.id)
        keys = trusted_keys(self._keys, context.work)
        return NewPlane(plane=_shown(row), token=minted.secret, expires=bounds.expires, keys=keys)

    def renew(self, work: UnitOfWork, name: str, zone: str, now: Moment, *, revoke: bool) -> str:
        """A token for a plane of this very home, made where there is none yet: who holds home and keys may serve from it.
        `revoke` ends those that were given before."""
        row = store.find(work, name, hold=True)
        if row is not None and row.zone != zone:
            self._shut_out(work, row, now)
            row = None
        if row is None:
            row = self._enter(work, name, zone, now)
        elif revoke:
            revoke_all_tokens(work, row.principal, now=now)
        expires = Moment(now + self._profile.token_life)
        bounds = Bounds(scopes=frozenset({SERVE.name}), projects=frozenset(), zone=zone, expires=expires, reach=expires)
        label = f"plane {name}"[:100]
        return mint(work, principal=row.principal, kind="api", label=label, bounds=bounds, parent=None, now=now).secret

    def trusted_keys(self, work: UnitOfWork) -> tuple[TrustedKey, ...]:
        return trusted_keys(self._keys, work)

    def renew_own(self, context: Context, request: declared.RenewToken) -> PlaneToken:
        """Whoever let the plane in let it stay until it is shut out, so it may go on by itself. The token it asks with stays
        good: the answer may be lost on its way."""
        plane, own = calling_plane(context, hold=True), maker_of(context)
        life = min(own.expires - own.created, self._profile.token_life)
        expires = Moment(context.now + life)
        bounds = Bounds(scopes=own.scopes, projects=own.projects, zone=own.zone, expires=expires, reach=expires)
        minted = mint(
            context.work, principal=plane.principal, kind="api", label=own.label, bounds=bounds, parent=own.id, now=context.now
        )
        context.facts.update(plane=plane.id, token=minted.id)
        return PlaneToken(token=minted.secret, expires=expires)

    def retire_tokens(self, context: Context, request: declared.RetireTokens) -> Nothing:
        plane, own = calling_plane(context, hold=True), maker_of(context)
        for token in tokens_after(context.work, plane.principal, after="", limit=MOST_TOKENS):
            if token.id != own.id and token.revoked is None:
                revoke_token(context.work, token.id, now=context.now, descendants=False)
        context.facts.update(plane=plane.id, token=own.id)
        return Nothing()

    def _enter(self, work: UnitOfWork, name: str, zone: str, now: Moment) -> Found:
        required_zone(work, zone)
        if store.find(work, name) is not None:
            raise Conflict(f"There is a plane {name!r} already; delete it first, or choose another name.")
        principal = add_principal(work, kind="service", name=name, owner=OWNER, display="A serving plane", now=now)
        add_membership(work, principal, PLATFORM, Role.OPERATOR, now=now)
        states.bump(work, zone, PURPOSE, now)
        store.add(
            work,
            {
                "id": new_id(now),
                "principal": principal,
                "name": name,
                "zone": zone,
                "url": "",
                "certificate": "",
                "version": "",
                "workers": 0,
                "serial": 0,
                "problems": "[]",
                "runs": "[]",
                "created": now,
                "heard": None,
            },
        )
        return _required(work, name)

    def list(self, context: Context, request: declared.ListPlanes) -> declared.Planes:
        found = store.page(context.work, read_text_cursor(request.cursor), request.limit + 1)
        page, following = page_of(found, request.limit, lambda row: (row.name,))
        return declared.Planes(items=tuple(_shown(row) for row in page), next=following)

    def delete(self, context: Context, request: declared.OnePlane) -> Nothing:
        row = _required(context.work, request.plane, hold=True)
        self._shut_out(context.work, row, context.now)
        context.facts.update(plane=row.id, principal=row.principal)
        return Nothing()

    def _shut_out(self, work: UnitOfWork, row: Found, now: Moment) -> None:
        erase_principal(work, row.principal, now=now)
        store.remove(work, row.id)

    # What a plane asks for

    def state(self, context: Context, request: declared.ReadState) -> SignedState:
        zone = calling_plane(context).zone
        serial = self._publisher.serial(context.work, zone)
        if serial == request.after:
            return SignedState(serial=serial)
        return self._publisher.state(context.work, zone, context.now)

    def fetch(self, context: Context, request: declared.FetchFile) -> Download:
        """The file as it was signed when the revision was made, or nothing at all."""
        plane = calling_plane(context)
        revision = endpoint_store.in_use(context.work, plane.zone, request.revision)
        if revision is None or not states.is_served(context.work, revision.endpoint):
            raise NotFound(f"Zone {plane.zone!r} serves no revision {request.revision}.")
        project = project_by_id(context.work, revision.project)
        if project is None:
            raise NotFound(f"Zone {plane.zone!r} serves no revision {request.revision}.")
        within = replace(context, project=project_facts(project))
        download = self._files.download(within, revision.endpoint_name, revision, request.file)
        context.facts.update(within.facts, project=project.id)
        return download


def trusted_keys(keys: SigningKeys, work: UnitOfWork) -> tuple[TrustedKey, ...]:
    """What a new plane pins; later keys are endorsed by these."""
    signer = keys.current(work, PURPOSE)
    return (TrustedKey(id=signer.key_id, public=signer.public.hex()),)


def calling_plane(context: Context, *, hold: bool = False) -> Found:
    """The plane that asks. Whoever else has the permission is none."""
    found = store.of_principal(context.work, context.identity.principal, hold=hold)
    if found is None:
        raise Forbidden("Only a serving plane may ask this; `falaj plane create` lets one in.", rule="plane.required")
    return found


def _required(work: UnitOfWork, name: str, *, hold: bool = False) -> Found:
    found = store.find(work, name, hold=hold)
    if found is None:
        raise NotFound(f"There is no serving plane {name!r}.")
    return found


def _shown(row: Found) -> Plane:
    return Plane(
        name=row.name,
        zone=row.zone,
        url=row.url,
        version=row.version,
        workers=row.workers,
        serial=row.serial,
        problems=tuple(json.loads(row.problems)),
        created=Moment(row.created),
        heard=None if row.heard is None else Moment(row.heard),
        load=load_of(row),
    )
