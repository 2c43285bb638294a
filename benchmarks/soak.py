"""Mixed load on a real platform for as long as you like, kill -9 in between. Every answer is checked; in the end, every effect.

make soak SOAK_MINUTES=60        the last line is one JSON object; the exit status is 1 where anything was wrong
"""

import argparse
import json
import os
import random
import secrets
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil

FALAJ = (sys.executable, "-m", "falaj.cli.main")
PATIENCE = 60.0
SIZES = (40, 1_000, 70_000, 70_000, 1_500_000)
MOST_BLOBS, MOST_TOKENS, MOST_PROJECTS = 30, 20, 100  # what one client has at a time
BACKUPS_KEPT = 2
GROWTH_MB, GROWTH_X = 24.0, 1.10  # how much larger the process may be at the end of its last life than early in it
MORE_FILES = 16


class Platform:
    """`falaj up` in a folder of its own. It is killed and comes back at another address."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.up = threading.Event()
        self.url = self.token = ""
        self._output = folder / "output"
        kept = {name: text for name, text in os.environ.items() if not name.startswith("FALAJ_")}
        self._environment = kept | {"FALAJ_HOME": str(self.home)}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._output.open("ab") as output:
            # The kernel ends it should this process end without having done so.
            command = ["setpriv", "--pdeathsig", "KILL", "--", *FALAJ, "up", "--port", "0"]
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=self._environment
            )
        deadline = time.monotonic() + PATIENCE
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the platform did not start:\n{self._output.read_text(errors='replace')[-4000:]}")
            time.sleep(0.02)
        self.token = json.loads((self.home / "credentials.json").read_text())["token"]
        self.up.set()

    def _answers(self) -> bool:
        """A killed process leaves its `server.json` behind, so the process id must be ours."""
        assert self._process is not None
        try:
            told = json.loads((self.home / "server.json").read_text())
            if told["pid"] != self._process.pid:
                return False
            self.url = told["url"]
            return httpx.get(f"{self.url}/healthz", timeout=5, trust_env=False).status_code == 200
        except (OSError, ValueError, httpx.TransportError):
            return False

    def kill(self) -> None:
        self.up.clear()
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> int:
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(PATIENCE)

    def measure(self) -> tuple[float, int]:
        """Megabytes of memory, and open files."""
        assert self._process is not None
        if self._process.poll() is not None:
            self.up.clear()
            raise RuntimeError(f"the platform died by itself:\n{self._output.read_text(errors='replace')[-4000:]}")
        process = psutil.Process(self._process.pid)
        return process.memory_info().rss / 1e6, process.num_fds()

    def falaj(self, *words: str) -> int:
        return subprocess.run([*FALAJ, *words], env=self._environment, stdout=subprocess.DEVNULL, check=False).returncode


@dataclass
class Books:
    """What all clients were told, and what was wrong with it."""

    calls: Counter[str] = field(default_factory=Counter)
    recorded: dict[str, str] = field(default_factory=dict)  # request id -> the outcome that its leaf must have
    wrong: list[str] = field(default_factory=list)
    closing: threading.Event = field(default_factory=threading.Event)

    def expect(self, condition: object, otherwise: str) -> None:
        if not condition:
            self.wrong.append(otherwise)
            print(f"WRONG: {otherwise}", file=sys.stderr, flush=True)


class Closing(Exception):
    """The soak ends while the platform is away."""


class Connection:
    """Asks until it is answered. A change is repeated under its idempotency key, so that it is done once."""

    def __init__(self, platform: Platform, books: Books, token: str) -> None:
        self._platform = platform
        self._books = books
        self._headers = {"authorization": f"Bearer {token}"} if token else {}
        self._http: httpx.Client | None = None

    def ask(self, method: str, path: str, *expected: int, leaf: str = "", **content: Any) -> httpx.Response:
        """`leaf` is the outcome that the answer's leaf must have, where it must have one."""
        headers = {"idempotency-key": secrets.token_hex(16)} if method != "GET" else {}
        if "content" in content:
            headers["content-type"] = "application/octet-stream"
        answer, repeated = self._answer(lambda http: http.request(method, path, headers=headers, **content))
        status = answer.status_code
        self._books.calls[f"{method} {status}"] += 1
        if repeated and method == "POST" and status == 409:
            return answer  # it was done, and its answer held a secret, which is shown once
        self._books.expect(status in (expected or (200,)), f"{method} {path}: {status} {answer.text[:300]}")
        if leaf and not repeated:
            self._books.recorded[answer.headers["x-request-id"]] = leaf
        return answer

    def _answer(self, send: Callable[[httpx.Client], httpx.Response]) -> tuple[httpx.Response, bool]:
        repeated = False
        while True:
            try:
                if self._http is None:
                    self._http = self._connect()
                return send(self._http), repeated
            except httpx.TransportError:
                repeated = True
                self.close()
                time.sleep(0.05)

    def _connect(self) -> httpx.Client:
        while not self._platform.up.wait(0.5):
            if self._books.closing.is_set():
                raise Closing
        return httpx.Client(base_url=self._platform.url, headers=self._headers, timeout=PATIENCE, trust_env=False)

    def close(self) -> None:
        if self._http is not None:
            self._http.close()
            self._http = None

    def items(self, path: str, **query: str) -> Iterator[dict[str, Any]]:
        cursor = ""
        while True:
            page = self.ask("GET", path, params={"limit": "1000", "cursor": cursor} | query).json()
            yield from page["items"]
            if not (cursor := page["next"]):
                return


