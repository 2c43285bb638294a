"""The state of a zone: drawn from the tables, signed, and remembered until something it depends on has changed."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from falaj.base.clock import MINUTE, Moment
from falaj.base.errors import NotFound
from falaj.database.work import Database, UnitOfWork
from falaj.governance.cache import Bounded
from falaj.keys.signatures import PublicKey
from falaj.keys.signing import SigningKeys
from falaj.serving import callback_secrets
from falaj.serving.forms import read_columns
from falaj.serving.lookup_drawing import LookupDrawing
from falaj.serving.operations.planes import Endorsed, SignedState
from falaj.serving.operations.words import WHOLE
from falaj.serving.splits import read_arms
from falaj.serving.states import FORMAT, PURPOSE, Arm, Endpoint, File, LookupView, Revision, Rung, State, Watch, encode
from falaj.serving.store import endpoints as endpoint_store
from falaj.serving.store import rungs as rung_store
from falaj.serving.store import states as store
from falaj.serving.store.tables import Found
from falaj.serving.views import read_options
from falaj.serving.watching import Plans

TOKEN_LIFE: Final = 15 * MINUTE  # the longest life of a short-lived token: as long does a retired key go on being trusted
_REMEMBERED: Final = 64
EDGE: Final = "edge:"  # begins the zone of a bundle; a name cannot have the colon


class Publisher:
    """Thread-safe. `issuer` is whose tokens the planes take; `plans` says what is watched, without it nothing is."""

    def __init__(self, keys: SigningKeys, issuer: str, lookups: LookupDrawing, plans: Plans | None = None) -> None:
        self._keys = keys
        self._issuer = issuer
        self._lookups = lookups
        self._plans = plans
        self._signed: Bounded[tuple[str, int, str, str], SignedState] = Bounded(_REMEMBERED)
        self._looked = Moment(0)

    def prepare(self, work: UnitOfWork, now: Moment) -> None:
        """Make the keys where there are none yet."""
        self._keys.prepare(work, PURPOSE, now)
        self._keys.prepare(work, callback_secrets.PURPOSE, now)

    def serial(self, work: UnitOfWork, zone: str) -> int:
        found = store.find_zone(work, zone)
        return 0 if found is None else int(found.serial)

    def state(self, work: UnitOfWork, zone: str, now: Moment) -> SignedState:
        row = store.find_zone(work, zone)
        if row is None:
            raise NotFound(f"Nothing was ever served in zone {zone!r}.")
        watched = store.watch(work, PURPOSE)
        key = (zone, int(row.serial), row.watched, watched)
        if (known := self._signed.get(key)) is None:
            known = self._signed.put(key, self._sign(work, self._drawn(work, zone, int(row.serial), now)))
        return known

    def alone(self, work: UnitOfWork, endpoint: Found, project_name: str, revision: Found, now: Moment) -> SignedState:
        """A state that holds one endpoint with one revision, without its ladder, and no way to anybody else. No zone is called
        as its zone is: no plane that joined the platform would take it for its own."""
        files = {revision.id: endpoint_store.files_of(work, revision.id)}
        drawn = self._drawn(work, endpoint.zone, max(1, self.serial(work, endpoint.zone)), now)
        whole = (Arm(revision=revision.number, share=WHOLE),)
        shown = _endpoint(endpoint, project_name, [_revision(revision, files[revision.id])], "")
        only = replace(shown, arms=whole, fallback=0, log_share=0, callbacks=())
        revoked = tuple(store.fallen_keys(work, endpoint.zone, now, endpoint.project))
        return self._sign(work, replace(drawn, zone=f"{EDGE}{endpoint.id}", endpoints=(only,), revoked=revoked))

    def settle(self, database: Database, now: Moment) -> None:
        """Give a new serial to each zone whose state came out differently for a reason that lies outside this room: a key's
        maker left, a project was archived. Decided on a snapshot; who moved a zone meanwhile has seen to it."""
        every = now >= self._looked + MINUTE  # for what changes by itself: a retired key's time runs out
        self._looked = now if every else self._looked
        for seen, watched, fingerprint in database.read(lambda work: self._compared(work, now, every=every)):
            moved = seen.fingerprint != fingerprint and bool(seen.fingerprint or seen.watched != watched)
            serial = max(int(seen.serial) + 1, int(now)) if moved else int(seen.serial)
            if (seen.serial, seen.watched, seen.fingerprint) != (serial, watched, fingerprint):
                database.write(partial(store.settle, seen=seen, watched=watched, fingerprint=fingerprint, serial=serial))

    def _compared(self, work: UnitOfWork, now: Moment, *, every: bool) -> list[tuple[Found, str, str]]:
        watched = store.watch(work, PURPOSE)
        unsettled = [row for row in store.all_zones(work) if every or row.watched != watched or not row.fingerprint]
        return [(row, watched, _fingerprint(self._drawn(work, row.zone, 0, now))) for row in unsettled]

    def _drawn(self, work: UnitOfWork, zone: str, serial: int, now: Moment) -> State:
        files, ladders = store.files_in(work, zone), rung_store.in_zone(work, zone)
        needed, lookups = store.signers_needed(work, now), self._lookups.of_zone(work, zone, now)
        watches = self._plans.of_zone(work, zone) if self._plans is not None else {}
        revisions = {
            endpoint: [
                _revision(row, files.get(row.id, ()), lookups.get(row.id, ()), ladders.get(row.id, ()), watches.get(row.id))
                for row in rows
            ]
            for endpoint, rows in store.revisions_in(work, zone).items()
        }
        keys = [key for key in self._keys.public(work, PURPOSE) if _is_trusted(key, needed, now)]
        secret = callback_secrets.maker(self._keys, work)
        return State(
            format=FORMAT,
            serial=serial,
            issued=serial,  # a moment, and the same on every control plane
            issuer=self._issuer,
            zone=zone,
            endpoints=tuple(
                _endpoint(row, row.project_name, revisions.get(row.id, ()), secret(row.id)) for row in store.served(work, zone)
            ),
            token_keys={key.id: key.public.hex() for key in keys},
            revoked=tuple(store.fallen_keys(work, zone, now)),
        )

    def _sign(self, work: UnitOfWork, state: State) -> SignedState:
        signer, body = self._keys.current(work, PURPOSE), encode(state)
        keys = self._keys.public(work, PURPOSE)
        return SignedState(
            serial=state.serial,
            body=body.decode(),
            key=signer.key_id,
            signature=signer.sign(body).hex(),
            endorsements=tuple(_endorsed(key) for key in keys if key.endorsement is not None),
        )


def _endorsed(key: PublicKey) -> Endorsed:
    if key.endorsement is None:
        raise ValueError("this key was endorsed by nobody")
    return Endorsed(key=key.id, public=key.public.hex(), by=key.endorsement.by, signature=key.endorsement.signature)


def _is_trusted(key: PublicKey, needed: set[str], now: Moment) -> bool:
    """A retired key is trusted while a token that it signed may be good, so that revoking all of them ends that."""
    return key.retired is None or key.id in needed or now < key.retired + TOKEN_LIFE


def _fingerprint(state: State) -> str:
    return hashlib.sha256(encode(replace(state, serial=0, issued=0))).hexdigest()


def _endpoint(row: Found, project_name: str, revisions: Sequence[Revision], secret: str) -> Endpoint:
    options, arms = read_options(row.options), read_arms(row.arms)
    return Endpoint(
        id=row.id,
        project=row.project,
        project_name=project_name,
        name=row.name,
        arms=tuple(Arm(revision=arm.revision, share=arm.share, role=arm.role, label=arm.label) for arm in arms),
        revisions=tuple(revisions),
        fallback=row.back_to,
        latency_ms=options.latency_ms,
        concurrency=options.concurrency,
        calls_per_second=options.calls_per_second,
        nan=options.nan,
        idle_seconds=options.idle_seconds,
        log_share=options.log_share,
        masked=options.masked,
        callbacks=options.callbacks,
        callback_secret=secret if options.callbacks else "",
        device=options.device,
    )


def _revision(
    row: Found,
    files: Sequence[Found],
    lookups: tuple[LookupView, ...] = (),
    ladder: Sequence[tuple[Found, Sequence[Found]]] = (),
    watch: Watch | None = None,
) -> Revision:
    return Revision(
        id=row.id,
        number=row.number,
        model=row.model_name,
        version=row.version,
        runtime=row.runtime,
        file=row.file,
        files=_files(files),
        columns=read_columns(row.columns),
        quarantined=bool(row.quarantined),
        lookups=lookups,
        variant=row.variant,
        settings=json.loads(row.settings),
        host=row.host,
        latency_ms=row.latency_ms,
        ladder=tuple(_rung(rung, its_files) for rung, its_files in ladder),
        watch=watch,
    )


def _rung(row: Found, files: Sequence[Found]) -> Rung:
    return Rung(
        name=row.variant,
        runtime=row.runtime,
        file=row.file,
        files=_files(files),
        settings=json.loads(row.settings),
        host=row.host,
        latency_ms=row.latency_ms,
    )


def _files(rows: Sequence[Found]) -> tuple[File, ...]:
    return tuple(File(name=row.name, size=row.size, digest=row.digest) for row in rows)
