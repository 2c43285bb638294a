"""What the local engine tells a keeper: its host, the cards and cores of an attempt, where its environment comes from."""

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections import Counter
from functools import cache, cached_property
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from falaj.base.errors import Invalid, Misconfigured
from falaj.base.values import value
from falaj.jobs.engines.engine import Launch
from falaj.jobs.running import gpus, images, interpreters, locks, mps
from falaj.jobs.running.houses import SHARED_USER, house, user_of
from falaj.jobs.running.limits import MIB
from falaj.jobs.running.orders import Gang, House, Image, Order, Packages, Part
from falaj.jobs.scheduler.values import CARD, Node, Sharing

_JOB: Final = re.compile(r"[0-9a-f]{32}")
_FOR_ITSELF_MIB: Final = 2048  # of memory that jobs are not offered, or a tenth where that is less
# Where pip looks where nobody told it otherwise, and the host that has the files themselves: pip knows both.
_ASK_PIP: Final = (
    "import json; from pip._internal.models.index import PyPI; print(json.dumps([PyPI.simple_url, PyPI.file_storage_domain]))"
)


@value
class PackageSource:
    """Where packages of lock files come from: indexes (`https://...`; None for where this host's pip looks), and folders with
    wheels that everybody may read. Nothing else is reached while an environment is made."""

    indexes: tuple[str, ...] | None = None
    folders: tuple[Path, ...] = ()
    certificates: str = ""  # a file with those to trust; empty for the usual ones
    seconds: int = 1800
    disk_mib: int = 20_480
    kept_mib: int = 51_200


_NO_PACKAGES: Final = PackageSource(indexes=())


@value
class Site:
    """Where jobs run: in which zone, with what packages, on how much of the host (0 for all there is). `certificates` is a
    file with those that the platform may show, where they are not of the usual authorities. `hidden` is what no job may see
    even where it lies within the interpreter's own folders: the home. Without `groups` limits are held by watching; without
    `own_user`, by a user namespace.

    Where the host is one of several of another engine, `tied` keepers end with whoever started them, and `gang` says which of
    an attempt's tasks are on it."""

    zone: str
    name: str = ""  # what the host is called; empty for the name it has
    packages: PackageSource = PackageSource()
    certificates: str = ""
    hidden: tuple[Path, ...] = ()
    groups: bool = True
    own_user: bool = True
    tied: bool = False
    gang: Gang | None = None
    cpus: float = 0.0
    memory_mib: int = 0
    io: int = 0
    checkpoints: Path | None = None  # where jobs keep theirs; None for a folder within the engine's own
    images: tuple[str, ...] = ()  # where container images may be from, such as `registry.example/team`; `*` for everywhere
    pulls_images: bool = False


