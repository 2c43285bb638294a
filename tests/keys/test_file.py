"""The file key ring: the protocol's promises, and what a lost, torn or shared file does."""

import json
import multiprocessing
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from falaj.base.clock import SystemClock
from falaj.base.errors import OutOfSpace
from falaj.keys import sealed_ring
from falaj.keys.errors import KeyDestroyed, KeyRingExists, KeyRingLocked, KeyRingLost, RecoveryCodeWrong, Unopenable
from falaj.keys.file import FileKeyRing, create_ring, recover
from falaj.keys.recovery import new_secret, read_code, read_kit, write_code
from falaj.keys.ring import KeyRing
from falaj.testing.keyrings import KeyRingConformance


def start(folder: Path, *, home_exists: bool = False, passphrase: str = "") -> FileKeyRing:
    (folder / "home").mkdir(exist_ok=True)
    return FileKeyRing.open_or_create(
        folder / "home.keys",
        escrow=folder / "home" / "key-escrow.json",
        clock=SystemClock(),
        home_exists=home_exists,
        passphrase=passphrase,
    )


@pytest.fixture(autouse=True)
def cheap_guesses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealed_ring, "SCRYPT_COST", 2**4)


class TestFileKeyRing(KeyRingConformance):
    @pytest.fixture
    def ring(self, tmp_path: Path) -> KeyRing:
        return start(tmp_path)


class TestFileKeyRingUnderAPassphrase(KeyRingConformance):
    @pytest.fixture
    def ring(self, tmp_path: Path) -> KeyRing:
        return start(tmp_path, passphrase="correct horse")


def test_a_ring_opens_again_and_still_unwraps(tmp_path: Path) -> None:
    ring = start(tmp_path)
    ring.create("alpha")
    wrapped = ring.wrap("alpha", b"x", b"c")
    assert start(tmp_path, home_exists=True).unwrap("alpha", wrapped, b"c") == b"x"


def test_only_the_owner_may_read_the_files(tmp_path: Path) -> None:
    os.umask(os.umask(0))  # whatever the umask is
    start(tmp_path).create("alpha")
    assert stat.S_IMODE((tmp_path / "home.keys").stat().st_mode) == 0o700
    files = [*(tmp_path / "home.keys").iterdir(), tmp_path / "home" / "key-escrow.json"]
    assert {file.name for file in files} == {"ring.json", "ring.lock", "unlock.key", "recovery-kit.txt", "key-escrow.json"}
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


def test_no_file_but_the_secrets_own_opens_the_ring(tmp_path: Path) -> None:
    ring = start(tmp_path)
    ring.create("alpha")
    key = ring._ring.newest("alpha")[1]
    code = read_code(read_kit(tmp_path / "home.keys" / "recovery-kit.txt"))
    for file in (tmp_path / "home.keys" / "ring.json", tmp_path / "home" / "key-escrow.json"):
        for secret in (key, ring._ring.master, code):
            assert sealed_ring._text(secret).encode() not in file.read_bytes()
            assert secret.hex().encode() not in file.read_bytes()
    assert set(json.loads((tmp_path / "home" / "key-escrow.json").read_bytes())["slots"]) == {"recovery"}


def test_a_lost_ring_is_told_with_the_way_back(tmp_path: Path) -> None:
    start(tmp_path).create("alpha")
    (tmp_path / "home.keys").rename(tmp_path / "elsewhere")
    for home_exists in (True, False):  # the escrow copy alone shows that there was a ring
        with pytest.raises(KeyRingLost, match=r"falaj key recover --kit FILE"):
            start(tmp_path, home_exists=home_exists)
    assert not (tmp_path / "home.keys").exists()


def test_a_home_with_data_never_gets_a_new_ring(tmp_path: Path) -> None:
    with pytest.raises(KeyRingLost):
        start(tmp_path, home_exists=True)
    assert not (tmp_path / "home.keys").exists()


