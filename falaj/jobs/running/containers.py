"""A job in a container image: what podman is told, and staying beside the container as beside any sandbox.

Nothing of the job's passes through podman: what it runs and sees comes through the socket that the first process inside, ours,
is given. That process ends with its keeper, the container with that process, and podman removes what has ended.
"""

import contextlib
import json
import os
import resource
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Final

from falaj.jobs.running import interpreters, walls
from falaj.jobs.running.confined import Confined, Meter, Outcome, Wishes, Work, begun
from falaj.jobs.running.images import Kind, surroundings
from falaj.jobs.running.interpreters import Parts
from falaj.jobs.running.limits import MIB, Group, Most, group_of
from falaj.jobs.running.log import Log
from falaj.jobs.running.measures import began
from falaj.jobs.running.orders import House, Image
from falaj.jobs.running.walls import Inside
from falaj.runtimes.processes import tree

_CONTROL: Final = 3  # the first descriptor that podman passes on
# All users inside are far from anybody's outside: root is the first of these, and each attempt's own user is among the others.
_FIRST_USER, _USERS = 1_899_934_463, 100_065_537
_PATIENCE: Final = 60.0
_TIDYING: Final = 10.0  # seconds that podman has to clear away what has ended
_FULL: Final = 7 / 8  # of its memory: who was last seen with so much of it, and went without a word, was ended for it
_EMPTY_SHARED_MIB: Final = 64
_DEVICES: Final = ("/etc/cdi", "/var/run/cdi")
_OURS: Final = str(Path(walls.PROGRAM).parent)
_GPU: Final = "nvidia.com/gpu"


class NoDevices(Exception):
    """Podman cannot give a container the cards it was promised."""


class Contained(Confined):
    """One container, from its first process to its last."""

    _broken = "The container could not be made"

    def __init__(
        self, image: Image, kind: Kind, house: House, inside: Inside, work: Work, log: Log, meter: Meter, wishes: Wishes
    ) -> None:
        self._image, self._kind, self._numbered = image, kind, inside.folder / "pid"
        self._left_at: float | None = None  # when there was nothing more for podman to do
        super().__init__(house, inside, work, log, meter, wishes)
        self._becomes = 0  # podman has made it its user already

    def ends_all(self) -> int:
        return self._inner[0] if self._inner else 0

    def kill(self, outcome: Outcome) -> None:
        """Podman is asked first, while it makes the container: killed meanwhile, it would leave half of one."""
        self._killed_for = self._killed_for or outcome
        with contextlib.suppress(ProcessLookupError):
            if self._inner:
                os.kill(self._inner[0], signal.SIGKILL)
            else:
                self._left_at = self._left_at or time.monotonic()
                os.kill(self.pid, signal.SIGTERM)

    def _begin(self, inside: Inside, control: int, output: int) -> int:
        most = self._most()
        most = most._replace(processes=most.processes and most.processes + 1)  # the first one is ours
        told = command(self._image, self._kind, self._house, inside, self._work, most, self._numbered)
        return begun(told, surroundings(), output, (control, _CONTROL))

    def _has_ended(self) -> bool:
        """Podman waits long for what it cannot hear of any more: where the one that watches the container was killed, too."""
        if self._inner and self._left_at is None and not _is_alive(self._inner[0]):
            self._left_at = time.monotonic()
        if self._left_at is not None and time.monotonic() > self._left_at + _TIDYING:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        return super()._has_ended()

    def _first_inside(self) -> list[int]:
        return [int(self._numbered.read_text())]

    def _let_in(self) -> None:
        problem = _closed_to_new_users(self._inner[0])
        if problem or self._killed_for is not None:  # it was to end before it was there
            self.kill(Outcome("environment", None, f"{self._broken}: {problem}"))
        else:
            super()._let_in()

    def _bounded(self) -> Group | None:
        """Podman's own, unless it could not hold memory; then it is watched."""
        return group_of(self._inner[0], self._most()) if self._house.groups else None

    def _all_inside(self) -> list[int]:
        if self._group is not None:
            return self._group.pids()
        return tree(self._inner[0]) if self._inner else []

    def _builder_ended(self, seconds: float) -> None:
        """What podman took is not the job's."""
        if not self._inner or _is_alive(self._inner[0]) or self._said is None:
            remove(self._image.podman, self._work.name)

    def _own_end(self) -> Outcome:
        if self._said is None and self.started is not None:
            if self._work.memory_mib and self._meter.memory_peak > self._work.memory_mib * MIB * _FULL:
                return self._too_much_memory()
            return Outcome("lost", None, "its container went away under it")
        return super()._own_end()


def command(image: Image, kind: Kind, house: House, inside: Inside, work: Work, most: Most, numbered: Path) -> list[str]:
    """What runs the program `inside` in a container, and says in `numbered` what its number is outside."""
    parts = Parts(image.program, image.library, image.loader, tuple(image.folders))
    readable = [*interpreters.brought(parts), *_files(inside), *inside.readable]
    writable = [*inside.writable, (_temporary(inside), "/var/tmp")]  # nosec B108 - inside
    shared = inside.memory_bytes or _EMPTY_SHARED_MIB * MIB
    return [
        *(image.podman, "run", "--rm", "--pull=never", f"--name={name_of(work.name)}", f"--label=falaj.attempt={work.name}"),
        *("--read-only", "--read-only-tmpfs=false", "--image-volume=ignore", "--network=none", "--no-hosts", "--hostname=job"),
        *("--cap-drop=all", "--security-opt=no-new-privileges", "--security-opt=label=disable", *_identity(house)),
        *("--ipc=private", "--pid=private", "--uts=private", f"--shm-size={shared}b", *_limits(house, most)),
        # Nothing that the image has there is seen: our interpreter would look at it.
        f"--tmpfs={_OURS}:rw,nosuid,nodev,noexec,notmpcopyup,size=64k,mode=0755",
        *("--unsetenv-all", "--http-proxy=false", "--no-healthcheck", "--systemd=false", "--log-driver=passthrough"),
        *(f"--volume={outside}:{name}:rw,nosuid,nodev" for outside, name in writable),
        *(f"--volume={outside}:{name}:ro,nosuid,nodev" for outside, name in readable),
        *(f"--device={one}" for one in inside.devices),
        *("--preserve-fds=1", f"--pidfile={numbered}", "--workdir=/"),
        *("--entrypoint", json.dumps([*interpreters.started(parts), walls.PROGRAM])),
        *(kind.id, str(_CONTROL)),
    ]


