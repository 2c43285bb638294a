"""The walls around users' code: what bubblewrap is told. `sandbox` runs things inside them.

Inside are the interpreter with its libraries, to be read, and a little memory to write to; no network unless a program of ours
needs it, no environment, no process but its own.
"""

import json
import subprocess
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final

import falaj.runtimes.sandboxed as sandboxed
from falaj.base.errors import Misconfigured
from falaj.base.values import value
from falaj.runtimes import bubblewrap

PROGRAMS: Final = "/programs"
_PACKAGE: Final = f"{PROGRAMS}/{sandboxed.__name__.replace('.', '/')}"
_ALSO: Final = {
    "falaj/__init__.py": "__init__.py",
    "falaj/runtimes/__init__.py": "__init__.py",
    "falaj/runtimes/datatypes.py": "../datatypes.py",
}
_SYSTEM: Final = ("/usr", "/lib", "/lib64", "/lib32", "/bin", "/etc/ld.so.cache", "/etc/alternatives")
# By which names and certificates of hosts are known, for programs that may use the network.
_NETWORK: Final = ("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/ssl", "/etc/pki", "/etc/ca-certificates")
_FIRST_USER: Final = 2_000_000_000  # far from anybody's


@value
class Bounds:
    """`seconds` is for all of a run; `memory_bytes` for each process, for all of them together, and for what they write;
    `processes` counts threads, too. `files` may be open at a time, and `file_bytes`, where it is not 0, is the most that one of
    them may have that is written."""

    seconds: float = 300.0
    memory_bytes: int = 8 << 30
    output_bytes: int = 4 << 30
    processes: int = 512
    threads: int = 2
    files: int = 1024
    file_bytes: int = 0


@value
class Program:
    """A module to run inside, with what of ours it needs: folders by the package they are. `files` are descriptors that it
    gets, told of as its arguments. Only one of ours that runs nobody's code may have the `network`; `folders` it can read
    besides."""

    module: str
    packages: Mapping[str, Path]
    files: tuple[int, ...] = ()
    network: bool = False
    folders: tuple[str, ...] = ()


def sandboxed_program(name: str) -> Program:
    """One of `sandboxed`."""
    return Program(module=f"{sandboxed.__name__}.{name}", packages={})


def command(interpreter: str, program: Program, bounds: Bounds) -> list[str]:
    """What runs a program inside the walls. Raises `Misconfigured` where they cannot be built."""
    started_by, user = bubblewrap.program("Users' code runs"), bubblewrap.own_user(_FIRST_USER)
    here = Path(sandboxed.__file__).parent
    size = str(bounds.memory_bytes)
    said = {
        "program": program.module,
        "arguments": [str(file) for file in program.files],
        "programs": PROGRAMS,
        "user": user,
        "memory_bytes": bounds.memory_bytes,
        "processes": bounds.processes,
        "files": bounds.files,
        "file_bytes": bounds.file_bytes,
    }
    ours = {f"{PROGRAMS}/{package.replace('.', '/')}": str(folder) for package, folder in program.packages.items()}
    return [
        *(started_by, "--die-with-parent", "--new-session", "--clearenv", *bubblewrap.identity(user)),
        *("--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try"),
        *(() if program.network else ("--unshare-net",)),
        *("--proc", "/proc", "--dev", "/dev"),
        *("--size", size, "--perms", "1777", "--tmpfs", "/dev/shm", "--size", size, "--perms", "1777", "--tmpfs", "/tmp"),  # nosec B108 - inside the walls
        *bubblewrap.readable([*_SYSTEM, *_places_of(interpreter), *(_NETWORK if program.network else ()), *program.folders]),
        *("--dir", _PACKAGE, "--ro-bind", str(here), _PACKAGE),
        *(part for name, ours in _ALSO.items() for part in ("--ro-bind", str(here / ours), f"{PROGRAMS}/{name}")),
        *(part for place, folder in ours.items() for part in ("--dir", place, "--ro-bind", folder, place)),
        *("--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/tmp"),  # nosec B108 - inside the walls
        *_environment(bounds.threads),
        *("--", interpreter, "-I", "-B", f"{_PACKAGE}/enter.py", json.dumps(said)),
    ]


def _environment(threads: int) -> list[str]:
    variables = {
        "PATH": "/usr/bin:/bin",
        "HOME": "/tmp",  # nosec B108 - inside the walls
        "USER": "model",
        "LANG": "C.UTF-8",
        "OMP_NUM_THREADS": str(threads),
        "MALLOC_ARENA_MAX": "2",  # each further one takes of the bound on addresses
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }
    return [part for name, text in variables.items() for part in ("--setenv", name, text)]


@lru_cache(maxsize=8)
def _places_of(interpreter: str) -> tuple[str, ...]:
    """Where an interpreter and its libraries lie; of further folders that it knows only those that hold libraries alone."""
    ask = "import os, sys, json; print(json.dumps([sys.prefix, sys.base_prefix, os.path.realpath(sys.executable), sys.path]))"
    try:
        told = subprocess.run([interpreter, "-I", "-c", ask], capture_output=True, check=True, timeout=30).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise Misconfigured(f"{interpreter} is no Python that can be run: {error}. See [serving] converter.") from None
    *places, paths = json.loads(told)
    return tuple(dict.fromkeys([*places, *bubblewrap.libraries(paths)]))