def test_the_kit_brings_a_lost_ring_back(tmp_path: Path) -> None:
    ring = start(tmp_path)
    ring.create("alpha")
    ring.create("gone")
    ring.destroy("gone")
    old = ring.wrap("alpha", b"old", b"")
    ring.rotate("alpha")
    new = ring.wrap("alpha", b"new", b"")
    (tmp_path / "home.keys").rename(tmp_path / "lost")
    code = read_kit(tmp_path / "lost" / "recovery-kit.txt")
    recover(tmp_path / "home" / "key-escrow.json", code.lower().replace("-", " "), tmp_path / "home.keys")
    again = start(tmp_path, home_exists=True)
    assert again.unwrap("alpha", old, b"") == b"old"
    assert again.unwrap("alpha", new, b"") == b"new"
    with pytest.raises(KeyDestroyed):
        again.create("gone")
    again.rotate("alpha")
    (tmp_path / "home.keys").rename(tmp_path / "lost-again")
    recover(tmp_path / "home" / "key-escrow.json", code, tmp_path / "home.keys", passphrase="now with one")
    assert len(start(tmp_path, home_exists=True, passphrase="now with one").versions("alpha")) == 3


def test_recovering_over_a_ring_is_refused(tmp_path: Path) -> None:
    start(tmp_path).create("alpha")
    code = read_kit(tmp_path / "home.keys" / "recovery-kit.txt")
    with pytest.raises(KeyRingExists):
        recover(tmp_path / "home" / "key-escrow.json", code, tmp_path / "home.keys")


def test_a_wrong_code_recovers_nothing(tmp_path: Path) -> None:
    start(tmp_path).create("alpha")
    code = read_kit(tmp_path / "home.keys" / "recovery-kit.txt")
    typo = code[:-1] + ("A" if code[-1] != "A" else "B")
    for wrong in (typo, "", code[:-5], write_code(new_secret()), "FALAJ1-ÄÖÜ"):
        with pytest.raises(RecoveryCodeWrong):
            recover(tmp_path / "home" / "key-escrow.json", wrong, tmp_path / "other.keys")
    assert not (tmp_path / "other.keys").exists()


def test_every_mistyped_letter_of_a_code_is_noticed() -> None:
    code = write_code(new_secret())
    for at in range(len("FALAJ1-"), len(code)):
        if code[at] != "-":
            with pytest.raises(RecoveryCodeWrong):
                read_code(code[:at] + ("A" if code[at] != "A" else "C") + code[at + 1 :])


def test_a_missing_unlock_secret_is_told(tmp_path: Path) -> None:
    start(tmp_path)
    (tmp_path / "home.keys" / "unlock.key").unlink()
    with pytest.raises(KeyRingLocked, match=r"unlock\.key"):
        start(tmp_path, home_exists=True)


def test_a_passphrase_opens_and_a_wrong_one_does_not(tmp_path: Path) -> None:
    ring = start(tmp_path, passphrase="right")
    ring.create("alpha")
    assert not (tmp_path / "home.keys" / "unlock.key").exists()
    for wrong in ("", "wrong"):
        with pytest.raises(KeyRingLocked, match="FALAJ_KEYS_PASSPHRASE"):
            start(tmp_path, home_exists=True, passphrase=wrong)
    assert start(tmp_path, home_exists=True, passphrase="right").names() == ("alpha",)


def test_a_passphrase_set_later_replaces_the_unlock_secret(tmp_path: Path) -> None:
    start(tmp_path).create("alpha")
    assert start(tmp_path, home_exists=True, passphrase="later").names() == ("alpha",)
    assert not (tmp_path / "home.keys" / "unlock.key").exists()
    with pytest.raises(KeyRingLocked):
        start(tmp_path, home_exists=True)


@pytest.mark.parametrize("field", ["sealed", "serial", "ring"])
def test_a_changed_ring_file_does_not_open(tmp_path: Path, field: str) -> None:
    start(tmp_path).create("alpha")
    file = tmp_path / "home.keys" / "ring.json"
    document = json.loads(file.read_text())
    before = document[field]
    document[field] = before + 1 if isinstance(before, int) else before[:-8] + ("A" if before[-8] != "A" else "B") + before[-7:]
    file.write_text(json.dumps(document))
    with pytest.raises((Unopenable, KeyRingLocked)):
        start(tmp_path, home_exists=True)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"format": 2}', b'{"format": 1, "slots": 3}', b'{"format": 1}'])
def test_a_damaged_ring_file_is_told_not_replaced(tmp_path: Path, content: bytes) -> None:
    start(tmp_path)
    (tmp_path / "home.keys" / "ring.json").write_bytes(content)
    with pytest.raises((Unopenable, KeyRingLocked)):
        start(tmp_path, home_exists=True)
    assert (tmp_path / "home.keys" / "ring.json").read_bytes() == content


