"""Load on a platform that may die at any moment, and the comparison of what it acknowledged with what is there afterwards."""

import hashlib
import itertools
import random
import secrets
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import httpx

from tests.app.mortal import MortalPlatform
from tests.servers.processes import NO_TLS

Kind = Literal["project", "zone", "token", "blob"]
KINDS: tuple[Kind, ...] = ("blob", "project", "token", "zone")
READY_WITHIN = 10.0
OCTETS = {"content-type": "application/octet-stream"}


@dataclass(frozen=True)
class Effect:
    """One thing to bring about, under a name of its own and an idempotency key of its own."""

    kind: Kind
    name: str = field(default_factory=lambda: f"e-{secrets.token_hex(8)}")
    key: str = field(default_factory=lambda: secrets.token_hex(16))
    content: bytes = b""

    def ask(self, http: httpx.Client) -> httpx.Response:
        headers = {"idempotency-key": self.key}
        if self.kind == "project":
            return http.post("/v1/projects", json={"name": self.name, "zones": ["home"]}, headers=headers)
        if self.kind == "zone":
            return http.post("/v1/zones", json={"name": self.name, "country": "AE"}, headers=headers)
        if self.kind == "token":
            return http.post("/v1/tokens", json={"label": self.name}, headers=headers)
        return http.post(
            "/v1/projects/default/blobs", params={"name": self.name}, content=self.content, headers=headers | OCTETS
        )


def new_effect(kind: Kind) -> Effect:
    if kind != "blob":
        return Effect(kind)
    size = random.choice((1, 1000, 70_000, 70_000, 1_500_000))
    return Effect(kind, content=secrets.token_bytes(max(16, size)))


