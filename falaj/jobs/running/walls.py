"""The walls around a job: what bubblewrap is told. `confined` runs things inside them.

Inside are the system and the interpreter, to be read; a folder of the job's own at /job, to be written; its cards; and no
network, no process and no user but its own.
"""

import os
from pathlib import Path
from typing import Final, NamedTuple

from falaj.jobs.running.orders import House
from falaj.runtimes import bubblewrap

HOME: Final = "/job"
SOURCE: Final = f"{HOME}/source"
OUTPUT: Final = f"{HOME}/output"
TEMPORARY: Final = f"{HOME}/tmp"  # nosec B108
CHECKPOINTS: Final = "/checkpoints"  # of a job that has some, whatever becomes of its home
ENVIRONMENT: Final = "/environment"  # where one made from a lock file is, always: its programs name it
PROGRAM: Final = "/falaj/inside.py"
PROGRAM_FILES: Final = ("inside.py", "outputs.py")  # that and what it loads, all in one folder
_SYSTEM: Final = (
    *("/usr", "/lib", "/lib64", "/lib32", "/bin", "/sbin"),
    *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/ssl/certs", "/etc/localtime"),
    "/sys/devices/system",  # how many cores there are
    *sorted(map(str, Path("/etc").glob("java-*"))),  # where Debian keeps what a Java needs to start
)
_FOR_CARDS: Final = ("/sys/bus", "/sys/class", "/sys/devices", "/sys/module")
_ALIAS: Final = "job"


class Inside(NamedTuple):
    """What one sandbox holds besides the house: (outside, inside) pairs to be read or written, device files, shared memory."""

    folder: Path  # for the few files of /etc
    writable: tuple[tuple[str, str], ...]
    readable: tuple[tuple[str, str], ...]
    devices: tuple[str, ...]
    memory_bytes: int  # of /dev/shm; 0 for no bound
    libraries: bool  # those of the platform's own environment can be read
    address: str = ""  # of the host, where the sandbox is on its network; empty for a network of its own


def command(house: House, inside: Inside, control: int) -> list[str]:
    """What runs the program `inside`, which takes its order from the descriptor `control`."""
    size = ("--size", str(inside.memory_bytes)) if inside.memory_bytes else ()
    own = (*bubblewrap.identity(house.user), *(() if house.user else ("--disable-userns",)))
    places = [
        *_SYSTEM,
        *(_FOR_CARDS if inside.devices else ()),
        *house.readable,
        *(house.libraries if inside.libraries else ()),
    ]
    return [
        *(house.bubblewrap, "--die-with-parent", "--new-session", "--clearenv", *own),
        # Nothing of bubblewrap stays inside: its arguments name places of the host.
        *("--unshare-ipc", "--unshare-pid", "--as-pid-1", "--unshare-uts", "--unshare-cgroup-try", "--hostname", _ALIAS),
        *(() if inside.address else ("--unshare-net",)),
        *("--proc", "/proc", "--dev", "/dev", *size, "--perms", "1777", "--tmpfs", "/dev/shm"),  # nosec B108
        *(part for device in inside.devices for part in ("--dev-bind-try", device, device)),
        *("--dir", "/falaj", "--dir", "/falaj/wheels", "--dir", "/falaj/mps", "--dir", "/var"),
        # Before what can be read: an interpreter may lie below /tmp.
        *(part for outside, name in inside.writable for part in ("--bind", outside, name)),
        *bubblewrap.readable(places),
        *_hidden(house.hidden, places),
        *_etc(inside.folder, house.user, inside.address),
        *(part for outside, name in inside.readable for part in ("--ro-bind", outside, name)),
        *(part for file in PROGRAM_FILES for part in ("--ro-bind", *_brought(file))),
        *("--symlink", "/tmp", "/var/tmp"),  # nosec B108
        *("--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/"),
        *("--", house.interpreter, "-I", "-S", "-B", PROGRAM, str(control)),
    ]


def make_home(work: Path, user: int) -> tuple[tuple[str, str], ...]:
    """A job's own folder, as what may be written inside. It counts as disk, and so does what others keep in memory: /tmp."""
    for place in (work, *(work / Path(name).name for name in (SOURCE, OUTPUT, TEMPORARY))):
        place.mkdir(mode=0o700, exist_ok=True)
        if user:
            os.chown(place, user, user)
    (work / Path(TEMPORARY).name).chmod(0o1777)  # bubblewrap passes through it before it is the job's user
    return ((str(work), HOME), (str(work / Path(TEMPORARY).name), "/tmp"))  # nosec B108


def _brought(file: str) -> tuple[str, str]:
    return str(Path(__file__).with_name(file)), str(Path(PROGRAM).with_name(file))


def _hidden(hidden: tuple[str, ...], places: list[str]) -> list[str]:
    """Where the platform's home lies within something that can be read, an empty folder covers it."""
    inside = [place for place in hidden if any(Path(place).is_relative_to(readable) for readable in places)]
    return [part for place in inside for part in ("--tmpfs", place, "--remount-ro", place)]


def _etc(folder: Path, user: int, address: str) -> list[str]:
    """Names for its user and its loopback; nothing of the host's."""
    number = user or bubblewrap.NOBODY
    files = {
        "passwd": f"{_ALIAS}:x:{number}:{number}::{HOME}:/bin/sh\n",
        "group": f"{_ALIAS}:x:{number}:\n",
        "hosts": f"127.0.0.1 localhost\n{address or '127.0.0.1'} {_ALIAS}\n",
        "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    }
    folder.mkdir(exist_ok=True)
    told = []
    for name, text in files.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o644)
        told += ["--ro-bind", str(folder / name), f"/etc/{name}"]
    return told
