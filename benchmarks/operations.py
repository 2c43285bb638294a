"""What governance costs: a write with identity, policy and ledger against the same write without, and what group commit gains.

make bench-operations        the last line is one JSON object
"""

import argparse
import hashlib
import itertools
import json
import os
import secrets
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, cast

import psutil
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from load import http_request, requests_per_second
from sqlalchemy import Column, String, Table, insert

from falaj.app.home import Home
from falaj.app.platform import Platform, open_platform
from falaj.app.server import listen, serve
from falaj.app.settings import Settings
from falaj.base.clock import SystemClock
from falaj.base.ids import new_id
from falaj.base.operation import Group, Operation, Permission, Record, Scope
from falaj.base.values import Id, Message, Name, Text, value
from falaj.database.binding import bind
from falaj.database.work import Context, UnitOfWork, metadata
from falaj.governance.policies.store import put_policy
from falaj.governance.projects.operations import SHOW_PROJECT
from falaj.storage.blobs import Blobs
from falaj.storage.chunks import CHUNK, Hashing, cut
from falaj.storage.sealed import Sealed, unsealed

HERE = Path(__file__).parent
PEER_PACKAGES = ("fastapi", "uvicorn", "uvloop", "httptools", "sqlalchemy")
notes = Table("bench_notes", metadata, Column("id", String(32), primary_key=True), Column("text", String(200), nullable=False))


@value
class Note(Message):
    project: Name
    text: Annotated[str, Text(longest=200)]


@value
class Noted(Message):
    id: Id
    text: str


NOTE = Operation(
    name="note.create",
    summary="Insert one row",
    method="POST",
    path="projects/{project}/notes",
    request=Note,
    result=Noted,
    permission=Permission(name="note.create", group=Group.WRITE),
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)


def note(context: Context, request: Note) -> Noted:
    noted = Noted(id=new_id(context.now), text=request.text)
    context.work.execute(insert(notes).values(id=noted.id, text=noted.text))
    return noted


def serve_falaj(folder: Path) -> None:
    """The platform with its shipped settings and one operation more, which does the peer's insert."""
    home = Home(path=folder)
    with open_platform(home, Settings(), clock=SystemClock(), bindings=[bind(NOTE, note)]) as platform:
        platform.database.write(lambda work: notes.create(work.connection))
        listener = listen("127.0.0.1", 0)
        app = platform.application(hosts={"127.0.0.1"}, tls=False)
        told = {"url": f"http://127.0.0.1:{listener.getsockname()[1]}", "token": platform.owner_token()}

        def ready() -> None:
            platform.start_loops()
            print(json.dumps(told), flush=True)

        serve(app, listener, certificate="", private_key="", ready=ready)


@contextmanager
def falaj_server(folder: Path, environment: dict[str, str]) -> Iterator[tuple[str, str, psutil.Process]]:
    command = [sys.executable, __file__, "--serve", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ | environment, text=True) as process:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        try:
            yield told["url"], told["token"], psutil.Process(process.pid)
        finally:
            process.terminate()


@contextmanager
def bare_server(folder: Path, environment: dict[str, str]) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    folder.mkdir()
    command = [str(peer_python()), str(HERE / "bare_insert.py"), str(folder / "bare.db"), str(port)]
    with subprocess.Popen(command, env=os.environ | environment) as process:
        try:
            wait_for(port)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def wait_for(port: int) -> None:
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise RuntimeError("the peer did not start")


def peer_python() -> Path:
    """The peer's own environment, made on first use."""
    venv = HERE.parent / ".bench" / "operations"
    if not (venv / "ready").exists():
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        subprocess.run([venv / "bin/pip", "install", "-q", *PEER_PACKAGES], check=True, stderr=subprocess.DEVNULL)
        (venv / "ready").touch()
    return venv / "bin/python"


def slow_disk(folder: Path) -> dict[str, str]:
    """An environment in which every fsync takes 20 ms longer."""
    library = folder / "slow_fsync.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O2", "-o", library, HERE / "slow_fsync.c", "-ldl"], check=True)
    return {"LD_PRELOAD": str(library), "FSYNC_DELAY_MS": "20"}


def writes(url: str, token: str, connections: int, seconds: float) -> float:
    path = "/v1/projects/default/notes" if token else "/v1/notes"
    bodies = (json.dumps({"text": f"note {number}"}).encode() for number in itertools.count())
    return requests_per_second(
        url,
        connections=connections,
        seconds=seconds,
        next_request=lambda: http_request("POST", url, path, token=token, body=next(bodies)),
    )


def reads(url: str, token: str, seconds: float) -> float:
    request = http_request("GET", url, "/v1/projects/default", token=token)
    return requests_per_second(url, connections=8, seconds=seconds, next_request=lambda: request)


def measure_writes(folder: Path, seconds: float) -> dict[str, float]:
    """Falaj and the peer take turns, so that a noisy moment hits both; the median of the ratios counts."""
    ratios, ones, figures = [], [], dict[str, float]()
    with falaj_server(folder / "quick", {}) as (url, token, process), bare_server(folder / "bare", {}) as bare:
        writes(url, token, 1, 1), writes(bare, "", 1, 1)
        for _ in range(5):
            ones.append(writes(url, token, 1, seconds / 4))
            ratios.append(writes(bare, "", 1, seconds / 4) / ones[-1])
        figures["write_overhead_x"] = statistics.median(ratios)
        figures["writes_per_s_1"] = statistics.median(ones)
        figures["writes_per_s_32"] = writes(url, token, 32, seconds)
        figures["bare_writes_per_s_32"] = writes(bare, "", 32, seconds)
        figures["reads_per_s"] = reads(url, token, seconds)
        figures["rss_mb"] = process.memory_info().rss / 1e6
    slow = slow_disk(folder)
    with falaj_server(folder / "slow", slow) as (url, token, _):
        grouped = writes(url, token, 32, seconds)
    with bare_server(folder / "bare-slow", slow) as bare:
        figures["group_commit_x"] = grouped / writes(bare, "", 32, seconds)
    return figures


