"""A full disk: changes get 507, reading goes on, nothing is half written, and it recovers by itself once there is room."""

import os
import secrets
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import httpx
import pytest

from tests.app.conftest import MakePlatform
from tests.app.effects import Effect, Load, World, check, new_effect, verify_ledger
from tests.app.mortal import DidNotStart, MortalPlatform

SIZE = 48 << 20
RESERVE = 8 << 20
OUT_OF_SPACE = 507
HERE = Path(__file__).parent


class Disk(Protocol):
    """A disk that can be filled to the last byte and emptied again. `environment` is what a platform on it needs."""

    path: Path
    environment: dict[str, str]

    def fill(self) -> None: ...

    def free(self) -> None: ...


class SmallDisk:
    """A real one, in memory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.environment: dict[str, str] = {}
        path.mkdir()
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=700", "tmpfs", str(path)], check=True, capture_output=True
        )

    def leave(self, count: int) -> None:
        """Fill it but for so many bytes."""
        disk = os.statvfs(self.path)
        self._write(max(0, disk.f_bavail * disk.f_frsize - count))

    def fill(self) -> None:
        self._write(2 * SIZE)

    def _write(self, count: int) -> None:
        with (self.path / "ballast").open("ab", buffering=0) as ballast:
            try:
                while count > 0:
                    count -= ballast.write(bytes(min(count, 4096)))
            except OSError:
                pass

    def free(self) -> None:
        (self.path / "ballast").unlink(missing_ok=True)

    def close(self) -> None:
        subprocess.run(["umount", "--lazy", str(self.path)], check=True)


class PretendedDisk:
    """One that only says that it is full, by a library between the platform and the kernel: it needs no rights."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()
        self._switch = path.with_name("full")
        library = path.with_name("full_disk.so")
        subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", library, HERE / "full_disk.c", "-ldl"], check=True)
        self.environment = {
            "LD_PRELOAD": str(library),
            "FULL_DISK_UNDER": str(path),
            "FULL_DISK_SWITCH": str(self._switch),
        }

    def fill(self) -> None:
        self._switch.touch()

    def free(self) -> None:
        self._switch.unlink(missing_ok=True)


def may_mount() -> bool:
    """Whether this user may mount: root may, but in some containers not even root."""
    if os.geteuid() != 0:
        return False
    tried = subprocess.run(["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"], check=False, capture_output=True)
    return tried.returncode == 0