def content_of(name: str) -> bytes:
    """A blob's name says what is in it, so that nothing need be remembered."""
    source = random.Random(name)
    return source.randbytes(source.choice(SIZES))


class Client(threading.Thread):
    """Somebody at work in a project of his own. What he is told he notes, and holds the platform to it."""

    def __init__(self, platform: Platform, books: Books, number: int, pause: float) -> None:
        super().__init__(name=f"client-{number}")
        self._platform = platform
        self._books = books
        self._pause = pause
        self._project = f"soak-{number}"
        self._me = Connection(platform, books, platform.token)
        self._stranger = Connection(platform, books, "")
        self._viewer = self._stranger
        self._projects: list[str] = []
        self._blobs: dict[str, str] = {}  # id -> name
        self._deleted: list[str] = []
        self._tokens: dict[str, str] = {}  # id -> secret
        self._revoked: set[str] = set()
        self._rotations = 0

    def run(self) -> None:
        steps: dict[Callable[[], None], int] = {
            self.put: 30,
            self.read: 30,
            self.delete: 15,
            self.look_around: 15,
            self.be_refused: 10,
            self.make_token: 4,
            self.revoke_token: 3,
            self.make_project: 1,
            self.rotate: 1,
        }
        try:
            self.settle()
            while not self._books.closing.is_set():
                random.choices(list(steps), list(steps.values()))[0]()
                time.sleep(self._pause)
        except Closing:
            pass
        except Exception as error:
            self._books.expect(False, f"{self.name} broke: {error!r}")
            raise
        finally:
            for connection in (self._me, self._stranger, self._viewer):
                connection.close()

    def settle(self) -> None:
        self._me.ask("POST", "/v1/projects", json={"name": self._project, "zones": ["home"]}, leaf="done")
        services = f"/v1/projects/{self._project}/services"
        self._me.ask("POST", services, json={"name": "viewer", "role": "viewer"}, leaf="done")
        while (made := self._me.ask("POST", f"{services}/viewer/tokens", json={"label": "viewer"})).status_code == 409:
            pass  # killed between doing and telling; what is shown once is then asked for anew
        self._viewer = Connection(self._platform, self._books, made.json()["token"])

    @property
    def _path(self) -> str:
        return f"/v1/projects/{self._project}"

    def put(self) -> None:
        if len(self._blobs) >= MOST_BLOBS:
            return
        name = secrets.token_hex(8)
        put = self._me.ask("POST", f"{self._path}/blobs", params={"name": name}, content=content_of(name), leaf="done")
        self._blobs[put.json()["id"]] = name

    def read(self) -> None:
        if not self._blobs:
            return
        blob, name = random.choice(list(self._blobs.items()))
        content = content_of(name)
        start = random.choice((0, 0, random.randrange(len(content))))
        length = random.choice((0, random.randint(1, len(content))))
        query = {"offset": str(start), "length": str(length)}
        got = self._viewer.ask("GET", f"{self._path}/blobs/{blob}/content", params=query, leaf="done")
        wanted = content[start : start + length] if length else content[start:]
        self._books.expect(got.content == wanted, f"blob {blob} came back changed, {query}")

    def delete(self) -> None:
        if not self._blobs:
            return
        blob = random.choice(list(self._blobs))
        dropped = self._me.ask("DELETE", f"{self._path}/blobs/{blob}", leaf="done")
        self._books.expect(dropped.json().get("shredded") is True, f"blob {blob} was not shredded: {dropped.text}")
        del self._blobs[blob]
        self._deleted.append(blob)

    def look_around(self) -> None:
        path = random.choice((self._path, f"{self._path}/key", "/v1/projects", "/v1/zones", "/v1/identity", "/v1/platform"))
        self._viewer.ask("GET", path)
        if self._deleted:
            self._viewer.ask("GET", f"{self._path}/blobs/{random.choice(self._deleted)}", 404)

    def be_refused(self) -> None:
        kind = random.randrange(5)
        if kind == 0:
            self._viewer.ask("POST", f"{self._path}/blobs", 403, content=b"x", leaf="refused")
        elif kind == 1:
            self._viewer.ask("GET", "/v1/projects/default/blobs", 404, leaf="refused")
        elif kind == 2:
            self._stranger.ask("GET", self._path, 401)
        elif kind == 3:
            self._me.ask("POST", "/v1/projects", 400, json={"name": "No Such Name", "zones": []})
        elif self._revoked and (secret := random.choice(list(self._revoked))):
            revoked = Connection(self._platform, self._books, secret)
            revoked.ask("GET", "/v1/identity", 401)
            revoked.close()

    def make_token(self) -> None:
        if len(self._tokens) >= MOST_TOKENS:
            return
        made = self._me.ask("POST", "/v1/tokens", json={"label": self._project, "days": 1}, leaf="done")
        if made.status_code == 200:
            self._tokens[made.json()["id"]] = made.json()["token"]

    def revoke_token(self) -> None:
        if self._tokens:
            id, secret = self._tokens.popitem()
            self._me.ask("DELETE", f"/v1/tokens/{id}", leaf="done")
            self._revoked.add(secret)

    def make_project(self) -> None:
        if len(self._projects) >= MOST_PROJECTS:
            return
        name = f"{self._project}-{secrets.token_hex(6)}"
        self._me.ask("POST", "/v1/projects", json={"name": name, "zones": ["home"]}, leaf="done")
        self._projects.append(name)

    def rotate(self) -> None:
        self._me.ask("POST", f"{self._path}/key/rotate", leaf="done")
        self._rotations += 1

    def check(self) -> None:
        """In the end, everything he was told is so, and nothing else is there."""
        expect = self._books.expect
        there = {each["id"]: each["name"] for each in self._me.items(f"{self._path}/blobs")}
        expect(there == self._blobs, f"{self._project}: blobs {there} and not {self._blobs}")
        for blob, name in there.items():
            got = self._viewer.ask("GET", f"{self._path}/blobs/{blob}/content", leaf="done")
            expect(got.content == content_of(name), f"blob {blob} is not what was stored")
        names = [each["name"] for each in self._me.items("/v1/projects") if each["name"].startswith(f"{self._project}-")]
        expect(sorted(names) == sorted(self._projects), f"{self._project}: projects {names} and not {self._projects}")
        for secret in self._tokens.values():
            self._ask_once(secret, 200)
        for secret in list(self._revoked)[:20]:  # strangers may not ask more often than the platform lets them
            self._ask_once(secret, 401)
        deadline = time.monotonic() + PATIENCE
        while (key := self._me.ask("GET", f"{self._path}/key").json())["rotating"] and time.monotonic() < deadline:
            time.sleep(0.1)
        expect(not key["rotating"], f"{self._project}: the rotation does not end: {key}")
        expect(bool(key["version"] > 1) == bool(self._rotations), f"{self._project}: {self._rotations} rotations, and {key}")
        for connection in (self._me, self._stranger, self._viewer):
            connection.close()

    def _ask_once(self, secret: str, expected: int) -> None:
        connection = Connection(self._platform, self._books, secret)
        connection.ask("GET", "/v1/identity", expected)
        connection.close()


