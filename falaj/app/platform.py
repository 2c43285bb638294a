"""The wired platform of one home: backends opened, services built, operations bound, loops ready to run."""

import hashlib
import logging
import os
import socket
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import Request
from starlette.responses import Response

from falaj import __version__
from falaj.api.edge import Edge
from falaj.api.faces import Faces
from falaj.api.hooks import PATH as HOOKS
from falaj.api.hooks import call_of
from falaj.api.metrics import Metrics
from falaj.api.mlflow.face import MlflowFace
from falaj.api.problems import problem
from falaj.api.routes import Routes
from falaj.app import decoders
from falaj.app.backends import (
    data_workers_of,
    database_location,
    key_directory,
    online_store_of,
    open_ring,
    open_storages,
    push_bounds_of,
    push_workers_of,
    recovery_kit,
)
from falaj.app.backups import BackupService, Source
from falaj.app.experiments import OPERATIONS as EXPERIMENT_OPERATIONS
from falaj.app.experiments import Experiments, Service
from falaj.app.home import Home, read_document
from falaj.app.itself import PlatformService
from falaj.app.jobs import JobRuns, checkpoints_of, door_of, engine_of_home, engines_of, pools_of, prices_of, rules_of
from falaj.app.planes import plane_of
from falaj.app.predictions import PlanePredictor
from falaj.app.settings import Settings
from falaj.app.tracing import trace_to
from falaj.app.variants import OptimisedVariants
from falaj.base.clock import DAY, Clock, Moment
from falaj.base.errors import FalajError, OutOfSpace, Unauthenticated
from falaj.base.ids import ProjectId, new_id
from falaj.base.operation import Operation, Req, Res
from falaj.base.values import Nothing
from falaj.database.binding import Bound
from falaj.database.work import Context, UnitOfWork
from falaj.datasets import operations as dataset_operations
from falaj.datasets.room import Datasets
from falaj.governance import operations as governance_operations
from falaj.governance.bootstrap import FirstZone, bootstrap, owner_token
from falaj.governance.gate import Gatekeeper
from falaj.governance.identity.accounts import ServiceAccounts
from falaj.governance.identity.members import MemberService
from falaj.governance.identity.people import UserService
from falaj.governance.identity.tokens import TokenService
from falaj.governance.ledger import operations as ledger_operations
from falaj.governance.ledger import recording
from falaj.governance.ledger.copies import HeadCopies
from falaj.governance.ledger.key_checks import PURPOSE as LEDGER
from falaj.governance.ledger.sequencing import Sequencer
from falaj.governance.ledger.service import LedgerService
from falaj.governance.passes import Passes
from falaj.governance.policies.service import PolicyService
from falaj.governance.profiles import PROFILES
from falaj.governance.projects.service import ProjectService
from falaj.governance.sessions.oidc import OidcProvider, OidcSettings
from falaj.governance.sessions.operations import LINK_SESSION
from falaj.governance.sessions.service import SessionService
from falaj.governance.zones.residency import ProjectZones
from falaj.governance.zones.service import ZoneService
from falaj.jobs import operations as job_operations
from falaj.jobs.operations.jobs import OUTRANK
from falaj.jobs.room import Jobs
from falaj.keys import operations as key_operations
from falaj.keys.ring import KeyRing, project_key
from falaj.keys.service import KeyService
from falaj.keys.signing import SigningKeys
from falaj.lifecycle import operations as lifecycle_operations
from falaj.lifecycle.alerted import AlertedRuns
from falaj.lifecycle.gates.room import Gates
from falaj.lifecycle.operations.triggers import CALL_HOOK
from falaj.lifecycle.room import Lifecycle
from falaj.lifecycle.story.room import Stories
from falaj.monitoring import operations as monitoring_operations
from falaj.monitoring.room import Monitoring, Watching
from falaj.monitoring.veiling import DatasetVeil
from falaj.operations import operations as platform_operations
from falaj.operations.dispatcher import Call, Dispatcher
from falaj.operations.loops import Loop, LoopRunner
from falaj.optimisation import operations as optimisation_operations
from falaj.optimisation.deployable import Deployable
from falaj.optimisation.ending import Ending
from falaj.optimisation.room import Optimisation
from falaj.registry.project_keys import ProjectSigners
from falaj.runtimes.sandbox import Sandbox
from falaj.serving import operations as serving_operations
from falaj.serving.plane.joining import Join, read_join
from falaj.serving.room import Serving
from falaj.serving.store.lookups import users_of
from falaj.storage import operations as storage_operations
from falaj.storage.collection import GarbageCollector
from falaj.storage.rotation import KeyRotation, ProjectKeys
from falaj.storage.service import BlobService
from falaj.storage.store import holds
from falaj.web import operations as web_operations
from falaj.web.assets import PublicFace
from falaj.web.routes import Console
from falaj.wire.bodies import Limits
from falaj.wire.rates import Rate, RateLimits
from falaj.wire.uploads import UploadSlots

