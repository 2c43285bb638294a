"""The embedded key ring: a sealed file in a directory of its own, outside the data it protects.

Beside `ring.json` lie the secret that opens it (`unlock.key`, unless a passphrase does) and, until the owner takes it away, the
recovery kit. An escrow copy that only the recovery code opens lies in the home, and so in every backup of it.
"""

import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from falaj.base.clock import Clock
from falaj.base.failpoints import failpoint
from falaj.base.files import full_disk_told, write_durably
from falaj.base.ids import new_id
from falaj.keys.errors import KeyDestroyed, KeyRingExists, KeyRingLocked, KeyRingLost, RecoveryCodeWrong, Unopenable
from falaj.keys.recovery import new_secret, read_code, write_code, write_kit
from falaj.keys.ring import KeyVersion, Wrapped, bound_context, check_key_name
from falaj.keys.sealed_ring import RECOVERY, UNLOCK, Ring, make_slot, read_ring, ring_state, slot_kind, write_ring
from falaj.keys.sealing import new_key, seal, unseal

RING, LOCK, UNLOCK_SECRET, KIT = "ring.json", "ring.lock", "unlock.key", "recovery-kit.txt"
PASSPHRASE_VARIABLE = "FALAJ_KEYS_PASSPHRASE"  # nosec B105


class FileKeyRing:
    """A `KeyRing` in a file. Several processes on one machine may share it: changes are made under a lock, on what is there."""

    def __init__(self, directory: Path, *, escrow: Path, clock: Clock, passphrase: str = "") -> None:
        """Open the ring in `directory`, changing nothing. Raises `KeyRingLost` where there is none and `KeyRingLocked` where it
        stays shut."""
        self._file: Final = directory / RING
        self._directory = directory
        self._escrow = escrow
        self._clock = clock
        self._passphrase = passphrase
        self._lock = threading.RLock()
        if not self._file.exists():
            raise KeyRingLost(_way_back(directory, escrow))
        self._seen = _fingerprint(self._file)
        self._ring = _open(directory, passphrase)
        self._refuse_strange_home()

    @classmethod
    def open_or_create(
        cls, directory: Path, *, escrow: Path, clock: Clock, home_exists: bool, passphrase: str = ""
    ) -> "FileKeyRing":
        """Open the ring, or make it for a home that is new. A home that has data and no ring raises `KeyRingLost`."""
        if not (directory / RING).exists():
            if home_exists or escrow.exists():
                raise KeyRingLost(_way_back(directory, escrow))
            with suppress(KeyRingExists):  # another process was faster; its ring is the one
                create_ring(directory, clock=clock, passphrase=passphrase)
        ring = cls(directory, escrow=escrow, clock=clock, passphrase=passphrase)
        ring._settle()
        return ring

    def _settle(self) -> None:
        """What a start brings in order: a passphrase that was set since, and an escrow copy that a crash prevented."""
        with self._changing():
            if self._passphrase and self._ring.slots[UNLOCK].kind != "passphrase":
                self._move_under_passphrase()
            self._write_escrow()

    def create(self, name: str) -> int:
        check_key_name(name)
        with self._changing():
            if name not in self._ring.keys:
                self._keep(self._ring.with_new_version(name, self._clock.now()))
            return self._ring.newest(name)[0]

    def wrap(self, name: str, plaintext: bytes, context: bytes) -> Wrapped:
        version, key = self._fresh().newest(name)
        return Wrapped(version=version, data=seal(key, plaintext, bound_context(name, version, context)))

    def unwrap(self, name: str, wrapped: Wrapped, context: bytes) -> bytes:
        key = self._fresh().version(name, wrapped.version)
        return unseal(key, wrapped.data, bound_context(name, wrapped.version, context))

    def rotate(self, name: str) -> int:
        with self._changing():
            self._ring.key(name)
            self._keep(self._ring.with_new_version(name, self._clock.now()))
            return self._ring.newest(name)[0]

    def destroy(self, name: str, version: int | None = None) -> None:
        with self._changing():
            try:
                versions = self._ring.key(name).versions
            except KeyDestroyed:
                return
            if version is None or version in versions:
                self._keep(self._ring.without(name, version))

    def versions(self, name: str) -> tuple[KeyVersion, ...]:
        return self._fresh().described(name)

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(name for name, key in self._fresh().keys.items() if key.versions))

    def _fresh(self) -> Ring:
        """The ring as it is on the disk. One that vanished under us stays in memory, so that reading goes on."""
        with suppress(FileNotFoundError):
            if _fingerprint(self._file) != self._seen:
                with self._lock:
                    self._reread()
        return self._ring

    def _reread(self) -> None:
        seen = _fingerprint(self._file)
        if seen != self._seen:
            self._ring = _open(self._directory, self._passphrase)
            self._seen = seen

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Alone in this process and among all, on the newest state."""
        with self._lock, _locked(self._directory):
            if not self._file.exists():
                raise KeyRingLost(_way_back(self._directory, self._escrow))
            self._reread()
            yield

    def _keep(self, ring: Ring) -> None:
        """Escrow first: a key that wrapped something is then always in both, whenever the process dies."""
        write_durably(self._escrow, write_ring(ring, slots=(RECOVERY,)))
        failpoint("keys.escrow-written")
        write_durably(self._file, write_ring(ring))
        failpoint("keys.ring-written")
        self._ring, self._seen = ring, _fingerprint(self._file)

    def _refuse_strange_home(self) -> None:
        """An escrow copy of another ring is the way back to that ring's data: it is never overwritten."""
        state = self._escrow_state()
        if state is not None and state[0] != self._ring.id:
            raise KeyRingLocked(
                f"The key ring in {self._directory} is that of another home: {self._escrow} is of ring {state[0]}. "
                f"Put the right ring there or, with {self._directory} moved away, run `falaj key recover --kit FILE`."
            )

    def _write_escrow(self) -> None:
        """Renew the escrow copy where it is missing or tells of another state."""
        if self._escrow_state() != (self._ring.id, self._ring.serial):
            write_durably(self._escrow, write_ring(self._ring, slots=(RECOVERY,)))

    def _escrow_state(self) -> tuple[str, int] | None:
        try:
            return ring_state(self._escrow.read_bytes())
        except (FileNotFoundError, Unopenable):
            return None

    def _move_under_passphrase(self) -> None:
        """The owner set a passphrase after the ring was made: from now on it opens the ring, and the secret file goes."""
        slot = make_slot(self._ring.id, UNLOCK, self._ring.master, passphrase=self._passphrase)
        self._keep(self._ring.with_slot(UNLOCK, slot))
        (self._directory / UNLOCK_SECRET).unlink(missing_ok=True)


