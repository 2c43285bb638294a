"""Backups: made while clients write, verified to the last byte, restored elsewhere with nothing but the recovery kit."""

import hashlib
import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from falaj.keys.file import KIT
from tests.app.conftest import MakePlatform
from tests.app.effects import Load, World, check, pages, verify_ledger
from tests.app.mortal import MortalPlatform, run_falaj
from tests.servers.postgres import PostgresServer

OCTETS = {"content-type": "application/octet-stream"}


class Original:
    """A platform with something in it, its newest backup, and what its owner keeps elsewhere: a copy and the kit."""

    def __init__(self, platform: MortalPlatform, place: Path) -> None:
        self.platform = platform
        self.kit = place / "kit.txt"
        self.kit.write_bytes((platform.home.keys / KIT).read_bytes())
        self.copy = place / "copy.falaj-backup"
        self.load = Load(clients=2)
        self._make()

    def _make(self) -> None:
        """A backup under load: what was acknowledged before it began must be in it."""
        platform = self.platform
        self.load.start(platform)
        time.sleep(1)
        self.certain = list(self.load.acknowledged)
        with platform.http() as http:
            invited = http.post("/v1/users", json={"name": "maryam", "display": "Maryam"}).json()
            http.post("/v1/projects/default/members", json={"member": "maryam", "role": "scientist"}).raise_for_status()
            self.session = http.post("/v1/sessions", json={"code": invited["code"]}).json()["token"]
            self.api_token = http.post("/v1/tokens", json={"label": "kept"}).json()["token"]
            made = http.post("/v1/platform/backups", json={})
            assert made.status_code == 200, made.text
        self.tree_size: int = made.json()["tree_size"]
        time.sleep(0.3)
        self.load.stop()
        self.name: str = made.json()["name"]
        self.copy.write_bytes((platform.home.backups / self.name).read_bytes())

    def check(self, restored: MortalPlatform) -> None:
        """Everything that was certain to be in the backup is there and readable, and nothing is half there."""
        load = Load()
        load.acknowledged = self.certain
        with restored.http() as http:
            world = World(http)
            for effect in load.acknowledged:
                assert world.id_of(effect) is not None, f"lost: {effect.kind} {effect.name}"
            for blob in world.blobs:
                content = http.get(f"/v1/projects/default/blobs/{blob['id']}/content")
                assert hashlib.sha256(content.content).hexdigest() == blob["digest"]
            assert all(f"project-{id}" in world.keys for id in world.projects.values())
            members = {each["name"]: each for each in http.get("/v1/projects/default/members").json()["items"]}
            assert members["maryam"]["role"] == "scientist"
            verify_ledger(http)
            for name in world.projects:
                self.stores_in(restored, name)
        with restored.http(self.api_token) as http:
            assert http.get("/v1/identity").json()["name"] == "owner"
        with restored.http(self.session) as http:
            assert http.get("/v1/identity").json()["name"] == "maryam"

    @staticmethod
    def stores_in(platform: MortalPlatform, project: str) -> None:
        with platform.http() as http:
            put = http.post(f"/v1/projects/{project}/blobs", content=b"new water", headers=OCTETS)
            assert put.status_code == 200, put.text
            assert http.get(f"/v1/projects/{project}/blobs/{put.json()['id']}/content").content == b"new water"


def start_original(place: Path, **settings: str) -> Iterator[Original]:
    platform = MortalPlatform(place / "home", **settings)
    try:
        yield Original(platform.start(), place)
    finally:
        platform.close()


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Original]:
    yield from start_original(tmp_path_factory.mktemp("original"))


@pytest.fixture(scope="module")
def original_on_postgres(tmp_path_factory: pytest.TempPathFactory, postgres_server: PostgresServer) -> Iterator[Original]:
    url = postgres_server.create_database()
    yield from start_original(tmp_path_factory.mktemp("original-on-postgres"), FALAJ_DATABASE_URL=url)
    postgres_server.drop_database(url)


