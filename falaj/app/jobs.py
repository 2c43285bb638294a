"""Jobs wired to what they stand on: engines by the settings, prices, and the runs that `tracking` keeps."""

import hashlib
import logging
import secrets
import socket
from pathlib import Path
from typing import Final

from falaj.app.home import Home
from falaj.app.settings import JobSettings, PoolSettings
from falaj.base.clock import SECOND, Clock, Moment, SystemClock
from falaj.base.errors import Invalid, Misconfigured, NotFound
from falaj.base.files import write_durably
from falaj.database.work import Context, UnitOfWork
from falaj.jobs.doors import Door
from falaj.jobs.engines.engine import Engine
from falaj.jobs.engines.kube.api import Access
from falaj.jobs.engines.kube.hosts import Zones
from falaj.jobs.engines.kube.manifests import Wishes
from falaj.jobs.engines.kubernetes import KubernetesEngine
from falaj.jobs.engines.local import LocalEngine
from falaj.jobs.engines.local_orders import PackageSource, Site
from falaj.jobs.engines.ray import RayCluster, RayEngine
from falaj.jobs.pools.values import Pool
from falaj.jobs.pricing import PriceList
from falaj.jobs.scheduler.values import Node, Rules
from falaj.tracking.experiments import ExperimentService
from falaj.tracking.operations.experiments import CreateExperiment, FindExperiment
from falaj.tracking.operations.runs import CreateRun
from falaj.tracking.operations.words import Tag
from falaj.tracking.runs import RunService
from falaj.tracking.store.runs import ACTIVE, change_run, find_run

_MILLIONTHS: Final = 1_000_000
_UNFINISHED: Final = ("RUNNING", "SCHEDULED")
_STATUS: Final = {"done": "FINISHED", "failed": "FAILED", "cancelled": "KILLED"}  # by the state of the job
log = logging.getLogger(__name__)


