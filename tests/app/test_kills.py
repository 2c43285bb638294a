"""Kill -9 at every failpoint and at random moments: what was acknowledged is there once, nothing is half there, and it is
ready again within ten seconds.

The failpoints are read from the source, so a new one without a driver here, or one that its driver never reaches, fails.
"""

import ast
import os
import random
import secrets
import shutil
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

import falaj
from falaj.app.backups import open_backup, verify
from falaj.base.clock import SystemClock
from falaj.keys.file import KIT, FileKeyRing, recover
from falaj.keys.recovery import read_kit
from tests.app.conftest import MakePlatform
from tests.app.effects import (
    OCTETS,
    Effect,
    Load,
    World,
    check,
    come_back,
    head_of,
    new_effect,
    pages,
    retry_unanswered,
    verify_ledger,
)
from tests.app.mortal import KILLED, DidNotStart, MortalPlatform

SOURCE = Path(falaj.__file__).parent
METERED = Path(__file__).with_name("metered.py")
LONGEST_LIFE = 60.0


def failpoints_in_the_code() -> list[str]:
    """The argument of every call of `failpoint`; one that is no plain string cannot be enumerated and fails here."""
    found = []
    for file in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "failpoint":
                (argument,) = node.args
                assert isinstance(argument, ast.Constant), f"{file}: a failpoint is named by a plain string"
                assert isinstance(argument.value, str), f"{file}: a failpoint is named by a plain string"
                found.append(argument.value)
    return found


# Those of jobs are reached in `tests/jobs/test_controller_kills.py`, those of studies in `tests/cli/test_tune.py`, those of
# features in `tests/app/test_feature_kills.py`, those of alerts in `tests/monitoring/alerts/`, those of pipelines in
# `tests/lifecycle/test_kills.py`, those of gates in `tests/lifecycle/gates/test_kills.py`, those of copies in
# `tests/cli/test_model_copy.py`.
ELSEWHERE = ("jobs.", "tune.", "features.", "alerts.", "pipelines.", "gates.", "copies.")
FAILPOINTS = [name for name in failpoints_in_the_code() if not name.startswith(ELSEWHERE)]


class Scene:
    """One death: a home to start on, a failpoint to die at, and what is asked of the platform until it does."""

    def __init__(self, make: MakePlatform, template: Path | None, failpoint: str, visit: int, *, database: str = "") -> None:
        self.failpoint = failpoint
        self.visit = visit
        self.make = make
        self.database = database
        self._template = template

    @property
    def settings(self) -> dict[str, str]:
        return {"FALAJ_DATABASE_URL": self.database} if self.database else {}

    def platform(self) -> MortalPlatform:
        """A platform that was started before and is stopped now."""
        platform = self.make(**self.settings)
        if self._template is None or self.database:
            platform.start()
            platform.stop()
        else:
            shutil.copytree(self._template, platform.home.path)
            shutil.copytree(f"{self._template}.keys", platform.home.keys)
        return platform

    def die(self, platform: MortalPlatform, act: Callable[[MortalPlatform], object]) -> None:
        """Start with the failpoint armed, and `act` again and again until the process dies of it."""
        platform.launch(FALAJ_FAILPOINT=f"{self.failpoint}@{self.visit}")
        try:
            platform.wait_until_it_answers()
        except DidNotStart as death:
            if death.status != KILLED:
                raise
            return
        assert platform.process is not None
        deadline = time.monotonic() + LONGEST_LIFE
        while platform.process.poll() is None:
            if time.monotonic() > deadline:
                pytest.fail(f"{self.failpoint} was never hit")
            try:
                act(platform)
            except httpx.TransportError:
                platform.wait_until_dead(seconds=10)
        assert platform.wait_until_dead() == KILLED, f"{self.failpoint} was never hit: it ended by itself\n{platform.output}"

    def survive(self, platform: MortalPlatform, load: Load, head: dict[str, object] | None = None) -> World:
        """Come back, compare, ask again for what was not answered, and compare again."""
        come_back(platform)
        sequenced = not self.database  # on Postgres the dead process's lease is waited for
        world = check(platform, load, expected_head=head, sequenced=sequenced)
        retry_unanswered(platform, load, world)
        return check(platform, load, sequenced=sequenced)


def rest(_platform: MortalPlatform) -> None:
    time.sleep(0.05)


def under_load(scene: Scene) -> None:
    """Clients that make projects, zones, tokens and blobs reach it by themselves."""
    platform, load, head = scene.platform(), Load(), None

    def act(alive: MortalPlatform) -> None:
        nonlocal head
        if head is None:
            head = head_of(alive)
            load.start(alive)
        rest(alive)

    scene.die(platform, act)
    load.stop()
    assert load.acknowledged or scene.visit < 33  # a platform writes some twenty times before the first client does
    scene.survive(platform, load, head)