@pytest.fixture(params=["small", "pretended"] if may_mount() else ["pretended"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    if request.param == "pretended":
        yield PretendedDisk(tmp_path / "disk")
        return
    small = SmallDisk(tmp_path / "disk")
    try:
        yield small
    finally:
        small.close()


@pytest.fixture
def platform(disk: Disk, make_platform: MakePlatform) -> MortalPlatform:
    """A platform on that disk, with a reserve that is small enough for it."""
    output, reserve = disk.path.with_name("output"), str(RESERVE)
    return make_platform(home=disk.path / "home", output=output, FALAJ_LIMITS_RESERVE_BYTES=reserve, **disk.environment).start()


def with_something_in(platform: MortalPlatform) -> tuple[Load, str]:
    """What was stored while there was room, and the id of a blob."""
    load, blob = Load(), Effect("blob", content=secrets.token_bytes(100_000))
    with platform.http() as http:
        for effect in (blob, new_effect("project"), new_effect("zone")):
            assert load.do(http, effect)
        blob_id = World(http).id_of(blob)
    assert blob_id is not None
    assert not load.unexpected
    return load, blob_id


def ask_while_full(platform: MortalPlatform, load: Load, *, seconds: float) -> int:
    """Several clients ask for changes; each is done or refused with 507 and nothing else. How many were refused."""
    refused: list[int] = []
    wrong: list[str] = []
    until = time.monotonic() + seconds

    def work(number: int) -> None:
        kinds = ("zone", "blob", "project", "blob")
        with platform.http() as http:
            while time.monotonic() < until:
                effect = new_effect(kinds[number % 4])
                answer = effect.ask(http)
                if answer.status_code == 200:
                    load.acknowledged.append(effect)
                elif answer.status_code == OUT_OF_SPACE:
                    assert int(answer.headers["retry-after"]) >= 1
                    assert "space" in answer.json()["detail"]
                    refused.append(number)
                else:
                    wrong.append(f"{effect.kind}: {answer.status_code} {answer.text}")

    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    assert wrong == []
    return len(refused)


def recovers(platform: MortalPlatform, load: Load) -> None:
    """Without being started again: it is ready, it takes changes, and everything is whole."""
    deadline = time.monotonic() + 60
    with platform.http() as http:
        while http.get("/readyz").status_code != 200 or new_effect("zone").ask(http).status_code != 200:
            assert time.monotonic() < deadline, platform.log[-3000:]
            time.sleep(0.2)
        for kind in ("blob", "project", "token", "zone"):
            assert load.do(http, new_effect(kind))
    assert not load.unexpected
    check(platform, load)
    assert list(platform.home.blobs.glob("incoming/*")) == []
    assert [path.name for path in platform.home.path.iterdir() if path.name.startswith(".")] == []


def test_changes_get_507_reading_goes_on_and_it_recovers_by_itself(platform: MortalPlatform, disk: Disk):
    load, blob = with_something_in(platform)
    disk.fill()
    process = platform.pid
    assert ask_while_full(platform, load, seconds=1.5) > 10
    with platform.http() as http:
        # What is stored may exceed what a log or a page of the database had left: then it is refused, and never by 500.
        for effect in (new_effect("blob"), new_effect("project")):
            assert effect.ask(http).status_code == OUT_OF_SPACE
        assert http.get("/healthz").status_code == 200
        assert http.get("/v1/projects/default").status_code == 200
        assert http.get(f"/v1/projects/default/blobs/{blob}").status_code == 200
        assert http.get("/v1/audit/head").status_code == 200
        read = http.get(f"/v1/projects/default/blobs/{blob}/content")
        # With not a byte left, the record of a sensitive read may find no room, and then the read is refused too.
        assert read.status_code in (200, OUT_OF_SPACE), read.text
        assert platform.process is not None
        assert platform.process.poll() is None
        verify_ledger(http)
    disk.free()
    recovers(platform, load)
    assert platform.pid == process


def test_a_backup_that_finds_no_room_leaves_nothing_and_the_platform_goes_on(platform: MortalPlatform, disk: Disk):
    load, _ = with_something_in(platform)
    with platform.http() as http:
        for _ in range(3):
            assert load.do(http, Effect("blob", content=secrets.token_bytes(3_000_000)))
        disk.fill()
        refused = http.post("/v1/platform/backups", json={})
        assert refused.status_code == OUT_OF_SPACE, refused.text
        assert list(platform.home.backups.iterdir()) == []
        assert http.get("/v1/projects/default").status_code == 200
        disk.free()
        deadline = time.monotonic() + 30
        while (made := http.post("/v1/platform/backups", json={})).status_code != 200:
            assert made.status_code == OUT_OF_SPACE, made.text
            assert time.monotonic() < deadline
            time.sleep(0.2)
        assert [each.name for each in platform.home.backups.iterdir()] == [made.json()["name"]]
    recovers(platform, load)


def test_killed_while_the_disk_is_full_it_says_so_or_starts_and_nothing_is_lost(platform: MortalPlatform, disk: Disk):
    load, _ = with_something_in(platform)
    disk.fill()
    ask_while_full(platform, load, seconds=0.7)
    platform.kill()
    with suppress(DidNotStart):
        platform.start()
    platform.kill()
    assert "Traceback" not in platform.output
    assert "full" in platform.output or "address" in platform.output
    disk.free()
    platform.start()
    recovers(platform, load)


@pytest.mark.skipif(not may_mount(), reason="the free space of a disk can only be chosen where one can be mounted")
def test_the_last_of_the_disk_is_kept_for_reading_and_deleting(tmp_path: Path, make_platform: MakePlatform):
    small = SmallDisk(tmp_path / "disk")
    try:
        platform = make_platform(home=small.path / "home", FALAJ_LIMITS_RESERVE_BYTES=str(RESERVE)).start()
        load, blob = with_something_in(platform)
        small.leave(RESERVE - 100_000)
        with platform.http() as http:
            for kind in ("project", "zone", "blob"):
                assert new_effect(kind).ask(http).status_code == OUT_OF_SPACE
            for _ in range(50):
                read = http.get(f"/v1/projects/default/blobs/{blob}/content")
                assert read.status_code == 200, read.text
            assert http.get("/readyz").status_code == 200
            assert http.delete(f"/v1/projects/default/blobs/{blob}").status_code == 200
        load.acknowledged = [effect for effect in load.acknowledged if effect.kind != "blob"]
        platform.stop()
        platform.start()  # with the disk as full as that, it starts too
        small.free()
        recovers(platform, load)
        platform.close()
    finally:
        small.close()


def test_a_cut_upload_leaves_nothing(platform: MortalPlatform):
    """Not full, but ended all the same: the bytes that came are gone when the client is."""
    load, _ = with_something_in(platform)

    def broken() -> Iterator[bytes]:
        yield secrets.token_bytes(500_000)
        raise ConnectionError("the client goes away")

    with platform.http() as http, pytest.raises((ConnectionError, httpx.HTTPError)):
        http.post("/v1/projects/default/blobs", content=broken(), headers={"content-type": "application/octet-stream"})
    deadline = time.monotonic() + 30
    while any(platform.home.blobs.glob("incoming/*")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    check(platform, load)
