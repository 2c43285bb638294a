"""What sends requests and measures: `wrk` for REST, and `load.c` for gRPC, for a constant rate and for checking answers.

`h2load` is not used: it sends one body and one set of headers, and takes a gRPC error for a success, as HTTP says 200.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from falaj.base.values import value
from serving_peers.request_files import read_parts
from serving_peers.server_processes import CLIENT_CORE, Family, busy_seconds, children_seconds, cpu_seconds

HERE = Path(__file__).parent
PACKAGES = "apt-get install wrk gcc libnghttp2-dev util-linux"


class Missing(Exception):
    """Something this benchmark needs and cannot make itself."""


@value
class Load:
    """What a generator saw. `other` is how much of a core anything but server and client used meanwhile."""

    requests: int
    seconds: float
    p50_ms: float
    p90_ms: float
    p99_ms: float
    max_ms: float
    errors: int
    non2xx: int
    other: float = 0.0
    server: float = 0.0
    client: float = 0.0
    said: str = ""  # to the first request that was refused

    @property
    def rate(self) -> float:
        return self.requests / self.seconds

    @property
    def clean(self) -> bool:
        return self.errors == 0 and self.non2xx == 0 and self.requests > 0


def prepare_tools(folder: Path) -> Path:
    """Where `load` is, compiled where it is missing or older than its source."""
    absent = [tool for tool in ("wrk", "taskset", "gcc") if shutil.which(tool) is None]
    if absent:
        raise Missing(f"{', '.join(absent)} not found; on Debian: {PACKAGES}")
    source, program = HERE / "load.c", folder / "load"
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        command = ["gcc", "-O2", "-o", str(program), str(source), "-lnghttp2"]
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        if made.returncode:
            raise Missing(f"{source.name} did not compile; on Debian: {PACKAGES}\n{made.stderr[-600:]}")
    return program


@value
class Generators:
    program: Path
    answers: Path  # a file that checks overwrite

    def closed(self, http2: bool, port: int, file: Path, connections: int, seconds: float) -> Load:
        """As fast as the server answers. HTTP/1.1 is `wrk`'s; its first second is a run of its own and not counted."""
        if http2:
            return self._load("h2", port, connections, seconds, 1.0, 0.0, file)
        return self.wrk(f"http://127.0.0.1:{port}", file, connections, seconds)

    def wrk(self, url: str, file: Path, connections: int, seconds: float) -> Load:
        for lasting in (1, max(1, round(seconds))):
            command = ["wrk", "-t1", f"-c{connections}", f"-d{lasting}s", "--timeout", "20s", "-s", HERE / "requests.lua", url]
            told = _told(command, {"REQUESTS": str(file)})
        return Load(**told)

    def open(self, port: int, file: Path, connections: int, seconds: float, rate: float) -> Load:
        """At a constant rate, over HTTP/1.1; a request's time runs from when it was due."""
        return self._load("h1", port, connections, seconds, 1.0, rate, file)

    def check(self, http2: bool, port: int, file: Path, connections: int) -> list[bytes]:
        """Every request once; the answers in their order."""
        self.answers.unlink(missing_ok=True)
        load = self._load("h2" if http2 else "h1", port, connections, 60.0, 0.0, 0.0, file, self.answers)
        if load.errors or load.non2xx:
            raise RuntimeError(f"{load.non2xx} requests were refused and {load.errors} lost; {load.said}")
        return read_parts(self.answers)

    def _load(self, kind: str, port: int, connections: int, seconds: float, warm_up: float, rate: float, *files: Path) -> Load:
        numbers = (port, connections, seconds, warm_up, rate)
        return Load(**_told([self.program, kind, *map(str, numbers), *files], {}))


def _told(command: list[Any], environment: dict[str, str]) -> dict[str, Any]:
    pinned = ["taskset", "-c", str(CLIENT_CORE), *map(str, command)]
    done = subprocess.run(pinned, env=os.environ | environment, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(pinned)}: {done.stderr[-600:]}")
    return dict(json.loads(done.stdout.splitlines()[-1])) | {"said": done.stderr.strip()}


def least_disturbed(family: Family, load: Callable[[], Load], *, tries: int = 3, quiet: float = 0.15) -> Load:
    """The try during which the rest of the machine did least, of those without an error; the first quiet one is enough."""
    best: Load | None = None
    for _ in range(tries):
        busy, server, client = busy_seconds(), cpu_seconds(family), children_seconds()
        found = _accounted(load(), busy, server, client, family)
        if best is None or (not found.clean, found.other) < (not best.clean, best.other):
            best = found
        if found.clean and found.other < quiet:
            break
    assert best is not None
    return best


def _accounted(load: Load, busy: float, server: float, client: float, family: Family) -> Load:
    used, mine, all_of_it = cpu_seconds(family) - server, children_seconds() - client, busy_seconds() - busy
    lasted = load.seconds + 1  # the warm-up counts as time
    return Load(
        requests=load.requests,
        seconds=load.seconds,
        p50_ms=load.p50_ms,
        p90_ms=load.p90_ms,
        p99_ms=load.p99_ms,
        max_ms=load.max_ms,
        errors=load.errors,
        non2xx=load.non2xx,
        said=load.said,
        other=max(0.0, all_of_it - used - mine) / lasted,
        server=used / lasted,
        client=mine / lasted,
    )
