"""Jobs as processes of this host, each inside walls, beside a keeper that outlives whoever started it.

The engine itself keeps nothing: all it knows is in the folders of its attempts, so that any number of engines on the same
directory, one after another or at once, see and do the same.
"""

import contextlib
import errno
import json
import os
import re
import shutil
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import falaj
from falaj.base.clock import DAY, SECOND, Moment
from falaj.base.errors import Conflict, Invalid, OutOfSpace, TooLarge, Unavailable
from falaj.jobs.engines.engine import Cause, Launch, Seen, Used
from falaj.jobs.engines.local_orders import Orders, Site, host_name
from falaj.jobs.running import folders, locks, log, mps
from falaj.jobs.running.limits import MIB, Group
from falaj.jobs.running.measures import began
from falaj.jobs.running.orders import written
from falaj.jobs.scheduler.values import Node

_ATTEMPT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_REMEMBERED: Final = 7 * DAY  # that an attempt was forgotten, so that nobody who comes late starts it again

# Finds us wherever we lie; nothing of ours comes before what Python brings along.
_KEEPER: Final = "import sys; sys.path.append(sys.argv.pop(1)); from falaj.jobs.running.keeper import main; main()"


class LocalEngine:
    """Thread-safe. `directory` is its own; nobody but the platform may read it."""

    name = "local"

    def __init__(self, directory: Path, site: Site) -> None:
        self._attempts = directory / "attempts"
        self._forgotten = directory / "forgotten"
        for place in (directory, self._attempts, self._forgotten):
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._orders, self._tied = Orders(directory, site), site.tied
        self._ended: dict[str, Seen] = {}
        # That may be children of ours, and wait to be asked how they ended; with when they began.
        self._keepers: set[tuple[int, int | None]] = set()
        self._starting = threading.Lock()
        self._clean()

    def nodes(self) -> Sequence[Node]:
        return (self._orders.node(),)

    def start(self, launch: Launch) -> None:
        with _told_by_the_disk():
            self._start(launch)

    def stop(self, attempt: str, grace: int) -> None:
        with _told_by_the_disk():
            self._stop(attempt, time.monotonic() + max(0, grace) / SECOND)

    def look(self) -> Sequence[Seen]:
        with _told_by_the_disk():
            found = [self._seen(place) for place in sorted(self._attempts.iterdir()) if place.name[0] != "."]
        self._keepers = {keeper for keeper in self._keepers if not _is_reaped(*keeper)}
        return [seen for seen in found if seen is not None]

    def log(self, attempt: str, offset: int, limit: int) -> tuple[bytes, int]:
        return log.read(self._place(attempt) / folders.LOG, offset, limit)

    def forget(self, attempt: str) -> None:
        place = self._place(attempt)
        if not place.exists():
            return
        if not (place / folders.ENDED).exists():
            raise Conflict(f"Attempt {attempt} has not ended: stop it first")
        with _told_by_the_disk():
            (self._forgotten / attempt).touch()
        gone = self._attempts / f".{attempt}.gone"
        with contextlib.suppress(OSError):  # somebody else does it
            place.rename(gone)
        self._ended.pop(attempt, None)
        _remove(gone)

    def close(self) -> None:
        """There is nothing to let go of."""

    def _start(self, launch: Launch) -> None:
        place = self._place(launch.attempt)
        if (self._forgotten / launch.attempt).exists():
            return
        if place.exists():
            self._start_again(place, launch)
            return
        new = self._attempts / f".{launch.attempt}.{os.getpid()}.{threading.get_ident()}"
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(mode=0o700)
        lock = folders.take(new / folders.LOCK)
        assert lock is not None  # nosec B101 - nobody else knows it yet
        try:
            if self._write(new, launch) and _rename(new, place):
                self._spawn(place, lock, launch)
        finally:
            os.close(lock)
            shutil.rmtree(new, ignore_errors=True)

    def _stop(self, attempt: str, until: float) -> None:
        place = self._place(attempt)
        if not place.exists() and self._refuse(attempt):
            return
        before = folders.read(place / folders.STOP)
        if (place / folders.ENDED).exists() or (before is not None and before["until"] <= until):
            return
        with contextlib.suppress(FileNotFoundError):  # it was forgotten meanwhile
            folders.write(place / folders.STOP, {"until": until})
            status = folders.read(place / folders.STATUS)
            if status is not None:
                _send(status["keeper"], signal.SIGUSR1)

    def _place(self, attempt: str) -> Path:
        if not _ATTEMPT.fullmatch(attempt):
            raise Invalid(f"{attempt[:100]!r} is no id of an attempt")
        return self._attempts / attempt

    def _start_again(self, place: Path, launch: Launch) -> None:
        """One whose starter died before there was a keeper gets one now; all others have one, or had."""
        lock = folders.take(place / folders.LOCK)
        if lock is None:
            return
        try:
            if not any((place / name).exists() for name in (folders.ENDED, folders.STATUS)):
                self._spawn(place, lock, launch)
        finally:
            os.close(lock)

    def _write(self, new: Path, launch: Launch) -> bool:
        """False where it ended before it could begin."""
        try:
            with self._starting:  # so that two at once do not take the same cores
                folders.write(new / folders.ORDER, written(self._orders.compose(launch, self._given_cores())))
        except (locks.Unusable, mps.NoSharing) as problem:
            self._end_at_once(new, launch.attempt, "environment", str(problem))
            return False
        if launch.source is not None:
            _keep_source(new / folders.SOURCE, launch)
        return True

    def _given_cores(self) -> Counter[int]:
        given: Counter[int] = Counter()
        for place in self._attempts.iterdir():
            if not (place / folders.ENDED).exists() and (order := folders.read(place / folders.ORDER)):
                given.update(order["cores"])
        return given

    def _spawn(self, place: Path, lock: int, launch: Launch) -> None:
        """The keeper is nobody's child for long, and nothing secret passes but through its pipe."""
        reads, writes = os.pipe()
        trouble = os.open(place / folders.TROUBLE, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        actions = [(os.POSIX_SPAWN_DUP2, have, want) for have, want in ((reads, 0), (trouble, 1), (trouble, 2))]
        actions.append((os.POSIX_SPAWN_DUP2, lock, folders.LOCK_DESCRIPTOR))
        command = [sys.executable, "-I", "-c", _KEEPER, str(Path(falaj.__file__).parents[1]), str(place)]
        command += [str(os.getpid())] if self._tied else []
        seen = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
        try:
            pid = os.posix_spawn(sys.executable, command, seen, file_actions=actions, setsid=True)
            self._keepers.add((pid, began(pid)))
        finally:
            os.close(reads)
            os.close(trouble)
        with contextlib.suppress(BrokenPipeError), open(writes, "wb") as pipe:
            pipe.write(json.dumps(dict(launch.variables)).encode())

    def _refuse(self, attempt: str) -> bool:
        """An attempt never heard of ends before it began."""
        new = self._attempts / f".{attempt}.{os.getpid()}.{threading.get_ident()}"
        new.mkdir(mode=0o700, exist_ok=True)
        return self._end_at_once(new, attempt, "stopped", "it was stopped before it was started")

    def _end_at_once(self, new: Path, attempt: str, cause: Cause, words: str) -> bool:
        """Whether nobody else began it meanwhile."""
        folders.write(new / folders.ENDED, _ending(cause, words))
        (new / folders.LOCK).touch(mode=0o600)
        renamed = _rename(new, self._attempts / attempt)
        if not renamed:
            shutil.rmtree(new, ignore_errors=True)
        return renamed

    def _seen(self, place: Path) -> Seen | None:
        if known := self._ended.get(place.name):
            return known
        try:
            ended = folders.read(place / folders.ENDED)
            if ended is None and (lock := folders.take(place / folders.LOCK, create=False)) is not None:
                try:
                    ended = folders.read(place / folders.ENDED) or _bury(place)
                finally:
                    os.close(lock)
            status = folders.read(place / folders.STATUS)
        except FileNotFoundError:
            return None  # forgotten meanwhile
        if ended is None:
            return _going(place.name, status)
        if status is not None:
            self._keepers.add(tuple(status["keeper"]))  # those of an engine before us may have become ours
        seen = _over(place.name, ended)
        self._ended[place.name] = seen
        return seen

    def _clean(self) -> None:
        """What was left half done, and what need not be remembered any more."""
        oldest = time.time() - _REMEMBERED / SECOND
        for mark in self._forgotten.iterdir():
            with contextlib.suppress(FileNotFoundError):
                if mark.stat().st_mtime < oldest:
                    mark.unlink()
        for place in self._attempts.glob(".*"):
            if place.name.endswith(".gone") or place.stat().st_mtime < time.time() - 3600:
                _remove(place)


def _going(attempt: str, status: dict[str, Any] | None) -> Seen:
    if status is None or status["started"] is None:
        return Seen(attempt=attempt, state="preparing", nodes=(host_name(),))
    started, used = Moment(status["started"]), Used(**status["used"])
    return Seen(attempt=attempt, state="running", started=started, used=used, nodes=(host_name(),))


def _over(attempt: str, ended: dict[str, Any]) -> Seen:
    return Seen(
        attempt=attempt,
        state="ended",
        started=Moment(ended["started"]) if ended["started"] is not None else None,
        ended=Moment(ended["ended"]),
        cause=ended["cause"],
        code=ended["code"],
        words=ended["words"],
        used=Used(**ended["used"]),
        nodes=(host_name(),),
    )


def _ending(cause: Cause, words: str) -> dict[str, Any]:
    now = time.time_ns() // 1000
    return {"cause": cause, "code": None, "words": words, "started": None, "ended": now, "used": {}}


def _bury(place: Path) -> dict[str, Any]:
    """Nobody keeps it any more, and it did not say how it ended. Its processes ended with its keeper; if not, they do now."""
    status = folders.read(place / folders.STATUS) or {}
    if status.get("sandbox"):
        _send(status["sandbox"], signal.SIGKILL)
    Group.found(status.get("groups", [])).remove()
    (place / folders.SOURCE).unlink(missing_ok=True)
    about = {"started": status.get("started"), "used": status.get("used", {})}
    ended = _ending("lost", "its keeper went away under it") | about
    folders.write(place / folders.ENDED, ended)
    return ended


def _send(process: list[int], number: signal.Signals) -> None:
    """To a process known by its number and when it began; never to another that has the number now."""
    pid, beginning = process
    with contextlib.suppress(OSError):
        opened = os.pidfd_open(pid)
        try:
            if began(pid) == beginning:
                signal.pidfd_send_signal(opened, number)
        finally:
            os.close(opened)


def _is_reaped(pid: int, beginning: int | None) -> bool:
    try:
        return began(pid) != beginning or os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True  # nobody's, or another's


@contextlib.contextmanager
def _told_by_the_disk() -> Iterator[None]:
    """What a full or broken disk says, as something that may pass."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise OutOfSpace(f"There is no room left for jobs: {error}") from error
        raise Unavailable(f"The folder of the jobs does not answer: {error}") from error


def _keep_source(file: Path, launch: Launch) -> None:
    assert launch.source is not None  # nosec B101 - for types
    left = launch.limits.disk_mib * MIB or None
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as target:
        for chunk in launch.source():
            if left is not None and (left := left - len(chunk)) < 0:
                raise TooLarge(f"The source of a job may take {launch.limits.disk_mib} MiB, as its disk does")
            target.write(chunk)
        target.flush()
        os.fsync(target.fileno())


def _rename(new: Path, place: Path) -> bool:
    """Whether nobody was faster."""
    try:
        folders.settle(new)
        new.rename(place)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            return False
        raise
    folders.settle(place.parent)
    return True


def _remove(place: Path) -> None:
    """Also what a job has closed to itself."""

    def open_up(_remove: Any, path: str, _error: Any) -> None:
        with contextlib.suppress(OSError):
            Path(path).parent.chmod(0o700)
            Path(path).chmod(0o700)
            (os.rmdir if Path(path).is_dir() else os.unlink)(path)

    shutil.rmtree(place, onerror=open_up)
    if place.exists():
        shutil.rmtree(place, ignore_errors=True)
