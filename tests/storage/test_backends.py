"""Every store and every wrapper keeps the same promises; what is special to one of them follows below."""

import errno
import fcntl
import hashlib
import hmac
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from falaj.base.errors import OutOfSpace, TemporaryError, Unavailable
from falaj.storage.blobs import Blobs, Stored
from falaj.storage.errors import StorageNotConfigured, StorageRefused, StorageUnavailable
from falaj.storage.folder import FolderBlobs
from falaj.storage.retrying import Retrying
from falaj.storage.s3 import S3Blobs
from falaj.storage.sealed import Sealed
from falaj.testing.blobs import MIB, BlobsConformance
from tests.servers.s3 import S3Server, S3Storage


def key_of(object_id: str) -> bytes:
    return hmac.digest(b"test", object_id.encode(), hashlib.sha256)


def bucket(storage: S3Storage, **others: Any) -> S3Blobs:
    return S3Blobs(**{**dict(storage), **others})


class Flaky:
    """A store whose every first attempt fails: a put after it took the chunks, a read after its first piece."""

    def __init__(self, blobs: Blobs, *, error: type[TemporaryError] = Unavailable) -> None:
        self._blobs = blobs
        self._error = error
        self._lock = threading.Lock()
        self._seen: set[tuple[object, ...]] = set()

    def _first_time(self, *call: object) -> bool:
        with self._lock:
            first = call not in self._seen
            self._seen.add(call)
            return first

    def _fail_once(self, *call: object) -> None:
        if self._first_time(*call):
            raise self._error("not now", delay=0)

    def put(self, object_id: str, chunks: Iterator[bytes]) -> int:
        if not self._first_time("put", object_id):
            return self._blobs.put(object_id, chunks)
        for _ in chunks:
            pass
        raise self._error("not now", delay=0)

    def read(self, object_id: str, offset: int, length: int) -> Iterator[bytes]:
        pieces = self._blobs.read(object_id, offset, length)
        if not self._first_time("read", object_id, offset, length):
            yield from pieces
        else:
            yield from (piece for piece in [next(pieces, b"")] if piece)
            raise self._error("not now", delay=0)

    def size(self, object_id: str) -> int:
        self._fail_once("size", object_id)
        return self._blobs.size(object_id)

    def delete(self, object_id: str) -> None:
        self._fail_once("delete", object_id)
        self._blobs.delete(object_id)

    def list(self, after: str, limit: int) -> tuple[Stored, ...]:
        self._fail_once("list", after, limit)
        return self._blobs.list(after, limit)

    def probe(self) -> None:
        self._blobs.probe()


class TestFolder(BlobsConformance):
    @pytest.fixture
    def blobs(self, tmp_path: Path) -> Blobs:
        return FolderBlobs(tmp_path / "blobs")


class TestS3(BlobsConformance):
    @pytest.fixture
    def blobs(self, s3_storage: S3Storage) -> Blobs:
        return bucket(s3_storage)


class TestS3WithPrefix(BlobsConformance):
    @pytest.fixture
    def blobs(self, s3_storage: S3Storage) -> Blobs:
        bucket(s3_storage).put("f" * 32, iter([b"another's object, outside the prefix"]))
        return bucket(s3_storage, prefix="/falaj/objects/")


class TestSealedFolder(BlobsConformance):
    @pytest.fixture
    def blobs(self, tmp_path: Path) -> Blobs:
        return Sealed(FolderBlobs(tmp_path / "blobs"), key_of)


class TestSealedRetryingS3(BlobsConformance):
    @pytest.fixture
    def blobs(self, s3_storage: S3Storage) -> Blobs:
        return Sealed(Retrying(bucket(s3_storage)), key_of)


class TestRetryingFlakyFolder(BlobsConformance):
    @pytest.fixture
    def blobs(self, tmp_path: Path) -> Blobs:
        return Retrying(Flaky(FolderBlobs(tmp_path / "blobs")), wait=lambda _: None)


class TestRetryingSealedFlakyFolder(BlobsConformance):
    @pytest.fixture
    def blobs(self, tmp_path: Path) -> Blobs:
        return Retrying(Sealed(Flaky(FolderBlobs(tmp_path / "blobs")), key_of), wait=lambda _: None)


# The folder


def test_a_full_disk_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    blobs = FolderBlobs(tmp_path / "blobs")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OutOfSpace):
            blobs.put("a" * 32, iter([b"x"]))
    assert [file for file in (tmp_path / "blobs").rglob("*") if file.is_file()] == []
    blobs.put("a" * 32, iter([b"x"]))


def test_a_vanished_folder_is_unavailable_and_not_made_again(tmp_path: Path) -> None:
    blobs = FolderBlobs(tmp_path / "blobs")
    (tmp_path / "blobs").rename(tmp_path / "unmounted")
    with pytest.raises(StorageUnavailable):
        blobs.put("a" * 32, iter([b"x"]))
    with pytest.raises(StorageUnavailable):
        blobs.probe()
    assert not (tmp_path / "blobs").exists()