def after_commits(scene: Scene) -> None:
    """Die until the commit that nobody heard of was that of a client: its retry finds what it did."""
    platform, load = scene.platform(), Load()
    for _ in range(10):

        def act(alive: MortalPlatform) -> None:
            if not load.running:
                load.start(alive)
            rest(alive)

        scene.die(platform, act)
        load.stop()
        come_back(platform)
        world = check(platform, load, sequenced=not scene.database)
        unheard = [effect for effect in load.unanswered if world.id_of(effect) is not None]
        retry_unanswered(platform, load, world)
        check(platform, load, sequenced=not scene.database)
        if unheard:
            return
        platform.kill()
    pytest.fail("no commit of a client was ever left unanswered")


def on_first_start(scene: Scene) -> None:
    """A home that does not exist yet. The kit on the disk must be the one that opens the ring that is used in the end."""
    platform, load = scene.make(**scene.settings), Load()
    scene.die(platform, rest)
    scene.survive(platform, load)
    with platform.http() as http:
        load.do(http, new_effect("blob"))
        load.do(http, new_effect("project"))
    check(platform, load, sequenced=not scene.database)
    again = platform.home.path.with_name("recovered.keys")
    recover(platform.home.escrow, read_kit(platform.home.keys / KIT), again)
    ring = FileKeyRing(platform.home.keys, escrow=platform.home.escrow, clock=SystemClock())
    copy = FileKeyRing(again, escrow=again / "escrow", clock=SystemClock())
    assert copy.names() == ring.names()


def during_backups(scene: Scene) -> None:
    """A backup that is there is whole; one that was cut off is gone after the next start."""
    platform, load = scene.platform(), Load(clients=2)
    key = secrets.token_hex(16)

    def act(alive: MortalPlatform) -> None:
        if not load.acknowledged:
            load.start(alive)
            time.sleep(0.3)
        with alive.http() as http:
            http.post("/v1/platform/backups", json={}, headers={"idempotency-key": key}).raise_for_status()

    scene.die(platform, act)
    load.stop()
    assert list(platform.home.backups.glob("*.partial")), "it died before it wrote anything"
    scene.survive(platform, load)
    assert not list(platform.home.backups.glob("*.partial"))
    with platform.http() as http:
        for _ in range(2):
            assert http.post("/v1/platform/backups", json={}, headers={"idempotency-key": key}).status_code == 200
        listed = [each["name"] for each in http.get("/v1/platform/backups").json()["items"]]
        leaves = [leaf["facts"]["backup"] for leaf in World(http).leaves_of("backup.create")]
    assert len(listed) == 1
    assert leaves == listed
    ring = FileKeyRing(platform.home.keys, escrow=platform.home.escrow, clock=SystemClock())
    assert verify(open_backup(platform.home.backups / listed[0], ring)).tree_size > 0


def during_rotation(scene: Scene) -> None:
    """Rotations are asked for while clients write; everything stays readable, and the rotation ends."""
    platform, load = scene.platform(), Load(clients=2)

    def act(alive: MortalPlatform) -> None:
        if not load.acknowledged:
            load.start(alive)
            time.sleep(0.3)
        with alive.http() as http:
            http.post("/v1/projects/default/key/rotate", json={}).raise_for_status()
        time.sleep(0.3)

    scene.die(platform, act)
    load.stop()
    world = scene.survive(platform, load)
    assert world.blobs
    with platform.http() as http:
        wait_until(lambda: http.get("/v1/projects/default/key").json()["rotating"] is False)
        shown = http.get("/v1/projects/default/key").json()
        ring = {each["name"]: each for each in pages(http, "/v1/keys")}
    assert shown["version"] > 1
    assert shown["pending"] == 0
    newest = ring[f"project-{world.projects['default']}"]["versions"][-1]["version"]
    assert newest == shown["version"]
    check(platform, load, sequenced=not scene.database)


def during_shredding(scene: Scene) -> None:
    """Projects are shredded; what was acknowledged as shredded stays so, and its key goes from the ring."""
    platform, load = scene.platform(), Load()
    shredded: list[str] = []

    def act(alive: MortalPlatform) -> None:
        with alive.http() as http:
            project = Effect("project")
            load.do(http, project)
            http.post(f"/v1/projects/{project.name}/blobs", content=b"secret", headers=OCTETS)
            http.post(f"/v1/projects/{project.name}/key/shred", json={"confirm": project.name}).raise_for_status()
            shredded.append(project.name)
            time.sleep(0.3)

    scene.die(platform, act)
    load.unanswered.clear()
    come_back(platform)
    assert shredded
    with platform.http() as http:
        for name in shredded:
            id = http.get(f"/v1/projects/{name}").json()["id"]
            assert http.get(f"/v1/projects/{name}/blobs").json()["items"] == []
            wait_until(lambda id=id: f"project-{id}" not in World(http).keys)
            refused = http.post(f"/v1/projects/{name}/blobs", content=b"more", headers=OCTETS)
            assert 400 <= refused.status_code < 500, refused.text
        shreds = World(http).leaves_of("key.shred")
        assert {leaf["request"]["project"] for leaf in shreds} >= set(shredded)
        verify_ledger(http)
        load.do(http, new_effect("blob"))
    assert not load.unexpected