log = logging.getLogger(__name__)
ISSUER = "falaj"
OPERATIONS: tuple[Operation[Any, Any], ...] = (
    *platform_operations.OPERATIONS,
    *key_operations.OPERATIONS,
    *storage_operations.OPERATIONS,
    *governance_operations.OPERATIONS,
    *ledger_operations.OPERATIONS,
    *EXPERIMENT_OPERATIONS,
    *dataset_operations.OPERATIONS,
    *job_operations.OPERATIONS,
    *serving_operations.OPERATIONS,
    *optimisation_operations.OPERATIONS,
    *monitoring_operations.OPERATIONS,
    *lifecycle_operations.OPERATIONS,
    *web_operations.OPERATIONS,
)


class Platform:
    """Everything of one home, wired. Made by `open_platform`, which also closes it."""

    def __init__(self, home: Home, settings: Settings, clock: Clock, bindings: Sequence[Bound], url: str) -> None:
        decoders.prepare()
        self.home, self.settings, self.clock, self.url = home, settings, clock, url
        self.profile = PROFILES[settings.platform.profile]
        location = database_location(home, settings)
        self.ring = open_ring(home, settings, clock, home_exists=location.revision() is not None)
        self.places = open_storages(home, settings)
        self.database = location.open()
        self.metrics = Metrics()
        self.collecting = threading.Lock()  # what a backup is copying must not be collected under it
        signing = SigningKeys(self.ring)
        self.database.write(lambda work: signing.prepare(work, LEDGER, clock.now()))
        self.passes = Passes(issuer=ISSUER, keys=signing)
        operations = (*OPERATIONS, *(bound.operation for bound in bindings))
        self.gate = Gatekeeper(operations=(*operations, OUTRANK), profile=self.profile, passes=self.passes)
        copies = HeadCopies([home.heads, *(home.path / directory for directory in settings.ledger.copies)])
        self.sequencer = Sequencer(self.database, lambda work: signing.current(work, LEDGER), copies, clock)
        self.provider = provider = self._identity_provider(url)
        self.sessions = SessionService(
            database=self.database, gate=self.gate, profile=self.profile, clock=clock, provider=provider
        )
        self.face = PublicFace(version=__version__, oidc=provider is not None)
        blobs = BlobService(self.places, self.ring, clock, ProjectZones())
        self.signers = ProjectSigners(self.ring)
        self.experiments = Experiments(
            database=self.database,
            blobs=blobs,
            signers=self.signers,
            gate=self.gate,
            operations=operations,
            dependents=Ending(blobs),
        )
        watching = Watching(self.database, blobs)
        self.serving = Serving(
            database=self.database,
            blobs=blobs,
            signers=self.signers,
            signing=signing,
            gate=self.gate,
            issuer=ISSUER,
            sandbox=Sandbox(settings.serving.converter),
            variants=OptimisedVariants(Deployable(self.signers)),
            plans=watching.plans,
            watchers=watching.taking,
            veil=DatasetVeil(self.gate),
            verdict=watching.verdict,
            herald=watching.herald,
            logs_kept=settings.serving.logs_days * DAY,
            logs_most=settings.serving.logs_mib * 2**20,
        )
        self.database.write(lambda work: self.serving.prepare(work, clock.now()))
        self.data_workers = data_workers_of(settings.data, home)
        self.push_workers = push_workers_of(settings.data, home)
        self.datasets = Datasets(
            database=self.database,
            blobs=blobs,
            workers=self.data_workers,
            gate=self.gate,
            ring=self.ring,
            folders=[Path(folder) for folder in settings.data.folders],
            external_bytes=settings.data.external_mib << 20,
            view_users=users_of,
            served_kept=settings.features.served_kept_days * DAY,
            online=lambda: online_store_of(settings.features, home),
            door=self.push_workers,
            pushes=push_bounds_of(settings.data),
        )
        self.optimisation = Optimisation(
            database=self.database,
            blobs=blobs,
            signers=self.signers,
            gate=self.gate,
            forms=self.serving.forms,
            reading=self.datasets.reading,
            price=prices_of(settings.jobs).core,
            gpu_price=prices_of(settings.jobs).gpu,
        )
        own = engine_of_home(home) if settings.database.url else ""  # others may share that database, and not this host
        self.jobs = Jobs(
            database=self.database,
            clock=clock,
            blobs=blobs,
            ring=self.ring,
            gate=self.gate,
            engines=engines_of(
                settings.jobs,
                home.jobs,
                settings.platform.zone,
                (home.path, key_directory(home, settings)),
                local=own or "local",
            ),
            own=own,
            pricer=prices_of(settings.jobs),
            runs=JobRuns(),
            url=url,
            private_network=settings.jobs.private_network,
            door=door_of(settings.jobs),
            rules=rules_of(settings.jobs),
            pools=pools_of(settings.jobs, settings.platform.zone),
            folder=home.jobs / "pools",
            checkpoints=checkpoints_of(settings.jobs, home.jobs),
            checkpoints_kept=settings.jobs.checkpoints_kept_days * DAY,
        )
        self.monitoring = Monitoring(
            database=self.database,
            clock=clock,
            gate=self.gate,
            watching=watching,
            reading=self.datasets.reading,
            deployments=self.serving.deployments,
            submissions=self.jobs.submissions,
            pipelines=AlertedRuns(self.gate, operations),
            private_receivers=settings.monitoring.private_receivers,
        )
        self.lifecycle = Lifecycle(
            database=self.database,
            clock=clock,
            gate=self.gate,
            passes=self.passes,
            secrets=self.jobs.secrets,
            operations=operations,
        )
        self.gates = Gates(
            database=self.database,
            gate=self.gate,
            blobs=blobs,
            signers=self.signers,
            forms=self.serving.forms,
            checks=self.datasets.checking.check,
            submissions=self.jobs.submissions,
            price=prices_of(settings.jobs).core,
        )
        services: tuple[Service, ...] = (
            PlatformService(self, operations),
            BackupService(self._backup_source()),
            KeyService(self.ring, signing),
            blobs,
            ProjectKeys(secrets=[self.signers, self.jobs.secrets]),
            ServiceAccounts(gate=self.gate, profile=self.profile),
            TokenService(gate=self.gate, profile=self.profile, passes=self.passes),
            MemberService(),
            UserService(),
            ProjectService(keys=_RingKeys(self.ring), holdings=_Holdings()),
            ZoneService(storages=frozenset(self.places)),
            PolicyService(gate=self.gate),
            self.sessions,
            LedgerService(self.database, signing.every, copies),
            *self.experiments.services,
            self.datasets,
            self.serving,
            self.optimisation,
            self.monitoring,
            self.jobs,
            self.lifecycle,
            self.gates,
            Stories(database=self.database, reads=self._read_for, keys=signing.every),
            self.face,
        )
        bound = [*(bound for service in services for bound in service.bindings()), *bindings]
        self.dispatcher = Dispatcher(
            database=self.database, gate=self.gate, clock=clock, bindings=bound, check_room=self._check_room
        )
        self.lifecycle.attend(self.dispatcher)
        self.loops = self._loops()
        self.database.write(self._bootstrap)

    def _read_for(self, context: Context, operation: Operation[Req, Res], request: Req) -> Res:
        return self.dispatcher.read_for(context, operation, request)

    def application(self, *, hosts: Collection[str], tls: bool) -> Edge:
        """The ASGI application: operations and pages behind one edge."""
        limits = self.settings.limits
        rates = RateLimits(
            callers=Rate(per_second=limits.calls_per_second, burst=2 * limits.calls_per_second),
            strangers=Rate(per_second=limits.stranger_calls_per_second, burst=2 * limits.stranger_calls_per_second),
            clock=self.clock,
        )
        bodies = Limits(
            body_bytes=limits.body_bytes,
            body_seconds=limits.body_seconds,
            upload_bytes=limits.upload_bytes,
            upload_stall_seconds=limits.upload_stall_seconds,
        )
        uploads = UploadSlots()
        behind_tls = tls or self.url.startswith("https:")
        routes = Routes(self.dispatcher, limits=bodies, rates=rates, uploads=uploads, metrics=self.metrics)
        console = Console(
            self.face,
            self.dispatcher,
            clock=self.clock,
            rates=rates,
            uploads=uploads,
            predictor=PlanePredictor(),
            url=self.url,
            tls=behind_tls,
            limits=bodies,
        )
        refusals = {HTTPException: partial(_unanswered, console)}
        hooks = routes.face(HOOKS, CALL_HOOK, call_of)
        app = Starlette(routes=[*routes.routes(), hooks, *console.routes()])
        app.router.redirect_slashes = False
        # Without Starlette's own last catch, which answers in plain text: what nobody handled is the edge's to answer.
        app.middleware_stack = ExceptionMiddleware(app.router, handlers=refusals)
        mlflow = MlflowFace(self.dispatcher, limits=bodies, rates=rates, uploads=uploads, metrics=self.metrics, tls=behind_tls)

        return Edge(Faces(mlflow, app), hosts=hosts, clock=self.clock, tls=tls)

    def owner_token(self) -> str:
        """The token in the owner's credentials while it is good, or a new one: who holds home and keys is the owner."""
        known = read_document(self.home.credentials).get("token")
        if isinstance(known, str) and self._is_good(known, Moment(self.clock.now() + self.profile.token_life // 10)):
            return known
        return self.database.write(
            lambda work: owner_token(work, profile=self.profile, zone=self.settings.platform.zone, now=self.clock.now())
        )

    def plane_credentials(self) -> Join:
        """What the plane of this home joins by: as it has it, while that is good, or with a new token."""
        now, place, name = self.clock.now(), plane_of(self.home), self._plane_name()
        known = read_join(place.join) if place.join.exists() else None
        zone, soon = self.settings.platform.zone, Moment(now + self.profile.token_life // 10)
        is_lost = known is None or not self._is_good(known.token, now)

        def renew(work: UnitOfWork) -> Join:
            token = self.serving.planes.renew(work, name, zone, now, revoke=is_lost)
            keys = {key.id: key.public for key in self.serving.planes.trusted_keys(work)}
            return Join(name=name, zone=zone, url=self.url, token=token, keys=keys)

        if known is not None and (known.name, known.zone) == (name, zone) and self._is_good(known.token, soon):
            return replace(known, url=self.url)
        return self.database.write(renew)

    def _plane_name(self) -> str:
        """Control planes that share a database have a plane each: on a host of its own, or in another home."""
        if not self.settings.database.url:
            return "local"
        place = f"{socket.gethostname()} {self.home.path.absolute()}"
        return f"local-{hashlib.sha256(place.encode()).hexdigest()[:8]}"

    def _is_good(self, token: str, at: Moment) -> bool:
        try:
            self.database.read(lambda work: self.gate.authenticate(work, token, at))
        except Unauthenticated:
            return False
        return True

    def sign_in_code(self, token: str) -> str:
        call = Call(credentials=token, request_id=new_id(self.clock.now()))
        return self.dispatcher.call(LINK_SESSION, Nothing(), call).code

    def recovery_kit(self) -> str:
        """Where the recovery kit lies, until its owner has put it away."""
        kit = recovery_kit(self.home, self.settings)
        return str(kit) if self.settings.keys.kind == "file" and kit.exists() else ""

    def start_loops(self) -> None:
        for loop in self.loops:
            loop.start()

    def close(self) -> None:
        """End in order: the loops, then what is still open in the ledger, then the connections."""
        for loop in self.loops:
            loop.stop()
        self.lifecycle.close()
        self.monitoring.close()
        try:
            self.sequencer.step(close_all_windows=True)
        except FalajError as error:
            log.warning("the last leaves stay unsequenced until the next start: %s", error)
        if self.provider is not None:
            self.provider.close()
        self.jobs.close()
        self.data_workers.close()
        self.push_workers.close()
        self.datasets.close()
        self.database.close()

    def _check_room(self) -> None:
        """The last of the disk is for what must go on when it is full; see `_needs_room` of the dispatcher."""
        with suppress(OSError):
            disk = os.statvfs(self.home.path)
            if disk.f_bavail * disk.f_frsize < self.settings.limits.reserve_bytes:
                raise OutOfSpace(f"The disk that holds {self.home.path} is full; free some space. Reading goes on.", delay=5)

    def _loops(self) -> list[LoopRunner]:
        collector = GarbageCollector(self.database, self.places)
        rotation = KeyRotation(self.database, self.ring, secrets=[self.signers, self.jobs.secrets])

        def collect() -> bool:
            if not self.collecting.acquire(blocking=False):
                return False  # a backup is being made: the next round will do
            try:
                return collector.step(self.clock.now()).more
            finally:
                self.collecting.release()

        loops = (
            Loop(name="ledger", every=0.5, step=lambda: self.sequencer.step().more),
            Loop(name="keys", every=2, step=lambda: rotation.step(self.clock.now()).more),
            Loop(name="garbage", every=60, step=collect),
            Loop(name="sessions", every=60, step=self.sessions.step),
            Loop(name="rollouts", every=1, step=lambda: self.serving.step(self.clock.now())),
            Loop(name="jobs", every=0.2, step=self.jobs.step),
            Loop(name="job-logs", every=1, step=self.jobs.keep_logs),
            Loop(name="pools", every=1, step=self.jobs.scale),
            Loop(name="monitors", every=1, step=lambda: self.monitoring.step(self.clock.now())),
            Loop(name="monitors-new", every=1, step=lambda: self.monitoring.follow(self.clock.now())),
            Loop(name="alerts", every=1, step=lambda: self.monitoring.tend(self.clock.now())),
            Loop(name="monitors-old", every=60, step=lambda: self.monitoring.clean(self.clock.now())),
            Loop(name="pipelines", every=0.1, step=self.lifecycle.step),
            Loop(name="gates", every=1, step=lambda: self.gates.step(self.clock.now())),
            Loop(name="triggers", every=1, step=lambda: self.lifecycle.trigger(self.clock.now())),
            Loop(name="traffic", every=60, step=lambda: self.serving.clean(self.clock.now())),
            Loop(name="artifacts", every=60, step=lambda: self.experiments.artifacts.step(self.clock.now())),
            Loop(name="datasets", every=60, step=lambda: self.datasets.step(self.clock.now())),
            Loop(name="pushes", every=1, step=lambda: self.datasets.batch(self.clock.now())),
        )
        # On SQLite the home's lock admits one process: after a crash the next one takes the leases over without waiting.
        process = f"{socket.gethostname()}:{os.getpid()}:{new_id(self.clock.now())}"
        holder = process if self.settings.database.url else "home"
        holders = [(loop, holder) for loop in loops]
        own = self.jobs.own
        name = f"job-checkpoints-of-{own}" if own else "job-checkpoints"
        holders += [(Loop(name=name, every=2, step=self.jobs.keep_checkpoints), "home")]
        if own:
            # Looked after by this home, whoever else decides; after a crash again at once.
            holders += [(Loop(name=f"jobs-of-{own}", every=1, step=self.jobs.tend), "home")]
            holders += [(Loop(name=f"job-logs-of-{own}", every=1, step=self.jobs.keep_own_logs), "home")]
        return [LoopRunner(loop, database=self.database, clock=self.clock, holder=holder) for loop, holder in holders]

    def _bootstrap(self, work: UnitOfWork) -> None:
        now, place = self.clock.now(), self.settings.platform
        zone = FirstZone(name=place.zone, country=place.country, storage="local")
        if bootstrap(work, keys=_RingKeys(self.ring), passes=self.passes, zone=zone, now=now):
            facts = {"zone": place.zone, "profile": place.profile}
            recording.append(
                work,
                operation=platform_operations.START,
                request=Nothing(),
                identity=None,
                project="",
                now=now,
                request_id="",
                facts=facts,
            )

    def _backup_source(self) -> Source:
        return Source(
            home=self.home,
            database=self.database,
            ring=self.ring,
            places=self.places,
            clock=self.clock,
            settle=lambda: self.sequencer.step(close_all_windows=True),
            collecting=self.collecting,
        )

    def _identity_provider(self, url: str) -> OidcProvider | None:
        oidc = self.settings.oidc
        if not oidc.issuer:
            return None
        return OidcProvider(
            OidcSettings(
                issuer=oidc.issuer,
                client_id=oidc.client_id,
                client_secret=oidc.client_secret,
                cli_client_id=oidc.cli_client_id,
                groups_claim=oidc.groups_claim,
                scopes=oidc.scopes,
                redirect_url=f"{url}/sign-in/oidc",
                zone=oidc.zone,
            )
        )


@contextmanager
def open_platform(
    home: Home, settings: Settings, *, clock: Clock, url: str = "", bindings: Sequence[Bound] = ()
) -> Iterator[Platform]:
    """Open everything this home has, making what a first start needs. `bindings` adds operations beside the platform's own."""
    home.prepare()
    with ExitStack() as stack:
        stack.enter_context(trace_to(settings.traces.endpoint))
        platform = Platform(home, settings, clock, bindings, url)
        stack.callback(platform.close)
        yield platform


class _RingKeys:
    """A project's key, made when the project is."""

    def __init__(self, ring: KeyRing) -> None:
        self._ring = ring

    def create(self, project: ProjectId) -> None:
        self._ring.create(project_key(project))


class _Holdings:
    def holds(self, work: UnitOfWork, project: ProjectId, zone: str) -> bool:
        return holds(work, project, zone)


async def _unanswered(console: Console, http: Request, error: Exception) -> Response:
    """What no route answers: problem details for programs, a page for people."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    detail = "There is nothing here." if status == 404 else "This address does not take that method."
    if "text/html" in http.headers.get("accept", "") and not http.url.path.startswith("/v1/"):
        return console.refuse(http, status, detail)
    headers = dict(error.headers) if isinstance(error, HTTPException) and error.headers else None
    return problem(status, detail, request_id=http.scope["state"]["request_id"], headers=headers)