def test_leftovers_of_killed_writers_are_swept_and_running_ones_are_not(tmp_path: Path) -> None:
    FolderBlobs(tmp_path)
    leftover, running = tmp_path / "incoming" / "left", tmp_path / "incoming" / "running"
    leftover.write_bytes(b"half")
    running.write_bytes(b"half")
    with running.open("rb") as stream:
        fcntl.flock(stream, fcntl.LOCK_SH)
        FolderBlobs(tmp_path)
    assert not leftover.exists()
    assert running.exists()


def test_files_are_the_owners_alone(tmp_path: Path) -> None:
    FolderBlobs(tmp_path / "blobs").put("a" * 32, iter([b"x"]))
    assert {file.stat().st_mode & 0o077 for file in (tmp_path / "blobs").rglob("*")} == {0}


# The bucket


def test_an_unreachable_service_is_temporary(s3_storage: S3Storage) -> None:
    for call in (
        lambda blobs: blobs.probe(),
        lambda blobs: blobs.put("a" * 32, iter([b"x"])),
        lambda blobs: list(blobs.read("a" * 32, 0, 1)),
        lambda blobs: blobs.list("", 1),
    ):
        with pytest.raises(StorageUnavailable):
            call(bucket(s3_storage, endpoint="http://127.0.0.1:9"))


def test_wrong_credentials_are_told_as_such(s3_storage: S3Storage) -> None:
    for call in (lambda blobs: blobs.probe(), lambda blobs: blobs.put("a" * 32, iter([b"x"]))):
        with pytest.raises(StorageRefused, match=r"credentials.*falaj\.toml"):
            call(bucket(s3_storage, secret_key="wrong"))  # type: ignore[no-untyped-call]


@pytest.mark.timeout(120)
def test_a_service_that_comes_back_is_used_again(s3_server: S3Server, s3_storage: S3Storage) -> None:
    started = threading.Event()

    def start_again(_: float) -> None:
        if not started.is_set():
            started.set()
            s3_server.start()

    blobs = Sealed(Retrying(bucket(s3_storage), wait=start_again, attempts=8), key_of)
    s3_server.stop()
    blobs.put("a" * 32, iter([b"x" * 100]))
    assert started.is_set()
    assert b"".join(blobs.read("a" * 32, 0, 100)) == b"x" * 100


MEMORY = """
import json, os, sys
from falaj.storage.folder import FolderBlobs
from falaj.storage.retrying import Retrying
from falaj.storage.sealed import Sealed
from falaj.storage.chunks import CHUNK, Hashing, cut
from pathlib import Path
from typing import Any

def peak():  # of this process alone: what getrusage gives begins with the memory of the one that started it
    return next(int(line.split()[1]) // 1024 for line in open("/proc/self/status") if line.startswith("VmHWM:"))

where = json.loads(sys.argv[1])
if "folder" in where:
    raw = FolderBlobs(Path(where["folder"]))
else:
    from falaj.storage.s3 import S3Blobs
    raw = S3Blobs(**where)
blobs = Sealed(Retrying(raw), lambda _: bytes(32))
blobs.put("b" * 32, iter([bytes(100)]))
list(blobs.read("b" * 32, 0, 100))
before = peak()
size = blobs.put("a" * 32, Hashing(cut((os.urandom(1 << 18) for _ in range(1200)), CHUNK)))
assert size == 300 << 20
written = peak()
assert sum(len(piece) for piece in blobs.read("a" * 32, 0, size)) == size
print(written - before, peak() - before)
"""


@pytest.mark.parametrize("kind", ["folder", "s3"])
def test_memory_stays_bounded_however_large_the_object(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    where = {"folder": str(tmp_path)} if kind == "folder" else request.getfixturevalue("s3_storage")
    done = subprocess.run([sys.executable, "-c", MEMORY, json.dumps(where)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    writing, both = map(int, done.stdout.split())
    assert writing < 140, done.stdout
    assert both < 160, done.stdout


# Trying again


def test_a_put_that_outgrew_the_memory_is_not_repeated_with_half_of_it(tmp_path: Path) -> None:
    inner = FolderBlobs(tmp_path)
    blobs = Retrying(Flaky(inner), remembered=MIB, wait=lambda _: None)
    with pytest.raises(Unavailable):
        blobs.put("a" * 32, iter([bytes(MIB), b"x"]))
    assert inner.list("", 1) == ()


def test_waiting_doubles_and_ends() -> None:
    waited: list[float] = []

    class Gone(Flaky):
        def size(self, object_id: str) -> int:
            raise Unavailable("gone", delay=1.5)

    with pytest.raises(Unavailable):
        Retrying(Gone(FolderBlobs.__new__(FolderBlobs)), attempts=4, wait=waited.append).size("a" * 32)
    assert waited == [1.5, 3.0, 6.0]


def test_a_full_disk_is_not_waited_for(tmp_path: Path) -> None:
    waited: list[float] = []
    with pytest.raises(OutOfSpace):
        Retrying(Flaky(FolderBlobs(tmp_path), error=OutOfSpace), wait=waited.append).put("a" * 32, iter([b"x"]))
    assert waited == []


def test_a_missing_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(StorageNotConfigured, match=r"pip install falaj\[s3\]"):
        S3Blobs(bucket="any")