def during_collection(scene: Scene) -> None:
    """Garbage goes: a dropped blob, an old orphan. What is referred to stays, however old."""
    platform, load = scene.platform(), Load()
    platform.start()
    dropped, kept = new_effect("blob"), new_effect("blob")
    with platform.http() as http:
        assert load.do(http, dropped)
        assert load.do(http, kept)
        id = World(http).id_of(dropped)
        assert http.delete(f"/v1/projects/default/blobs/{id}").status_code == 200
    load.acknowledged.remove(dropped)
    platform.stop()  # in order, so that on Postgres its leases need not be waited for
    orphan = platform.home.blobs / "ab" / ("ab" * 16)
    orphan.parent.mkdir(mode=0o700, exist_ok=True)
    orphan.write_bytes(b"left by a killed upload")
    for file in stored(platform):
        os.utime(file, (1_600_000_000, 1_600_000_000))
    scene.die(platform, rest)
    assert not orphan.exists(), "it died before anything was removed"
    (still_there,) = stored(platform)
    scene.survive(platform, load)
    assert still_there.exists()
    assert not orphan.exists()
    if not scene.database:
        with sqlite3.connect(platform.home.database) as database:
            pending = "select count(*) from storage_objects where state = 'condemned' and removed is null"
            wait_until(lambda: database.execute(pending).fetchone()[0] == 0)
        database.close()


def with_telemetry(scene: Scene) -> None:
    """Every reading is counted in exactly one window's leaf."""
    platform = scene.make(command=[sys.executable, str(METERED)], PYTHONPATH=str(SOURCE.parent), **scene.settings)
    taken: list[str] = []

    def act(alive: MortalPlatform) -> None:
        with alive.http() as http:
            for _ in range(7):
                name = f"r-{secrets.token_hex(8)}"
                assert http.post("/v1/projects/default/readings", json={"name": name}).status_code == 200
                taken.append(name)
            http.post("/v1/platform/backups", json={}).raise_for_status()

    scene.die(platform, act)
    assert taken
    come_back(platform)
    with platform.http() as http:
        assert http.post("/v1/projects/default/readings", json={"name": "last"}).status_code == 200
        assert http.post("/v1/platform/backups", json={}).status_code == 200  # closes the windows
        counted = [leaf["facts"]["count"] for leaf in World(http).leaves_of("meter.read")]
        verify_ledger(http)
    assert sum(counted) == len(taken) + 1
    assert len(counted) > 1


