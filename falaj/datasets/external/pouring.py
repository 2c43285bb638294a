"""A table of a Postgres as an Arrow stream: read by a process inside walls, which has the network and what opens that database,
and nothing of ours. Its bytes are parsed by a data worker, as any others."""

import contextlib
import json
import threading
from collections.abc import Iterator
from typing import Final

from falaj.base.errors import FalajError, Invalid, Misconfigured, NotFound, Unavailable
from falaj.datasets.external.paths import table_name
from falaj.datasets.external.pins import Pin
from falaj.datasets.external.places import OpenPlace
from falaj.datasets.working.processes import OURS
from falaj.runtimes.sandbox import Sandbox
from falaj.runtimes.walls import Bounds, Program
from falaj.storage.errors import StorageRefused

_SECONDS: Final = 600.0
_PIECE: Final = 1 << 20
_NOT_LET_IN: Final = " lets nobody in "
_REFUSES: Final = " refuses this: "
_BOUNDS: Final = Bounds(seconds=_SECONDS, memory_bytes=2 << 30, threads=1)


def poured(sandbox: Sandbox, place: OpenPlace, pin: Pin) -> Iterator[bytes]:
    """Raises `Invalid` for what the database refuses and `Unavailable` where it does not answer, or not in time."""
    address = place.address
    told = {
        "user": place.user,
        "secret": place.secret,
        "host": address.host,
        "port": address.port,
        "database": address.database,
        "tls": address.tls,
        "table": table_name(pin.path),
        "types": pin.types,
    }
    folders = (address.host,) if address.host.startswith("/") else ()
    program = Program(module="falaj.tables.connectors.pouring", packages=OURS, network=True, folders=folders)
    with sandbox.start(program, _BOUNDS) as process:
        timer = threading.Timer(_SECONDS, process.end, ["It took too long"])
        timer.daemon = True
        timer.start()
        try:
            with contextlib.suppress(BrokenPipeError), process.given as given:
                given.write(json.dumps(told).encode())
            while chunk := process.told.read(_PIECE):
                yield chunk
            if problem := process.outcome():
                raise _told(place, problem)
        finally:
            timer.cancel()


def _told(place: OpenPlace, problem: str) -> FalajError:
    """What it said, with nothing in it that opens the place, whatever that was, nor where it is: who registers tables of a
    place knows its name alone."""
    try:
        answer = json.loads(problem[problem.index("{") :])
        kind, words = str(answer["error"]), str(answer["says"])
    except (ValueError, KeyError, TypeError):
        return Unavailable(f"The place {place.name!r} was not read to the end: it took too long, or broke off.", delay=5)
    if kind == "SourceUnavailable":
        return Unavailable(f"The place {place.name!r} does not answer, or broke off: try again shortly.", delay=5)
    if _NOT_LET_IN in words:
        return StorageRefused(f"The place {place.name!r} refuses its name and password: an operator can set them anew.")
    words = words.partition(_REFUSES)[2] or words
    for secret in (place.secret, place.user, place.address.host):
        words = words.replace(secret, "***") if secret else words
    said = f"The place {place.name!r}: {words}"
    if kind == "LibraryMissing":
        return Misconfigured(said)
    return NotFound(said) if "does not exist" in words else Invalid(said)
