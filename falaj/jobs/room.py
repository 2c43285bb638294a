"""The room as a whole: every service of it and its controller, built from what it stands on."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Final, Protocol

from falaj.base.caller import Identity
from falaj.base.clock import Clock
from falaj.base.errors import Forbidden, NotFound, Unauthenticated
from falaj.database.binding import Bound
from falaj.database.work import Database, UnitOfWork
from falaj.governance.gate import Gatekeeper
from falaj.jobs.capacity import CapacityService
from falaj.jobs.checkpoints import CheckpointKeeper
from falaj.jobs.controller import PATIENT, SHIPPED_RULES, Controller
from falaj.jobs.doors import Door
from falaj.jobs.engines.engine import Engine
from falaj.jobs.explaining import Explainer
from falaj.jobs.keeping import LogKeeper
from falaj.jobs.launching import Launcher, Rights
from falaj.jobs.listing import ListingService
from falaj.jobs.nodes import NodeService
from falaj.jobs.operations.jobs import SUBMIT_JOB, Spec, Submit
from falaj.jobs.pools.keeper import PoolKeeper
from falaj.jobs.pools.outlook import PoolOutlook
from falaj.jobs.pools.showing import PoolView
from falaj.jobs.pools.values import Pool
from falaj.jobs.pricing import Pricer
from falaj.jobs.queues import QueueService
from falaj.jobs.scheduler.values import Rules
from falaj.jobs.secrets import ProjectSecrets
from falaj.jobs.simulating import SimulationService
from falaj.jobs.sources import SourceService
from falaj.jobs.standing import Standing
from falaj.jobs.submitting import Runs as NewRuns
from falaj.jobs.submitting import SubmissionService
from falaj.jobs.tending import Tender
from falaj.jobs.turns import Runs as EndingRuns
from falaj.keys.ring import KeyRing
from falaj.storage.service import BlobService


class Runs(NewRuns, EndingRuns, Protocol):
    """Of the jobs, from their beginning to their end."""


# What a training needs: its runs, their files, and the models it registers; and to speak about itself.
DEFAULT_SCOPES: Final = frozenset(
    {
        *("experiment.read", "experiment.write", "run.read", "run.write", "artifact.read", "artifact.write"),
        *("logged-model.read", "logged-model.write", "model.read", "model.write", "version.read", "version.write"),
        *("job.read", "job.report", "dataset.read"),
    }
)


def _asking(gate: Gatekeeper) -> Callable[[UnitOfWork, Identity, str], bool]:
    def may_submit(work: UnitOfWork, identity: Identity, project: str) -> bool:
        try:
            gate.authorise(work, identity, SUBMIT_JOB, Submit(project=project, spec=Spec(command=("true",))))
        except (Forbidden, NotFound, Unauthenticated):
            return False
        return True

    return may_submit


class Jobs:
    """`step` wants to be called a few times a second by one process. `secrets` keeps what is sealed under projects' keys;
    `submissions` takes jobs in for rooms above; `folder` is for notes of the room's own."""

    def __init__(
        self,
        *,
        database: Database,
        clock: Clock,
        blobs: BlobService,
        ring: KeyRing,
        gate: Gatekeeper,
        engines: Mapping[str, Engine],
        pricer: Pricer,
        runs: Runs,
        url: str,
        private_network: bool = False,
        door: Door,
        rules: Rules = SHIPPED_RULES,
        folder: Path,
        checkpoints: Path,
        checkpoints_kept: int,
        pools: Sequence[Pool] = (),
        own: str = "",
    ) -> None:
        """`checkpoints` is the folder that jobs of this host keep theirs in, for `checkpoints_kept` microseconds after they
        failed or were cancelled. `own` names the engine that no other control plane over the same database can reach; empty
        where there is no other."""
        self.secrets = ProjectSecrets(ring)
        self._engines = engines
        standing = Standing(database, clock, rules.half_life)
        explainer = Explainer(database, standing, rules, PoolOutlook(database, pools))
        launcher = Launcher(
            database,
            blobs=blobs,
            secrets=self.secrets,
            rights=Rights(scopes=DEFAULT_SCOPES, permissions=gate.cedar.permissions, may_submit=_asking(gate)),
            platform_url=url,
            private_network=private_network,
        )
        mine = engines.get(own)
        self.own = own if mine is not None else ""
        self._tender = None if mine is None else Tender(database, clock, mine, launcher, PATIENT)
        self._own_logs = None if mine is None else LogKeeper(database, blobs, {own: mine}, clock, only=own)
        self._logs = LogKeeper(database, blobs, {name: one for name, one in engines.items() if one is not mine}, clock)
        self._checkpoints = CheckpointKeeper(database, clock, checkpoints, checkpoints_kept)
        self._acting = Lock()
        self._controller = Controller(database, clock, engines, launcher=launcher, runs=runs, pricer=pricer, rules=rules)
        self._pools = PoolKeeper(database, clock, engines, standing=standing, pools=pools, rules=rules, folder=folder)
        self.submissions = SubmissionService(
            database=database,
            gate=gate,
            secrets=self.secrets,
            outlook=explainer,
            pricer=pricer,
            runs=runs,
            door=door,
        )
        self._services = (
            self.submissions,
            ListingService(database, blobs, engines),
            explainer,
            QueueService(standing, rules),
            SimulationService(database, clock, standing, rules),
            NodeService(standing, PoolView(pools)),
            CapacityService(standing),
            SourceService(blobs),
            self.secrets,
        )

    def bindings(self) -> list[Bound]:
        return [bound for service in self._services for bound in service.bindings()]

    def step(self) -> bool:
        """See what happened, decide, and act; whether there is more to do at once."""
        with self._acting:
            return self._controller.step()

    def tend(self) -> bool:
        """Look after its own engine while another control plane decides."""
        with self._acting:  # what was begun here as the one that decides is ended first
            if self._tender is not None and not self._controller.decides():
                self._tender.step()
        return False

    def keep_own_logs(self) -> bool:
        """As `keep_logs`, of its own engine."""
        return self._own_logs is not None and self._own_logs.step()

    def keep_logs(self) -> bool:
        """Put away what ended jobs wrote; whether there is more. In a loop of its own, for storages may be slow."""
        return self._logs.step()

    def keep_checkpoints(self) -> bool:
        """Remove those that nobody goes on from any more. In a loop of its own, for there may be much of them."""
        return self._checkpoints.step()

    def scale(self) -> bool:
        """Have hosts added and given back; whether there is more. In a loop of its own, for it imagines a lot."""
        return self._pools.step()

    def close(self) -> None:
        """What runs goes on."""
        self._pools.close()
        for engine in self._engines.values():
            engine.close()