def restore(
    original: Original, home: Path, copy: Path | None = None, *, kit: bool = True, **settings: str
) -> "tuple[int, str]":
    arguments = ["backup", "restore", str(copy or original.copy), *(["--kit", str(original.kit)] if kit else [])]
    done = run_falaj(*arguments, home=home, **settings)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout + done.stderr


def written_into(home: Path) -> list[str]:
    """Everything in a home and beside it that a refused restore must not have left."""
    return sorted(
        str(path.relative_to(home.parent)) for path in home.parent.rglob("*") if path.name.startswith((home.name, "."))
    )


def test_a_backup_made_under_load_verifies_and_the_platform_was_not_disturbed(original: Original):
    assert original.certain
    told = original.platform.falaj("backup", "verify", original.name)
    assert told.returncode == 0, told.stderr
    assert f"{original.tree_size} leaves" in told.stdout
    check(original.platform, original.load)


def test_restored_with_nothing_but_the_kit_everything_is_there(original: Original, make_platform: MakePlatform):
    restored = make_platform("elsewhere")
    status, said = restore(original, restored.home.path)
    assert status == 0, said
    restored.start()
    original.check(restored)
    assert restored.stop() == 0
    restored.start()


def test_sqlite_restores_into_postgres(original: Original, make_platform: MakePlatform, postgres_url: str):
    restored = make_platform("elsewhere", FALAJ_DATABASE_URL=postgres_url)
    status, said = restore(original, restored.home.path, FALAJ_DATABASE_URL=postgres_url)
    assert status == 0, said
    assert not restored.home.database.exists()
    original.check(restored.start())


def test_postgres_restores_into_sqlite(original_on_postgres: Original, make_platform: MakePlatform):
    restored = make_platform("elsewhere")
    status, said = restore(original_on_postgres, restored.home.path)
    assert status == 0, said
    assert restored.home.database.exists()
    original_on_postgres.check(restored.start())


def test_settings_in_a_backup_never_lead_a_restore_to_the_original_database(
    tmp_path: Path, make_platform: MakePlatform, postgres_url: str
):
    """The original's `falaj.toml` names its database; whoever restores without another one is told so, and nothing happens."""
    platform = make_platform()
    platform.home.path.mkdir()
    platform.home.settings.write_text(f'[database]\nurl = "{postgres_url}"\n')
    platform.start()
    with platform.http() as http:
        assert http.post("/v1/zones", json={"name": "dubai", "country": "AE"}).status_code == 200
        name = http.post("/v1/platform/backups", json={}).json()["name"]
    backup, kit = platform.home.backups / name, platform.home.keys / KIT
    elsewhere = tmp_path / "elsewhere"
    refused = run_falaj("backup", "restore", str(backup), "--kit", str(kit), home=elsewhere)
    assert refused.returncode == 1
    assert "not empty" in refused.stderr
    assert "FALAJ_DATABASE_URL" in refused.stderr
    assert not elsewhere.exists()
    elsewhere.mkdir()
    (elsewhere / "falaj.toml").write_text("")
    assert run_falaj("backup", "restore", str(backup), "--kit", str(kit), home=elsewhere).returncode == 0
    restored = make_platform("elsewhere").start()
    with restored.http() as http:
        assert "dubai" in [each["name"] for each in pages(http, "/v1/zones")]
        verify_ledger(http)


def test_a_home_that_is_not_empty_is_left_as_it_is(original: Original, make_platform: MakePlatform):
    other = make_platform("other").start()
    other.stop()
    before = other.home.database.read_bytes()
    for keys in (True, False):
        status, said = restore(original, other.home.path, kit=keys)
        assert status == 1
        assert "not empty" in said
    assert other.home.database.read_bytes() == before
    other.start()


def test_without_the_kit_or_with_another_one_nothing_is_restored(
    original: Original, tmp_path: Path, make_platform: MakePlatform
):
    home = tmp_path / "elsewhere"
    status, said = restore(original, home, kit=False)
    assert status == 2
    assert "--kit" in said
    other = make_platform("other").start()
    done = run_falaj("backup", "restore", str(original.copy), "--kit", str(other.home.keys / KIT), home=home)
    assert done.returncode == 2
    assert "another key ring" in done.stderr
    assert written_into(home) == []