class Orders:
    """Of one host. Raises `Misconfigured` where no sandbox can be built on it."""

    def __init__(self, directory: Path, site: Site) -> None:
        self.checkpoints = site.checkpoints or directory / "checkpoints"
        with contextlib.suppress(OSError):  # then it is told to who needs it
            self.checkpoints.mkdir(mode=0o700, parents=True, exist_ok=True)  # only what is there can be hidden
        self._site, self._hidden = site, (directory, self.checkpoints, *site.hidden)
        self._environments = directory / "environments"
        self.name = site.name or host_name()
        self.cards = gpus.cards()
        self._sharing = mps.Sharing()
        house(self._hidden, groups=site.groups, own_user=site.own_user)  # raises where there can be none
        if odd := [place for place in site.images if not images.is_place(place)]:
            raise Misconfigured(f"jobs.images: {odd[0]!r} is no place that images are from, such as registry.example/team")

    @cached_property
    def _packages(self) -> Packages:
        return _packages(self._environments, self._site.packages)

    def node(self) -> Node:
        memory = min(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), _own_memory()) // MIB
        sharing: tuple[Sharing, ...] = ("whole", "mps", "time") if self._sharing.is_possible else ("whole", "time")
        return Node(
            name=self.name,
            zone=self._site.zone,
            cpu_milli=round(self._site.cpus * 1000) or len(os.sched_getaffinity(0)) * 1000,
            memory_mib=self._site.memory_mib or memory - min(_FOR_ITSELF_MIB, memory // 10),
            io=self._site.io,
            cards=tuple(card.model for card in self.cards),
            sharing=sharing,
        )

    def compose(self, launch: Launch, given: Counter[int]) -> Order:
        """`given` says how many attempts each core was given to. Raises `Unusable` or `NoSharing` where it can never run."""
        shape, count = launch.shape, max(1, len(launch.seats))
        is_part = shape.gpus == 1 and shape.gpu_milli < CARD
        shares = is_part and shape.sharing == "mps" and self._sharing.is_possible
        made = house(self._hidden, groups=self._site.groups, own_user=self._site.own_user)
        if shares and made.user:
            made = made._replace(user=SHARED_USER, is_shared=True)
        elif launch.checkpoints and made.user:
            made = made._replace(user=user_of(launch.checkpoints[0]))
        requirements, environment = self._environment(launch)
        return Order(
            attempt=launch.attempt,
            command=tuple(launch.command),
            tasks=tuple(tuple(self._card(card).id for card in seat.cards) for seat in launch.seats) or ((),),
            environment=environment,
            requirements=requirements,
            hosts=tuple(launch.hosts),
            platform_url=launch.platform_url,
            certificates=self._site.certificates,
            cpu_milli=shape.cpu_milli * count,
            memory_mib=shape.memory_mib * count,
            seconds=launch.limits.seconds,
            disk_mib=launch.limits.disk_mib,
            log_mib=launch.limits.log_mib,
            processes=launch.limits.processes,
            cores=_cores(shape.cpu_milli * count, given),
            cards=self._parts(launch, shape.gpu_milli if is_part else CARD, made.user if shares else None),
            house=made,
            packages=self._packages if requirements else _packages(self._environments, _NO_PACKAGES),
            gang=self._site.gang,
            image=self._image(launch.environment.image, made) if launch.environment.image else None,
            outputs=() if self._site.gang and self._site.gang.first else launch.outputs,  # the first host has them
            zone=launch.zone,
            checkpoints=tuple(str(self._checkpoints_of(job)) for job in launch.checkpoints),
        )

    def _checkpoints_of(self, job: str) -> Path:
        if not _JOB.fullmatch(job):
            raise Invalid(f"{job[:100]!r} is no id of a job")
        return self.checkpoints / job

    def _environment(self, launch: Launch) -> tuple[str, str]:
        """What it is made from, and its name; nothing for the platform's own."""
        if not launch.environment.lock:
            return "", ""
        requirements = locks.checked(launch.environment.lock)
        return requirements, locks.named(requirements, sys.executable, self._packages)

    def _image(self, name: str, made: House) -> Image:
        images.may_run(name, self._site.images)
        podman = shutil.which("podman")
        if podman is None:
            raise locks.Unusable(f"it names the image {name}, and there is no podman on this host: apt-get install podman")
        if os.geteuid() == 0 and not made.user:
            raise locks.Unusable("root runs no images where it cannot become somebody else: run the platform as another user")
        parts = interpreters.own_parts()
        for shown in (parts.library, *parts.folders):
            if hidden := [place for place in made.hidden if Path(place).is_relative_to(shown)]:
                raise locks.Unusable(f"{hidden[0]} lies within {shown}, which every container sees: move it")
        return Image(name, podman, self._site.pulls_images, *parts)

    def _card(self, number: int) -> gpus.Card:
        if not 0 <= number < len(self.cards):
            raise Invalid(f"Card {number} was asked for; this host has {len(self.cards)}")
        return self.cards[number]

    def _parts(self, launch: Launch, milli: int, sharer: int | None) -> tuple[Part, ...]:
        tasks = Counter(card for seat in launch.seats for card in seat.cards)
        parts = []
        for number, count in sorted(tasks.items()):
            card, held = self._card(number), min(CARD, milli * count)
            pipes = self._sharing.pipes(card.id, sharer) if sharer is not None else ""
            parts.append(Part(card.id, number, held, card.memory_mib * held // CARD, count, card.nodes, pipes))
        return tuple(parts)


def host_name() -> str:
    return re.sub(r"[^A-Za-z0-9._:-]", "-", socket.gethostname()) or "localhost"


def _cores(cpu_milli: int, given: Counter[int]) -> tuple[int, ...]:
    """As many whole ones as it takes, of those that the fewest others were given."""
    count = max(1, -(-cpu_milli // 1000))
    return tuple(sorted(sorted(os.sched_getaffinity(0), key=lambda core: (given[core], core))[:count]))


def _packages(folder: Path, source: PackageSource) -> Packages:
    indexes, others = _where_pip_looks() if source.indexes is None else (source.indexes, ())
    urls = [urlsplit(index) for index in indexes]
    hosts = [f"{url.hostname}:{url.port or (443 if url.scheme == 'https' else 80)}" for url in urls]
    return Packages(
        folder=str(folder),
        indexes=indexes,
        hosts=tuple(dict.fromkeys([*hosts, *others])),
        links=tuple(str(place) for place in source.folders),
        certificates=source.certificates,
        seconds=source.seconds,
        disk_mib=source.disk_mib,
        kept_mib=source.kept_mib,
    )


@cache
def _where_pip_looks() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Its index, and the hosts beyond the index's own that it takes files from."""
    if said := os.environ.get("PIP_INDEX_URL"):
        return (said,), ()
    try:
        told = subprocess.run([sys.executable, "-I", "-c", _ASK_PIP], capture_output=True, check=True, timeout=60).stdout
        index, files = json.loads(told)
    except (OSError, ValueError, subprocess.SubprocessError):
        return (), ()  # without pip nothing is fetched; what stands in folders can be
    return (index,), (f"{files}:443",)


def _own_memory() -> int:
    """What the group we are in may take, where one bounds us."""
    for file in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):
            return int(Path(file).read_text())
    return 1 << 62