def create_ring(directory: Path, *, clock: Clock, passphrase: str = "") -> None:
    """Make a ring with its unlock secret and its recovery kit. Of several processes that try, one makes it."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _locked(directory):
        if (directory / RING).exists():
            raise KeyRingExists(f"There is a key ring in {directory} already.")
        now = clock.now()
        ring, master, recovery = new_id(now), new_key(), new_secret()
        kit = write_kit(ring=ring, made=str(now), code=write_code(recovery))
        write_durably(directory / KIT, kit.encode())
        slots = {RECOVERY: make_slot(ring, RECOVERY, master, secret=recovery)}
        _finish(directory, Ring(id=ring, serial=1, master=master, slots=slots, keys={}), passphrase)


def recover(escrow: Path, code: str, directory: Path, *, passphrase: str = "") -> None:
    """Make the key directory again from the escrow copy in the home and the code on the recovery kit."""
    secret = read_code(code)
    if not escrow.exists():
        raise KeyRingLost(f"There is no escrow copy at {escrow}; restore the platform's home from a backup first.")
    try:
        ring = read_ring(escrow.read_bytes(), RECOVERY, secret=secret)
    except KeyRingLocked:
        raise RecoveryCodeWrong("This recovery code belongs to another key ring; look for the right kit.") from None
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _locked(directory):
        if (directory / RING).exists():
            raise KeyRingExists(f"There is a key ring in {directory}; move it away before recovering another.")
        _finish(directory, ring, passphrase)


def _finish(directory: Path, ring: Ring, passphrase: str) -> None:
    """Write the unlock secret, then the ring: a ring that is there can be opened."""
    secret = b"" if passphrase else new_key()
    if secret:
        write_durably(directory / UNLOCK_SECRET, secret.hex().encode() + b"\n")
    failpoint("keys.unlock-written")
    ring = ring.with_slot(UNLOCK, make_slot(ring.id, UNLOCK, ring.master, secret=secret, passphrase=passphrase))
    write_durably(directory / RING, write_ring(ring))
    failpoint("keys.ring-created")


def _open(directory: Path, passphrase: str) -> Ring:
    content = (directory / RING).read_bytes()
    if slot_kind(content, UNLOCK) == "passphrase":
        if not passphrase:
            raise KeyRingLocked(f"The key ring in {directory} is under a passphrase: set {PASSPHRASE_VARIABLE}.")
        return _opened(directory, lambda: read_ring(content, UNLOCK, passphrase=passphrase), PASSPHRASE_VARIABLE)
    try:
        secret = bytes.fromhex((directory / UNLOCK_SECRET).read_text())
    except FileNotFoundError:
        raise KeyRingLocked(
            f"{directory / UNLOCK_SECRET} is missing. Move {directory} away and run `falaj key recover --kit FILE`."
        ) from None
    except ValueError:
        secret = b""
    return _opened(directory, lambda: read_ring(content, UNLOCK, secret=secret), str(directory / UNLOCK_SECRET))


def _opened(directory: Path, read: Callable[[], Ring], source: str) -> Ring:
    try:
        return read()
    except KeyRingLocked:
        raise KeyRingLocked(
            f"The key ring in {directory} does not open with {source}. "
            f"If the right secret is lost, move {directory} away and run `falaj key recover --kit FILE`."
        ) from None


def _way_back(directory: Path, escrow: Path) -> str:
    return (
        f"The key ring is not in {directory}, and this home has data sealed by it. Put that directory back from a copy, or run "
        f"`falaj key recover --kit FILE` with the recovery kit that was written when the platform first started; "
        f"it needs the escrow copy {escrow}."
    )


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    with full_disk_told(directory):
        try:
            descriptor = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            raise KeyRingLost(f"The key directory {directory} is gone; run `falaj key recover --kit FILE`.") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _fingerprint(file: Path) -> tuple[int, int, int]:
    stat = file.stat()
    return stat.st_ino, stat.st_mtime_ns, stat.st_size
