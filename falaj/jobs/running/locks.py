"""Lock files as jobs bring them: what they may say, and the name of the environment that is made from one."""

import hashlib
import json
import os
import re
import sys
from typing import Final

from falaj.jobs.running.orders import Packages

_NAME: Final = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_MARKER: Final = r";(?:(?!\s-)[^#])*"  # in which an option would hide from us, and not from pip
_PINNED: Final = re.compile(rf"{_NAME}(?:\s*\[[A-Za-z0-9._, -]*\])?\s*={{2,3}}\s*[A-Za-z0-9][A-Za-z0-9.!+_-]*\s*(?:{_MARKER})?")
_HASH: Final = re.compile(r"\s--hash[= ](sha(?:256|384|512):[0-9a-f]+)")


class Unusable(Exception):
    """A lock that no environment can be made from, with the line that says why."""


def checked(lock: str) -> str:
    """The lock without comments, one requirement a line. Each names one version; options would let it reach elsewhere."""
    told = []
    text = re.sub(r"\\\r?\n", " ", lock)
    for number, raw in enumerate(text.splitlines(), 1):
        line = re.sub(r"(^|\s)#.*$", "", raw).strip()
        if not line or line == "--require-hashes":
            continue
        hashes, requirement = _HASH.findall(line), _HASH.sub("", line).strip()
        if not _PINNED.fullmatch(requirement):
            raise Unusable(f"line {number} of the lock is {line[:100]!r}: each names one version, such as numpy==2.3.1")
        told.append(" ".join([requirement, *(f"--hash={one}" for one in hashes)]))
    return "\n".join(told) + "\n"


def named(requirements: str, interpreter: str, packages: Packages) -> str:
    """What an environment is known by."""
    about = [requirements, os.path.realpath(interpreter), sys.version, packages.indexes, packages.links]
    return hashlib.sha256(json.dumps(about).encode()).hexdigest()[:40]