def test_two_openings_see_each_others_changes(tmp_path: Path) -> None:
    one, two = start(tmp_path), start(tmp_path, home_exists=True)
    one.create("alpha")
    assert two.create("alpha") == 1
    wrapped = one.wrap("alpha", b"x", b"")
    assert two.unwrap("alpha", wrapped, b"") == b"x"
    assert [one.rotate("alpha"), two.rotate("alpha"), one.rotate("alpha")] == [2, 3, 4]
    two.destroy("alpha")
    with pytest.raises(KeyDestroyed):
        one.wrap("alpha", b"x", b"")


def _start_and_create(folder: Path, name: str, ready: object) -> None:
    ready.wait()  # type: ignore[attr-defined]
    start(folder).create(name)


def test_processes_that_start_at_once_make_one_ring(tmp_path: Path) -> None:
    processes = multiprocessing.get_context("spawn")
    ready = processes.Barrier(4)
    starting = [processes.Process(target=_start_and_create, args=(tmp_path, f"key-{n}", ready)) for n in range(4)]
    for process in starting:
        process.start()
    for process in starting:
        process.join(60)
        assert process.exitcode == 0
    assert start(tmp_path, home_exists=True).names() == ("key-0", "key-1", "key-2", "key-3")


def test_reading_goes_on_when_the_directory_vanishes_and_changes_are_refused(tmp_path: Path) -> None:
    ring = start(tmp_path)
    ring.create("alpha")
    wrapped = ring.wrap("alpha", b"x", b"")
    (tmp_path / "home.keys").rename(tmp_path / "lost")
    assert ring.unwrap("alpha", wrapped, b"") == b"x"
    with pytest.raises(KeyRingLost):
        ring.rotate("alpha")


def test_a_second_creation_is_refused(tmp_path: Path) -> None:
    create_ring(tmp_path / "keys", clock=SystemClock())
    before = {file.name: file.read_bytes() for file in (tmp_path / "keys").iterdir()}
    with pytest.raises(KeyRingExists):
        create_ring(tmp_path / "keys", clock=SystemClock())
    assert {file.name: file.read_bytes() for file in (tmp_path / "keys").iterdir()} == before


def test_a_full_disk_is_told_and_leaves_the_ring_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ring = start(tmp_path)
    ring.create("alpha")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OutOfSpace):
            ring.rotate("alpha")
    assert [v.version for v in start(tmp_path, home_exists=True).versions("alpha")] == [1]
    assert not [file for file in tmp_path.rglob(".*") if file.is_file()]
    assert ring.rotate("alpha") == 2


KILLED = """
import sys
from pathlib import Path
from falaj.base.clock import SystemClock
from falaj.keys.file import FileKeyRing
folder = Path(sys.argv[1])
ring = FileKeyRing.open_or_create(
    folder / "home.keys", escrow=folder / "home" / "key-escrow.json", clock=SystemClock(), home_exists=False
)
ring.create("alpha")
ring.rotate("alpha")
print("done")
"""


@pytest.mark.parametrize("point", ["keys.unlock-written", "keys.ring-created", "keys.escrow-written", "keys.ring-written", ""])
def test_a_kill_leaves_a_ring_that_opens_and_recovers(tmp_path: Path, point: str) -> None:
    (tmp_path / "home").mkdir()
    environment = {**os.environ, "FALAJ_FAILPOINT": point}
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode == -9) == bool(point), done.stderr
    ring = start(tmp_path)
    ring.create("alpha")
    wrapped = ring.wrap("alpha", b"x", b"")
    code = read_kit(tmp_path / "home.keys" / "recovery-kit.txt")
    (tmp_path / "home.keys").rename(tmp_path / "lost")
    recover(tmp_path / "home" / "key-escrow.json", code, tmp_path / "home.keys")
    assert start(tmp_path, home_exists=True).unwrap("alpha", wrapped, b"") == b"x"


def test_the_kit_says_what_to_do(tmp_path: Path) -> None:
    start(tmp_path)
    kit = (tmp_path / "home.keys" / "recovery-kit.txt").read_text()
    assert "falaj key recover --kit FILE" in kit
    assert re.search(r"^ +FALAJ1(-[A-Z2-7]{4}){14}$", kit, re.MULTILINE)