class Load:
    """Clients at work, each in a thread, until the platform dies or the load is stopped.

    What was answered with 200 is `acknowledged`; what got no answer is `unanswered`: it may have happened or not.
    """

    def __init__(self, *, clients: int = 4) -> None:
        self.acknowledged: list[Effect] = []
        self.unanswered: list[Effect] = []
        self.unexpected: list[str] = []
        self._clients = clients
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self, platform: MortalPlatform) -> None:
        self._stopping.clear()
        url, token = platform.url, platform.token
        self._threads = [
            threading.Thread(target=self._work, args=(url, token, number), daemon=True) for number in range(self._clients)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def running(self) -> bool:
        return any(thread.is_alive() for thread in self._threads)

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()
        assert not self.unexpected, self.unexpected[:3]

    def do(self, http: httpx.Client, effect: Effect) -> bool:
        """Whether the platform still answers."""
        try:
            answer = effect.ask(http)
        except httpx.TransportError:
            self.unanswered.append(effect)
            return False
        if answer.status_code == 200:
            self.acknowledged.append(effect)
        else:
            self.unexpected.append(f"{effect.kind}: {answer.status_code} {answer.text}")
        return True

    def _work(self, url: str, token: str, number: int) -> None:
        kinds = itertools.cycle(KINDS[number % len(KINDS) :] + KINDS[: number % len(KINDS)])
        headers = {"authorization": f"Bearer {token}"}
        with httpx.Client(base_url=url, headers=headers, timeout=60, trust_env=False, verify=NO_TLS) as http:
            while not self._stopping.is_set() and self.do(http, new_effect(next(kinds))):
                pass


def come_back(platform: MortalPlatform, **environment: str) -> float:
    """Start it again and wait until it is ready; it must be so within ten seconds."""
    started = time.monotonic()
    platform.launch(**environment)
    platform.wait_until_it_answers()
    while httpx.get(f"{platform.url}/readyz", timeout=10, trust_env=False, verify=NO_TLS).status_code != 200:
        assert time.monotonic() - started < READY_WITHIN, platform.log[-2000:]
        time.sleep(0.02)
    took = time.monotonic() - started
    assert took < READY_WITHIN, f"ready only after {took:.1f} s"
    return took


def pages(http: httpx.Client, path: str, **query: str) -> Iterator[dict[str, Any]]:
    cursor = ""
    while True:
        answer = http.get(path, params={"limit": "1000", "cursor": cursor} | query)
        assert answer.status_code == 200, answer.text
        yield from answer.json()["items"]
        if not (cursor := answer.json()["next"]):
            return


class World:
    """Everything a platform has, as its own operations tell it."""

    def __init__(self, http: httpx.Client) -> None:
        self.projects = {each["name"]: each["id"] for each in pages(http, "/v1/projects")}
        self.zones = [each["name"] for each in pages(http, "/v1/zones")]
        self.tokens = [each for each in pages(http, "/v1/tokens") if each["kind"] == "api" and each["label"] != "owner"]
        self.blobs = list(pages(http, "/v1/projects/default/blobs"))
        self.keys = {each["name"] for each in pages(http, "/v1/keys")}
        self.leaves = list(pages(http, "/v1/audit/log", order="oldest-first", outcome="done"))

    def leaves_of(self, operation: str) -> list[dict[str, Any]]:
        return [leaf for leaf in self.leaves if leaf["operation"] == operation]

    def id_of(self, effect: Effect) -> str | None:
        """The id of what an effect made; None where it did not happen. Never two of them."""
        named = {
            "project": [self.projects[name] for name in self.projects if name == effect.name],
            "zone": [name for name in self.zones if name == effect.name],
            "token": [each["id"] for each in self.tokens if each["label"] == effect.name],
            "blob": [each["id"] for each in self.blobs if each["name"] == effect.name],
        }[effect.kind]
        assert len(named) <= 1, f"{effect.kind} {effect.name} is there {len(named)} times"
        return named[0] if named else None


def check(
    platform: MortalPlatform, load: Load, *, expected_head: dict[str, Any] | None = None, sequenced: bool = True
) -> World:
    """Every acknowledged effect once; nothing half there; leaves and effects one to one; the ledger whole."""
    with platform.http() as http:
        world = World(http)
        for effect in load.acknowledged:
            assert world.id_of(effect) is not None, f"acknowledged, and gone: {effect.kind} {effect.name}"
        check_leaves(world)
        missing = [name for name, id in world.projects.items() if f"project-{id}" not in world.keys]
        assert not missing, f"projects without a key: {missing}"
        check_blobs(http, world, load)
        if sequenced:
            wait_until_sequenced(http)
        verify_ledger(http, expected_head)
    return world


def check_leaves(world: World) -> None:
    """What the ledger says was done is what is there, one to one."""
    made = Counter(leaf["facts"]["project"] for leaf in world.leaves_of("project.create"))
    assert made == Counter(id for name, id in world.projects.items() if name != "default")
    assert Counter(leaf["request"]["name"] for leaf in world.leaves_of("zone.create")) == Counter(set(world.zones) - {"home"})
    assert Counter(leaf["facts"]["token"] for leaf in world.leaves_of("token.create")) == Counter(
        each["id"] for each in world.tokens
    )
    put = Counter(leaf["facts"]["blob"] for leaf in world.leaves_of("blob.put") if leaf["project"] == world.projects["default"])
    dropped = Counter(leaf["request"]["blob"] for leaf in world.leaves_of("blob.delete"))
    assert put - dropped == Counter(each["id"] for each in world.blobs)


def check_blobs(http: httpx.Client, world: World, load: Load) -> None:
    contents = {effect.name: effect.content for effect in (*load.acknowledged, *load.unanswered) if effect.kind == "blob"}
    for blob in world.blobs:
        answer = http.get(f"/v1/projects/default/blobs/{blob['id']}/content")
        assert answer.status_code == 200, answer.text
        assert hashlib.sha256(answer.content).hexdigest() == blob["digest"]
        assert answer.content == contents.get(blob["name"], answer.content)


def wait_until_sequenced(http: httpx.Client, *, seconds: float = 20.0) -> None:
    """Every leaf is under a head soon; a sequencer that a crash stopped for good would be found here."""
    deadline = time.monotonic() + seconds
    while (state := http.get("/v1/audit/head").json())["unsequenced"]:
        assert time.monotonic() < deadline, state
        time.sleep(0.05)


def head_of(platform: MortalPlatform) -> dict[str, Any] | None:
    with platform.http() as http:
        head: dict[str, Any] | None = http.get("/v1/audit/head").json()["head"]
        return head


def verify_ledger(http: httpx.Client, expected_head: dict[str, Any] | None = None) -> None:
    answer = http.post("/v1/audit/verify", json={"expected": expected_head})
    assert answer.status_code == 200, answer.text
    report = answer.json()
    assert report["ok"], report["findings"]
    assert report["findings"] == []
    assert report["copies"] >= 1


def retry_unanswered(platform: MortalPlatform, load: Load, world: World) -> None:
    """The same calls with the same keys: what happened is answered as it was, what did not happens now, and each once.

    Of what was acknowledged, the newest of each kind is asked for again too, as by a client that never saw the answer.
    """
    newest = {effect.kind: effect for effect in load.acknowledged}
    with platform.http() as http:
        for effect in (*load.unanswered, *newest.values()):
            before = world.id_of(effect)
            answer = effect.ask(http)
            if effect.kind == "token" and before is not None:
                assert answer.status_code == 409, answer.text  # its answer held a secret, which is shown once
                continue
            assert answer.status_code == 200, f"{effect.kind}: {answer.text}"
            told = answer.json()["name" if effect.kind == "zone" else "id"]
            assert before in (None, told), f"{effect.kind} {effect.name} was made a second time"
    load.acknowledged += load.unanswered
    load.unanswered = []