def remove(podman: str, attempt: str) -> None:
    """Whatever is left of an attempt's container; nothing where there is none."""
    told = [podman, "rm", "--force", "--time=0", "--ignore", name_of(attempt)]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        subprocess.run(told, capture_output=True, env=surroundings(), timeout=_PATIENCE, check=False)


def wait_for(builder: list[int] | None) -> None:
    """Until podman is done with what nobody keeps any more: it ends by itself; disturbed, it would leave its locks."""
    deadline = time.monotonic() + _TIDYING
    while builder and began(builder[0]) == builder[1] and _is_alive(builder[0]) and time.monotonic() < deadline:
        time.sleep(0.05)


def name_of(attempt: str) -> str:
    return f"falaj-{attempt}"


def seen_inside(kind: Kind, ours: dict[str, str]) -> dict[str, str]:
    """What its makers want programs to see, but for what is ours to say."""
    usual = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
    theirs = usual | kind.variables
    return ours | {name: text for name, text in theirs.items() if name in ("PATH", "LANG") or name not in ours}


def devices(cards: tuple[str, ...], places: tuple[str, ...] = _DEVICES) -> tuple[str, ...]:
    """Cards as the host's CDI specifications name them, with the driver's files that they need. Raises `NoDevices`."""
    if not cards:
        return ()
    files = [file for place in places if Path(place).is_dir() for file in sorted(Path(place).iterdir())]
    known = " ".join(file.read_text(errors="replace") for file in files)
    if lacking := [card for card in cards if card not in known]:
        raise NoDevices(
            f"containers of this host cannot have card {lacking[0]}: no CDI specification names it "
            "(nvidia-ctk cdi generate --device-name-strategy=uuid --output=/etc/cdi/nvidia.yaml)"
        )
    return tuple(f"{_GPU}={card}" for card in cards)


def _closed_to_new_users(first: int) -> str:
    """Why it could not be seen to that nobody inside makes namespaces of its own, where it would be root over them."""
    told = ["nsenter", f"--user=/proc/{first}/ns/user", "sh", "-c", "echo 0 > /proc/sys/user/max_user_namespaces"]
    try:
        subprocess.run(told, capture_output=True, env=surroundings(), timeout=_PATIENCE, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        return f"it would let users make namespaces: {error}"
    return ""


def _is_alive(pid: int) -> bool:
    """One that ended may be there until somebody has asked how."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _identity(house: House) -> tuple[str, ...]:
    """Users who are nobody outside; where we are not root, ourselves, in a namespace of its own."""
    user, group = (house.user - _FIRST_USER,) * 2 if house.user else (os.geteuid(), os.getegid())
    users = f"0:{_FIRST_USER}:{_USERS}"
    known = (f"--uidmap={users}", f"--gidmap={users}") if house.user else ("--userns=keep-id",)
    return (*known, f"--user={user}:{group}", f"--passwd-entry=job:*:{user}:{group}::{walls.HOME}:/bin/sh")


def _limits(house: House, most: Most) -> list[str]:
    told = [f"--ulimit={name}={count}:{count}" for name, count in _own_limits().items()]
    if not house.groups:
        return told
    if most.memory_bytes:
        told += [f"--memory={most.memory_bytes}b", f"--memory-swap={most.memory_bytes}b"]
    if most.cpu_milli:
        told.append(f"--cpus={max(10, most.cpu_milli) / 1000:.3f}")
    return [*told, f"--pids-limit={most.processes or -1}"]


def _own_limits() -> dict[str, int]:
    """What podman would set by itself, or what we may where that is less: podman would fail then."""
    usual = {"nofile": (resource.RLIMIT_NOFILE, 1 << 20), "nproc": (resource.RLIMIT_NPROC, 1 << 15)}
    most = {name: (resource.getrlimit(kind)[1], count) for name, (kind, count) in usual.items()}
    return {name: count if own == resource.RLIM_INFINITY else min(own, count) for name, (own, count) in most.items()}


def _files(inside: Inside) -> list[tuple[str, str]]:
    """The program, names for its loopback, and nothing that the image would have every program load."""
    files = {"hosts": "/etc/hosts", "ld.so.preload": "/etc/ld.so.preload"}
    files |= {name: f"{_OURS}/{name}" for name in walls.PROGRAM_FILES}
    inside.folder.mkdir(exist_ok=True)
    for name in walls.PROGRAM_FILES:
        shutil.copyfile(Path(__file__).with_name(name), inside.folder / name)
    (inside.folder / "hosts").write_text("127.0.0.1 localhost job\n")
    (inside.folder / "ld.so.preload").write_text("")
    for name in files:
        (inside.folder / name).chmod(0o644)
    return [(str(inside.folder / name), place) for name, place in files.items()]


def _temporary(inside: Inside) -> str:
    return next(outside for outside, name in inside.writable if name == "/tmp")  # nosec B108 - inside