class Operator(threading.Thread):
    """Makes backups now and then, keeps the newest, and looks at the ledger and the metrics."""

    def __init__(self, platform: Platform, books: Books, every: float) -> None:
        super().__init__(name="operator")
        self._platform = platform
        self._books = books
        self._every = every
        self._me = Connection(platform, books, platform.token)
        self.made: list[str] = []

    def run(self) -> None:
        try:
            while not self._books.closing.wait(self._every):
                self.made.append(self._me.ask("POST", "/v1/platform/backups", leaf="done").json()["name"])
                for name in self.made[:-BACKUPS_KEPT]:
                    (self._platform.home / "backups" / name).unlink(missing_ok=True)
                self._me.ask("GET", "/v1/audit/log", params={"limit": "50"}, leaf="done")
                self._me.ask("GET", "/metrics")
        except Closing:
            pass
        except Exception as error:
            self._books.expect(False, f"{self.name} broke: {error!r}")
            raise
        finally:
            self._me.close()


@dataclass
class Life:
    """Samples of one process, from its start to its end."""

    memory: list[float] = field(default_factory=list)
    files: list[int] = field(default_factory=list)

    def add(self, memory: float, files: int) -> None:
        self.memory.append(memory)
        self.files.append(files)

    def early_and_late(self) -> tuple[float, float, int, int]:
        """Medians of the second and the last fifth; the first fifth is warming up."""
        fifth = max(1, len(self.memory) // 5)
        early, late = slice(fifth, 2 * fifth + 1), slice(-fifth, None)
        return (
            statistics.median(self.memory[early] or self.memory),
            statistics.median(self.memory[late]),
            int(statistics.median(self.files[early] or self.files)),
            int(statistics.median(self.files[late])),
        )


class Soak:
    """Kills come in the first half; the second half is one life, long enough to see whether memory grows."""

    def __init__(self, folder: Path, seconds: float, clients: int, pause: float) -> None:
        self.books = Books()
        self.platform = Platform(folder)
        self.kills = 0
        self.life = Life()
        self._seconds = seconds
        self._clients = clients
        self._pause = pause
        self._between_kills = min(60.0, max(2.0, seconds / 14))

    def run(self) -> dict[str, float]:
        self.platform.start()
        clients = [Client(self.platform, self.books, number, self._pause) for number in range(self._clients)]
        operator = Operator(self.platform, self.books, min(180.0, max(3.0, self._seconds / 20)))
        for thread in (*clients, operator):
            thread.start()
        try:
            self._rule()
        finally:
            self.books.closing.set()
            for thread in (*clients, operator):
                thread.join(2 * PATIENCE)
        self.books.expect(not any(thread.is_alive() for thread in (*clients, operator)), "a client hangs")
        self._kill_and_restart()
        for client in clients:
            client.check()
        findings = self._check_ledger()
        for name in operator.made[-BACKUPS_KEPT:]:
            self.books.expect(self.platform.falaj("backup", "verify", name) == 0, f"the backup {name} is not whole")
        self.books.expect(operator.made, "no backup was made")
        self.books.expect(self.platform.stop() == 0, "it did not end in order")
        return self._figures(findings)

    def _rule(self) -> None:
        started = time.monotonic()
        next_kill = started + self._between_kills
        while (now := time.monotonic()) < started + self._seconds:
            if next_kill <= now < started + self._seconds / 2:
                self._kill_and_restart()
                next_kill = time.monotonic() + self._between_kills * random.uniform(0.5, 1.5)
            self.life.add(*self.platform.measure())
            time.sleep(0.25)

    def _kill_and_restart(self) -> None:
        self.platform.kill()
        self.kills += 1
        if not self.books.closing.is_set():
            self.life = Life()
        self.platform.start()

    def _check_ledger(self) -> int:
        """Every answer that must have left a leaf has left one, once; and the ledger verifies."""
        auditor = Connection(self.platform, self.books, self.platform.token)
        found: Counter[tuple[str, str]] = Counter()
        for leaf in auditor.items("/v1/audit/log", order="oldest-first"):
            found[leaf["request_id"], leaf["outcome"]] += 1
        missing = [id for id, outcome in self.books.recorded.items() if found[id, outcome] != 1]
        self.books.expect(not missing, f"{len(missing)} answers without exactly one leaf, e.g. {missing[:3]}")
        deadline = time.monotonic() + PATIENCE
        while auditor.ask("GET", "/v1/audit/head").json()["unsequenced"] and time.monotonic() < deadline:
            time.sleep(0.1)
        report = auditor.ask("POST", "/v1/audit/verify", json={}).json()
        self.books.expect(report["ok"], f"the ledger does not verify: {report['findings'][:3]}")
        auditor.close()
        return len(report["findings"])

    def _figures(self, findings: int) -> dict[str, float]:
        early, late, files_early, files_late = self.life.early_and_late()
        self.books.expect(late <= early * GROWTH_X + GROWTH_MB, f"memory grew from {early:.0f} to {late:.0f} MB")
        self.books.expect(files_late <= files_early + MORE_FILES, f"open files grew from {files_early} to {files_late}")
        calls = self.books.calls
        return {
            "minutes": round(self._seconds / 60, 2),
            "calls": calls.total(),
            "refused": sum(count for kind, count in calls.items() if kind[-3:] in ("400", "401", "403", "404")),
            "kills": self.kills,
            "failed": len(self.books.wrong),
            "rss_start_mb": round(early, 1),
            "rss_end_mb": round(late, 1),
            "files_start": files_early,
            "files_end": files_late,
            "leaves_checked": len(self.books.recorded),
            "ledger_findings": findings,
        }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--pause", type=float, default=0.02, help="seconds that each client rests after a call")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="falaj-soak-"))
    soak = Soak(folder, arguments.minutes * 60, arguments.clients, arguments.pause)
    try:
        figures = soak.run()
    finally:
        soak.platform.kill()
        shutil.rmtree(folder)
    for name, figure in figures.items():
        print(f"{name:16} {figure:12,.2f}".removesuffix(".00"))
    print(json.dumps(figures))
    return 1 if soak.books.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