# How each failpoint is reached, and at which visit: the first ones of some belong to the start.
DRIVERS: dict[str, tuple[Callable[[Scene], None], int]] = {
    "backup.written": (during_backups, 1),
    "keys.escrow-written": (under_load, 4),
    "keys.ring-created": (on_first_start, 1),
    "keys.ring-written": (under_load, 4),
    "keys.unlock-written": (on_first_start, 1),
    "ledger.copy-written": (under_load, 3),
    "ledger.head-signed": (under_load, 3),
    "ledger.windows-closed": (with_telemetry, 1),
    "postgres.after-commit": (after_commits, 60),
    "postgres.before-commit": (under_load, 60),
    "project.key-made": (under_load, 5),
    "sqlite.after-commit": (after_commits, 60),
    "sqlite.before-commit": (under_load, 60),
    "storage.key-destroyed": (during_shredding, 1),
    "storage.key-rotated": (during_rotation, 1),
    "storage.keys-rewrapped": (during_rotation, 1),
    "storage.object-written": (under_load, 5),
    "storage.objects-removed": (during_collection, 1),
    "up.before-credentials": (on_first_start, 1),
}
# Deaths within the very first start, beside those above.
FIRST_STARTS = [("keys.escrow-written", 1), ("keys.ring-written", 1), ("sqlite.before-commit", 2), ("sqlite.after-commit", 1)]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home that was started once and stopped in order, to be copied."""
    platform = MortalPlatform(tmp_path_factory.mktemp("template") / "home")
    try:
        platform.start()
        assert platform.stop() == 0
    finally:
        platform.close()
    return platform.home.path


def wait_until(true: Callable[[], bool], *, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it never came about"
        time.sleep(0.1)


def stored(platform: MortalPlatform) -> list[Path]:
    return [file for file in platform.home.blobs.glob("[0-9a-f][0-9a-f]/*") if file.is_file()]


def postgres_for(name: str, request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue("postgres_url")) if name.startswith("postgres.") else ""


def test_every_failpoint_stands_in_one_place():
    assert [name for name, count in Counter(FAILPOINTS).items() if count > 1] == []
    assert len(FAILPOINTS) > 10


def test_every_driver_is_for_a_failpoint_that_exists():
    assert sorted(set(DRIVERS) - set(FAILPOINTS)) == []


@pytest.mark.parametrize("name", sorted(set(FAILPOINTS)))
def test_killed_at(name: str, make_platform: MakePlatform, template: Path, request: pytest.FixtureRequest):
    assert name in DRIVERS, f"no driver reaches the failpoint {name}"
    drive, visit = DRIVERS[name]
    drive(Scene(make_platform, template, name, visit, database=postgres_for(name, request)))


@pytest.mark.parametrize(("name", "visit"), FIRST_STARTS)
def test_killed_during_the_first_start_at(name: str, visit: int, make_platform: MakePlatform):
    on_first_start(Scene(make_platform, None, name, visit))


def test_an_armed_failpoint_that_is_never_reached_is_told(make_platform: MakePlatform, template: Path):
    """The tests above would notice: a platform that lives on, or ends by itself, did not die at its failpoint."""
    scene = Scene(make_platform, template, "no.such-failpoint", 1)
    with pytest.raises(AssertionError, match="never hit"):
        scene.die(scene.platform(), lambda platform: platform.stop())


def kill_at_random(platform: MortalPlatform, *, rounds: int, sequenced: bool) -> None:
    chance = random.Random()
    load = Load()
    for _ in range(rounds):
        head = head_of(platform)
        load.start(platform)
        time.sleep(chance.uniform(0.0, 0.8))
        platform.kill()
        load.stop()
        come_back(platform)
        world = check(platform, load, expected_head=head, sequenced=sequenced)
        retry_unanswered(platform, load, world)
    check(platform, load, sequenced=sequenced)
    assert load.acknowledged


def test_killed_at_random_moments_under_load(make_platform: MakePlatform):
    kill_at_random(make_platform().start(), rounds=4, sequenced=True)


def kill_first_start_at_random(platform: MortalPlatform, seconds: float) -> None:
    platform.launch()
    try:
        platform.wait_until_dead(seconds=seconds)
    except subprocess.TimeoutExpired:
        platform.kill()
    load = Load()
    come_back(platform)
    with platform.http() as http:
        assert load.do(http, new_effect("blob"))
    check(platform, load)


@pytest.mark.parametrize("seconds", [0.6, 1.1])
def test_killed_at_some_moment_of_the_first_start(seconds: float, make_platform: MakePlatform):
    kill_first_start_at_random(make_platform(), seconds * random.uniform(0.8, 1.2))


# The larger matrix.

LOOPED = sorted(name for name in set(FAILPOINTS) & set(DRIVERS) if DRIVERS[name][0] in (under_load, after_commits))


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("name", "visit"),
    [
        *((name, visit) for name in LOOPED for visit in (1, 2, 3, 7, 12, 20, 33)),
        *((name, 150) for name in LOOPED if not name.startswith("ledger.")),  # heads come only twice a second
    ],
)
def test_killed_under_load_at_each_of_several_visits(
    name: str, visit: int, make_platform: MakePlatform, template: Path, request: pytest.FixtureRequest
):
    under_load(Scene(make_platform, template, name, visit, database=postgres_for(name, request)))


@pytest.mark.heavy
@pytest.mark.parametrize("name", sorted(name for name in set(FAILPOINTS) & set(DRIVERS) if not name.startswith("sqlite.")))
def test_killed_on_postgres_at(name: str, make_platform: MakePlatform, postgres_url: str):
    drive, visit = DRIVERS[name]
    drive(Scene(make_platform, None, name, visit, database=postgres_url))


@pytest.mark.heavy
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_killed_at_many_random_moments_under_load(engine: str, make_platform: MakePlatform, request: pytest.FixtureRequest):
    settings = {"FALAJ_DATABASE_URL": str(request.getfixturevalue("postgres_url"))} if engine == "postgres" else {}
    kill_at_random(make_platform(**settings).start(), rounds=25, sequenced=engine == "sqlite")


@pytest.mark.heavy
@pytest.mark.timeout(1800)
def test_killed_at_many_moments_of_the_first_start(make_platform: MakePlatform):
    for number in range(40):
        platform = make_platform(f"home-{number}")
        kill_first_start_at_random(platform, random.uniform(0.4, 2.5))
        platform.kill()
