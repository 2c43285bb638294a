"""Our own interpreter where nothing is that it usually stands on: what to bring along, and how to start it there.

An image may have no interpreter, no C library, or another one; the first process inside is ours all the same.
"""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from falaj.jobs.running.locks import Unusable

_PLACE: Final = "/falaj/python"
_LIBRARIES: Final = "/falaj/libraries"
_PATIENCE: Final = 60.0
# All that `inside` may import; what is mapped then is what it needs.
_MAPPED: Final = """
import array, contextlib, ctypes, errno, importlib, json, os, resource, select, signal, socket, tarfile, time
print(json.dumps(sorted({line.split(None, 5)[5].strip() for line in open("/proc/self/maps") if "/" in line})))
"""


class Parts(NamedTuple):
    """`loader` starts `program`, or nothing does where that is empty; shared libraries are in `folders`."""

    program: str
    library: str
    loader: str
    folders: tuple[str, ...]


@cache
def own_parts() -> Parts:
    """Of the interpreter that runs us. Raises `Unusable` where it cannot tell."""
    program, library = os.path.realpath(sys.executable), str(Path(os.__file__).resolve().parent)
    try:
        said = subprocess.run(
            [program, "-I", "-S", "-c", _MAPPED], capture_output=True, check=True, timeout=_PATIENCE, env={}
        ).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise Unusable(f"the platform's interpreter does not say what it is made of: {error}") from None
    return read_parts(program, library, json.loads(said))


def read_parts(program: str, library: str, mapped: list[str]) -> Parts:
    """From the files that such an interpreter had mapped."""
    shared = [Path(file) for file in mapped if ".so" in Path(file).name and not Path(file).is_relative_to(library)]
    loader = next((str(file) for file in shared if file.name.startswith(("ld-", "ld."))), "")
    return Parts(program, library, loader, tuple(dict.fromkeys(str(file.parent) for file in shared)))


def brought(parts: Parts) -> list[tuple[str, str]]:
    """(outside, inside)"""
    version = f"{_PLACE}/{sys.platlibdir}/{Path(parts.library).name}"
    libraries = [(folder, f"{_LIBRARIES}/{number}") for number, folder in enumerate(parts.folders)]
    return [(parts.program, f"{_PLACE}/bin/python3"), (parts.library, version), *libraries]


def started(parts: Parts) -> list[str]:
    """What starts it inside, before its own arguments."""
    program = [f"{_PLACE}/bin/python3", "-I", "-S", "-B"]
    if not parts.loader:
        return program
    folder = parts.folders.index(str(Path(parts.loader).parent))
    path = ":".join(f"{_LIBRARIES}/{number}" for number in range(len(parts.folders)))
    return [f"{_LIBRARIES}/{folder}/{Path(parts.loader).name}", "--library-path", path, *program]
