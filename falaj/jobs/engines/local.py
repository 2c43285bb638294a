"""Jobs as processes of this host, each inside walls, beside a keeper that outlives whoever started it.

The engine itself keeps nothing: all it knows is in the folders of its attempts, so that any number of engines on the same
directory, one after another or at once, see and do the same.
"""

import contextlib
import errno
import json
import logging
import os
import re
import shutil
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import falaj
from falaj.base.clock import DAY, SECOND
from falaj.base.errors import Conflict, Invalid, OutOfSpace, TooLarge, Unavailable
from falaj.jobs.engines.engine import CardUse, Cause, Launch, Seen
from falaj.jobs.engines.local_orders import Orders, Site
from falaj.jobs.engines.understanding import UNREADABLE, going, over
from falaj.jobs.running import containers, folders, gpus, locks, log, mps, trees
from falaj.jobs.running.limits import MIB, Group
from falaj.jobs.running.measures import began
from falaj.jobs.running.orders import written
from falaj.jobs.scheduler.values import Node
from falaj.runtimes import bubblewrap

_ATTEMPT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_CARDS_PAUSE: Final = 2.0  # seconds between two questions to the host's cards
_REMOVING: Final = 1.0  # seconds that anybody waits for what a job left to be gone
_REMEMBERED: Final = 7 * DAY  # that an attempt was forgotten, so that nobody who comes late starts it again

# Finds us wherever we lie; nothing of ours comes before what Python brings along.
_OF_ONE_FOLDER: Final = (errno.EACCES, errno.EPERM, errno.ELOOP)  # and not of the whole disk
_KEEPER: Final = "import sys; sys.path.append(sys.argv.pop(1)); from falaj.jobs.running.keeper import main; main()"

logger = logging.getLogger(__name__)