class JobRuns:
    """The runs that jobs write to. What a job does to its run is its own; what is left undone when it ends is done here."""

    def __init__(self) -> None:
        self._experiments = ExperimentService()
        self._runs = RunService()

    def make(self, context: Context, experiment: str, name: str, job: str) -> str:
        project = context.required_project.name
        try:
            number = self._experiments.find(context, FindExperiment(project=project, name=experiment)).id
        except NotFound:
            number = self._experiments.create(context, CreateExperiment(project=project, name=experiment)).id
        tags = (Tag(key="falaj.job", value=job),)
        return self._runs.create(context, CreateRun(project=project, experiment=number, name=name, tags=tags)).info.id

    def has(self, context: Context, run: str) -> bool:
        found = find_run(context.work, context.required_project.id, run)
        return found is not None and found.deleted == ACTIVE

    def finish(self, work: UnitOfWork, project: str, run: str, state: str, ended: Moment) -> None:
        found = find_run(work, project, run)
        if found is not None and found.status in _UNFINISHED:
            change_run(work, project, run, status=_STATUS[state], ended=ended // 1000, name=None)


def engines_of(
    settings: JobSettings, directory: Path, zone: str, hidden: tuple[Path, ...], *, local: str = "local"
) -> dict[str, Engine]:
    """By name; `local` is what the one of this host is called. `hidden` is what no job may see, wherever it lies."""
    found: dict[str, Engine] = {}
    if settings.local:
        try:
            found[local] = LocalEngine(directory, _site(settings, directory, zone, hidden), local)
        except Misconfigured as error:
            log.warning("no jobs run on this host: %s", error)
    if settings.ray_address:
        try:
            found["ray"] = RayEngine(_cluster(settings, zone))
        except Misconfigured as error:
            log.warning("no jobs run on Ray: %s", error)
    if settings.kubernetes_url:
        try:
            found["kubernetes"] = _kubernetes(settings, directory / "kubernetes", SystemClock())
            log.warning("jobs run on Kubernetes: that engine is experimental, see docs/kueue.md")
        except Misconfigured as error:
            log.warning("no jobs run on Kubernetes: %s", error)
    return found


def engine_of_home(home: Home) -> str:
    """What the engine of this host is called where other control planes may share the database: no two homes have the same,
    nor has a copy of one."""
    home.jobs.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = home.jobs / "id"
    if not file.exists():
        write_durably(file, secrets.token_hex(8).encode())
    place = f"{socket.gethostname()} {home.path.absolute()} {file.read_text()}"
    return f"local-{hashlib.sha256(place.encode()).hexdigest()[:8]}"


def checkpoints_of(settings: JobSettings, directory: Path) -> Path:
    """Where jobs keep theirs on this host. Raises `Misconfigured` where that would be another place for every process."""
    if not settings.checkpoints:
        return directory / "checkpoints"
    if not (place := Path(settings.checkpoints)).is_absolute():
        raise Misconfigured(f"jobs.checkpoints: {settings.checkpoints!r} is no whole path, such as /mnt/shared/checkpoints.")
    return place


def _site(settings: JobSettings, directory: Path, zone: str, hidden: tuple[Path, ...]) -> Site:
    indexes = tuple(place for place in settings.packages if "://" in place)
    folders = tuple(Path(place).expanduser() for place in settings.packages if "://" not in place)
    packages = PackageSource(
        indexes=indexes if settings.packages else None, folders=folders, certificates=settings.package_certificates
    )
    return Site(
        zone=zone,
        name=settings.host,
        hidden=hidden,
        packages=packages,
        certificates=settings.certificates,
        cpus=settings.cpus,
        memory_mib=settings.memory_mib,
        io=settings.io,
        checkpoints=checkpoints_of(settings, directory),
        images=settings.images,
        pulls_images=settings.pull_images,
    )


def _kubernetes(settings: JobSettings, directory: Path, clock: Clock) -> KubernetesEngine:
    access = Access(
        url=settings.kubernetes_url,
        namespace=settings.kubernetes_namespace,
        token=settings.kubernetes_token,
        token_file=settings.kubernetes_token_file,
        certificates=settings.kubernetes_certificates,
    )
    shown = settings.kubernetes_platform_certificates
    try:
        certificates = Path(shown).read_text() if shown else ""
    except OSError as error:
        raise Misconfigured(f"jobs.kubernetes_platform_certificates: {shown} cannot be read: {error.strerror}.") from None
    wishes = Wishes(
        image=settings.kubernetes_image,
        kueue=settings.kubernetes_kueue,
        platform_url=settings.kubernetes_platform_url,
        certificates=certificates,
    )
    zones = Zones(label=settings.kubernetes_zone_label, usual=settings.kubernetes_zone)
    return KubernetesEngine(access, directory, clock, wishes=wishes, zones=zones)


def _cluster(settings: JobSettings, zone: str) -> RayCluster:
    return RayCluster(
        address=settings.ray_address,
        token=settings.ray_token,
        zone=settings.ray_zone or zone,
        interpreter=settings.ray_python,
        owner=settings.ray_owner,
        is_private=settings.private_network,
        checkpoints=settings.checkpoints,
    )


def pools_of(settings: JobSettings, zone: str) -> list[Pool]:
    """As the settings have them, in their order; `zone` is the platform's own."""
    usual = {"ray": settings.ray_zone or zone, "kubernetes": settings.kubernetes_zone or zone}
    return [_pool(name, given, usual[given.engine]) for name, given in (settings.pools or {}).items()]


def _pool(name: str, given: PoolSettings, zone: str) -> Pool:
    where = f"[jobs.pools.{name}]"
    for word, command in (("add", given.add), ("remove", given.remove)):
        if not command or not command[0]:
            raise Invalid(f'{where} {word} names no command; write a list of words, such as ["/opt/hosts/{word}", "{{name}}"].')
        if not any("{name}" in text or "{host}" in text for text in command):
            raise Invalid(f"{where} {word} does not say which host it is about; put {{name}} where its name belongs.")
    if given.least > given.most:
        raise Invalid(
            f"{where} least is {given.least} and most is {given.most}; there are at least as many as there are at most."
        )
    if given.gpus and not given.gpu_model:
        raise Invalid(f"{where} has {given.gpus} GPUs and does not say which; name their gpu_model as the engine does.")
    return Pool(
        name=name,
        engine=given.engine,
        host=Node(
            name="",
            zone=given.zone or zone,
            cpu_milli=round(given.cpus * 1000),
            memory_mib=given.memory_mib,
            cards=(given.gpu_model,) * given.gpus,
            rack=given.rack,
            sharing=("whole",),  # as both engines give cards
            engine=given.engine,
        ),
        least=given.least,
        most=given.most,
        queues=given.queues,
        add=given.add,
        remove=given.remove,
        delay=given.delay_seconds * SECOND,
        cool_down=given.cool_down_seconds * SECOND,
        starts_within=given.start_seconds * SECOND,
        command_within=given.command_seconds * SECOND,
    )


def door_of(settings: JobSettings) -> Door:
    return Door(
        near=frozenset(host.lower() for host in settings.near_hosts),
        images=None if settings.kubernetes_url else settings.images,  # a cluster has rules of its own for them
        keeps_outputs=settings.local or bool(settings.ray_address),
    )


def rules_of(settings: JobSettings) -> Rules:
    return Rules(
        least_run=settings.least_run_seconds * SECOND,
        longest_grace=settings.longest_grace_seconds * SECOND,
    )


def prices_of(settings: JobSettings) -> PriceList:
    gpus = {model: round(price * _MILLIONTHS) for model, price in _read_gpus(settings.price_gpu_models).items()}
    return PriceList(
        core=round(settings.price_cpu * _MILLIONTHS),
        memory_gib=round(settings.price_memory_gib * _MILLIONTHS),
        gpu=round(settings.price_gpu * _MILLIONTHS),
        gpus=gpus,
    )


def _read_gpus(texts: tuple[str, ...]) -> dict[str, float]:
    """`H200=4.5` each."""
    return {model.strip(): float(price) for model, _, price in (text.partition("=") for text in texts)}