def test_the_ring_of_another_home_does_not_open_it(original: Original, make_platform: MakePlatform, tmp_path: Path):
    other = make_platform("other").start()
    other.stop()
    shutil.copytree(other.home.keys, tmp_path / "elsewhere.keys")
    status, said = restore(original, tmp_path / "elsewhere", kit=False)
    assert status == 1
    assert "another key ring" in said
    assert not (tmp_path / "elsewhere").exists()


def damaged(content: bytes, header: int) -> Iterator[tuple[str, bytes]]:
    """The same backup with one thing wrong: a byte anywhere, a missing end, more behind it."""
    sealed = len(content) - header
    positions = {
        "the format": 15,
        "the escrow copy": header - 1000,
        "the header's last byte": header - 1,
        "the first sealed byte": header,
        "a tenth in": header + sealed // 10,
        "the middle": header + sealed // 2,
        "near the end": len(content) - 600,
        "the last byte": len(content) - 1,
    }
    for where, at in positions.items():
        yield f"a flipped byte: {where}", content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]
    for where, length in {
        "the last byte": len(content) - 1,
        "half": header + sealed // 2,
        "all but the header": header,
    }.items():
        yield f"cut: {where}", content[:length]
    yield "a byte more", content + b"\0"
    yield "nothing", b""


def test_a_damaged_backup_is_refused_before_anything_is_written(original: Original, tmp_path: Path):
    content = original.copy.read_bytes()
    header = content.index(b"\n") + 1
    accepted = []
    for what, wrong in damaged(content, header):
        place = tmp_path / hashlib.sha256(what.encode()).hexdigest()[:8]
        place.mkdir()
        (place / "wrong").write_bytes(wrong)
        status, said = restore(original, place / "home", place / "wrong")
        if status == 0:
            accepted.append(what)
        assert said.startswith("falaj: "), f"{what}: {said}"
        assert written_into(place / "home") == [], what
    assert accepted == []


@pytest.mark.parametrize("field", ["escrow", "wrapped", "object", "key_version"])
def test_the_header_of_another_backup_is_refused(original: Original, tmp_path: Path, field: str):
    """Also where the ring is here, so that nothing needs the escrow copy: `verify` vouches for the whole file."""
    with original.platform.http() as http:
        name = http.post("/v1/platform/backups", json={}).json()["name"]
    theirs = json.loads((original.platform.home.backups / name).read_bytes().partition(b"\n")[0])
    line, _, sealed = original.copy.read_bytes().partition(b"\n")
    header = json.loads(line)
    header[field] = 7 if field == "key_version" else theirs[field]
    (tmp_path / "swapped").write_bytes(json.dumps(header).encode() + b"\n" + sealed)
    if json.dumps(header).encode() == line:
        assert field == "escrow"  # no key was made between the two, so their escrow copies are the same
        header[field] = header[field][:-8] + "AAAAAAA="
        (tmp_path / "swapped").write_bytes(json.dumps(header).encode() + b"\n" + sealed)
    told = original.platform.falaj("backup", "verify", str(tmp_path / "swapped"))
    assert told.returncode == 1, told.stdout
    status, _ = restore(original, tmp_path / "elsewhere", tmp_path / "swapped")
    assert status != 0
    assert written_into(tmp_path / "elsewhere") == []


def test_a_restore_that_was_cut_off_is_not_taken_for_a_platform(original: Original, make_platform: MakePlatform):
    restored = make_platform("elsewhere")
    assert restore(original, restored.home.path)[0] == 0
    restored.home.restoring.touch()  # as a restore leaves it that dies before its end
    told = restored.falaj("up", "--port", "0")
    assert told.returncode == 1
    assert "restore the backup again" in told.stderr
    status, said = restore(original, restored.home.path)
    assert status == 1
    assert "not empty" in said