class LocalEngine:
    """Thread-safe. `directory` is its own; nobody but the platform may read it."""

    def __init__(self, directory: Path, site: Site, name: str = "local") -> None:
        self.name = name
        self._attempts = directory / "attempts"
        self._forgotten = directory / "forgotten"
        for place in (directory, self._attempts, self._forgotten):
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._orders, self._tied = Orders(directory, site), site.tied
        self._here = (self._orders.name,)
        self._ended: dict[str, Seen] = {}
        self._odd: set[Path] = set()  # files that could not be read, which was said
        # That may be children of ours, and wait to be asked how they ended; with when they began.
        self._keepers: set[tuple[int, int | None]] = set()
        self._starting = threading.Lock()
        self._asking: gpus.Asking | None = None  # from the first time that somebody wants to know
        self._clean()

    def nodes(self) -> Sequence[Node]:
        return (self._orders.node(),)

    def cards(self) -> Mapping[str, Sequence[CardUse | None]]:
        if not (there := self._orders.cards):
            return {}
        with self._starting:
            if self._asking is None:
                self._asking = gpus.Asking(_CARDS_PAUSE, about_processes=False)
        return {self._orders.name: [_card_use(self._asking.states.get(card.id)) for card in there]}

    def start(self, launch: Launch) -> None:
        with _told_by_the_disk():
            self._start(launch)

    def stop(self, attempt: str, grace: int) -> None:
        with _told_by_the_disk():
            self._stop(attempt, time.monotonic() + max(0, grace) / SECOND)

    def look(self) -> Sequence[Seen]:
        with _told_by_the_disk():
            found = [self._seen(place) for place in sorted(self._attempts.iterdir()) if _ATTEMPT.fullmatch(place.name)]
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
        if self._asking is not None:
            self._asking.close()

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
        before = self._read(place / folders.STOP) or {}
        if (place / folders.ENDED).exists() or before.get("until", until + 1) <= until:
            return
        with contextlib.suppress(FileNotFoundError):  # it was forgotten meanwhile
            folders.write(place / folders.STOP, {"until": until})
            status = self._read(place / folders.STATUS) or {}
            if "keeper" in status:
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
            if (place / folders.ENDED).exists():
                continue
            with contextlib.suppress(OSError, TypeError):  # what cannot be read takes no cores
                given.update((self._read(place / folders.ORDER) or {}).get("cores", ()))
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
            is_over = (place / folders.ENDED).exists()
            if not is_over and (lock := folders.take(place / folders.LOCK, create=False)) is not None:
                try:
                    is_over = (place / folders.ENDED).exists() or self._bury(place)
                finally:
                    os.close(lock)
            return self._over(place) if is_over else self._going(place)
        except FileNotFoundError:
            return None  # forgotten meanwhile
        except NotADirectoryError as error:
            self._complain(place, error)
            return None  # a file that is none of ours
        except IsADirectoryError as error:
            self._complain(place, error)
            return self._broken(place)
        except OSError as error:
            if error.errno not in _OF_ONE_FOLDER:
                raise
            self._complain(place, error)
            return going(place.name, None, self._here)  # it may still run

    def _going(self, place: Path) -> Seen:
        status = self._read(place / folders.STATUS)
        try:
            return going(place.name, status, self._here)
        except ValueError as error:  # its keeper lives, whatever it says
            self._complain(place / folders.STATUS, error)
            return going(place.name, None, self._here)

    def _over(self, place: Path) -> Seen:
        if status := self._read(place / folders.STATUS):
            with contextlib.suppress(KeyError, TypeError, ValueError):
                pid, beginning = status["keeper"]
                self._keepers.add((pid, beginning))  # those of an engine before us may have become ours
        ended = place / folders.ENDED
        try:
            seen = over(place.name, folders.read(ended), self._here)
        except ValueError as error:
            self._complain(ended, error)
            return self._broken(place)
        self._ended[place.name] = seen
        return seen

    def _broken(self, place: Path) -> Seen:
        """One of which nobody can say how it ended is lost; nothing follows for the others."""
        seen = over(place.name, _ending("lost", UNREADABLE), self._here)
        self._ended[place.name] = seen
        return seen

    def _bury(self, place: Path) -> bool:
        """Nobody keeps it any more, and it did not say how it ended. Its processes ended with its keeper; if not, they do
        now."""
        status = self._read(place / folders.STATUS) or {}
        try:
            if status.get("sandbox"):
                _send(status["sandbox"], signal.SIGKILL)
            bubblewrap.end_what_is_left(str(place))
            Group.found(status.get("groups", [])).remove()
            if (image := (self._read(place / folders.ORDER) or {}).get("image")) is not None:
                containers.wait_for(status.get("builder"))
                containers.remove(image["podman"], place.name)
        except (ValueError, KeyError, TypeError) as error:  # it was written by another release, or by nobody
            self._complain(place / folders.STATUS, error)
        (place / folders.SOURCE).unlink(missing_ok=True)
        about = {"image": status.get("image", ""), "started": status.get("started"), "used": status.get("used", {})}
        folders.write(place / folders.ENDED, _ending("lost", "its keeper went away under it") | about)
        return True

    def _read(self, file: Path) -> dict[str, Any] | None:
        """None also where it makes no sense."""
        try:
            told = folders.read(file)
        except ValueError as error:
            self._complain(file, error)
            return None
        return told if isinstance(told, dict) else None

    def _complain(self, file: Path, error: Exception) -> None:
        if file not in self._odd:
            self._odd.add(file)
            logger.warning("%s of an attempt cannot be read, its attempt alone suffers: %s", file, error)

    def _clean(self) -> None:
        """What was left half done, and what need not be remembered any more. Whatever lies there, a platform starts."""
        now = time.time()
        for mark in self._forgotten.iterdir():
            with contextlib.suppress(OSError):
                if mark.lstat().st_mtime < now - _REMEMBERED / SECOND:
                    mark.unlink()
        left = []
        for place in self._attempts.glob(".*"):
            with contextlib.suppress(FileNotFoundError):  # another engine does it
                if place.name.endswith(".gone") or place.lstat().st_mtime < now - 3600:
                    left.append(place)
        _remove(*left)


def _card_use(state: gpus.State | None) -> CardUse | None:
    if state is None or state.busy is None:
        return None
    return CardUse(busy=state.busy / 100, memory_mib=state.memory_mib, memory_used_mib=state.memory_used_mib)


def _ending(cause: Cause, words: str) -> dict[str, Any]:
    now = time.time_ns() // 1000
    return {"cause": cause, "code": None, "words": words, "started": None, "ended": now, "used": {}}


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


def _remove(*places: Path) -> None:
    """Waits for it a little: a job may have left more than anybody wants to wait for. What stays is tried again by the next
    engine."""

    def go() -> None:
        for place in places:
            try:
                trees.remove(place)
            except Exception as error:  # noqa: BLE001 - whatever a job left, the others go on
                logger.warning("%s of an attempt that is over cannot be removed, and takes room: %s", place, error)

    if places:
        removing = threading.Thread(target=go, name="removing", daemon=True)
        removing.start()
        removing.join(_REMOVING)