def measure_policy(folder: Path) -> float:
    """One decision of Cedar with 20 policies, nothing remembered."""
    with open_platform(Home(path=folder), Settings(), clock=SystemClock()) as platform:
        token = platform.owner_token()
        return platform.database.write(lambda work: decide(platform, work, token))


def decide(platform: Platform, work: UnitOfWork, token: str) -> float:
    now, gate = platform.clock.now(), platform.gate
    for number in range(20 - len(gate.cedar.builtin_rules)):
        text = f'forbid (principal, action, resource) when {{ context has target_zone && context.target_zone == "z{number}" }};'
        put_policy(work, "platform", f"bench-{number}", text, now=now)
    identity = gate.authenticate(work, token, now)
    generation = gate.generation(work)
    standing, project = gate.standing(work, generation, identity.principal), gate.project(work, generation, "default")
    asked = SHOW_PROJECT.permission
    assert standing is not None
    assert project is not None
    times = []
    for _ in range(500):
        started = time.perf_counter()
        ruling = gate.rule(work, generation, identity, standing, asked.name, asked.group, project, "")
        times.append(time.perf_counter() - started)
        assert ruling.allowed
    return statistics.median(times) * 1e6


class Nowhere:
    """A store that forgets what it is given, as the limit does: sealing is measured, not the disk or the memory."""

    def put(self, _object_id: str, chunks: Iterator[bytes]) -> int:
        return sum(len(chunk) for chunk in chunks)


class Memory:
    """A store of one object in memory."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []

    def put(self, _object_id: str, chunks: Iterator[bytes]) -> int:
        self.pieces = list(chunks)
        return sum(map(len, self.pieces))

    def read(self, _object_id: str, offset: int, length: int) -> Iterator[bytes]:
        assert offset == 0
        yield from self.pieces


def measure_sealing() -> dict[str, float]:
    """Sealing with its digest, and unsealing, against hashing and encrypting the same bytes one after the other."""
    data, key, object_id = secrets.token_bytes(256 * CHUNK), AESGCM.generate_key(256), secrets.token_hex(16)
    pieces = [data[start : start + CHUNK] for start in range(0, len(data), CHUNK)]
    seals, unseals, memory = [], [], Memory()
    Sealed(cast(Blobs, memory), lambda _: key).put(object_id, iter(pieces))
    for _ in range(5):
        started = time.perf_counter()
        digest, cipher = hashlib.sha256(), AESGCM(key)
        for number, piece in enumerate(pieces):
            digest.update(piece)
            cipher.encrypt(number.to_bytes(12), piece, None)
        limit = time.perf_counter() - started
        started = time.perf_counter()
        Sealed(cast(Blobs, Nowhere()), lambda _: key).put(object_id, Hashing(cut(iter(pieces), CHUNK)))
        seals.append(limit / (time.perf_counter() - started))
        started = time.perf_counter()
        for _ in unsealed(cast(Blobs, memory), object_id, key, size=len(data), offset=0, length=len(data)):
            pass
        unseals.append(limit / (time.perf_counter() - started))
    return {"seal_x_limit": statistics.median(seals), "unseal_x_limit": statistics.median(unseals)}


def measure_start(folder: Path) -> float:
    """From the command to the first answer, on a home that does not exist yet."""
    times = []
    for number in range(3):
        home = folder / f"start-{number}"
        started = time.perf_counter()
        command: list[str | Path] = [Path(sys.executable).with_name("falaj"), "up", "--home", home, "--port", "0"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            while not (home / "server.json").exists():
                time.sleep(0.01)
            wait_for(int(json.loads((home / "server.json").read_text())["url"].rpartition(":")[2]))
            times.append(time.perf_counter() - started)
            process.terminate()
    return statistics.median(times)


def measure_help() -> float:
    times = []
    for _ in range(7):
        started = time.perf_counter()
        subprocess.run([Path(sys.executable).with_name("falaj"), "--help"], check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - started)
    return statistics.median(times)


GOALS = {
    "write_overhead_x": "at most 2",
    "group_commit_x": "at least 8",
    "policy_us": "at most 300",
    "seal_x_limit": "at least 0.8",
    "unseal_x_limit": "at least 0.8",
    "start_s": "at most 3",
    "rss_mb": "at most 200",
    "help_s": "at most 0.4",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=8, help="how long each load lasts")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve_falaj(arguments.serve)
        return
    folder = Path(tempfile.mkdtemp(prefix="falaj-bench-"))
    try:
        figures = measure_writes(folder, arguments.seconds)
        figures["policy_us"] = measure_policy(folder / "policy")
        figures |= measure_sealing()
        figures["start_s"] = measure_start(folder)
        figures["help_s"] = measure_help()
    finally:
        shutil.rmtree(folder)
    for name, figure in figures.items():
        print(f"{name:24} {figure:12.2f}   {GOALS.get(name, '')}")
    print(json.dumps({name: round(figure, 3) for name, figure in figures.items()}))


if __name__ == "__main__":
    main()
