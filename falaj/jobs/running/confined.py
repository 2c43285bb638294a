"""Running something inside the walls and staying beside it: its log, its limits, its way out, and how it ended.

One loop in one thread does it all, but for connections of the relay. The process inside ends with that very thread.
"""

import contextlib
import fcntl
import json
import os
import selectors
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from falaj.jobs.running.limits import MIB, Group, Most
from falaj.jobs.running.log import Log
from falaj.jobs.running.measures import Energy, cpu_seconds, held_open, lying_in, proportional, resident, shared_memory, tree
from falaj.jobs.running.orders import House
from falaj.jobs.running.relay import Relay
from falaj.jobs.running.walls import Inside, command

_OURS_MIB: Final = 24  # the first process inside is ours, and takes nothing from the job
_QUICK, _SLOW = 0.1, 0.25  # seconds between two looks
_FLOOD_PER_SECOND: Final = 16 * MIB  # so much of a flooded log is still read; the job waits for the rest of the second
_PIECE: Final = 1 << 16
_LAST_GRACE: Final = 5.0  # seconds of what ran out of time
_DISK_PAUSE: Final = 0.25
_DISK_SHARE: Final = 20  # looking at a folder takes at most one part in so many of the time
_BROKEN: Final = "The sandbox could not be built"


class Outcome(NamedTuple):
    """`cause` is a word of `engines.engine.Cause`."""

    cause: str
    code: int | None
    words: str


class Work(NamedTuple):
    """What is to be run inside. 0 is no limit; `own` is what each task sees besides `variables`."""

    name: str
    command: tuple[str, ...]
    own: tuple[dict[str, str], ...]
    variables: dict[str, str]
    source: str  # inside the walls, or empty
    directory: str
    platform_url: str
    hosts: tuple[str, ...]
    certificates: str
    cpu_milli: int
    memory_mib: int
    seconds: int
    disk_mib: int
    processes: int
    cores: tuple[int, ...]
    places: tuple[str, ...]  # outside, all of what it may fill


class Meter:
    """What an attempt has used; a sandbox adds to it."""

    def __init__(self) -> None:
        self.cpu_seconds = 0.0
        self.memory_peak = 0
        self.memory_mib_seconds = 0.0
        self.disk = 0
        self.energy = Energy()

    def memory(self, now: int, seconds: float) -> None:
        self.memory_peak = max(self.memory_peak, now)
        self.memory_mib_seconds += now / MIB * seconds

    def cpu(self, seconds: float) -> None:
        self.cpu_seconds = max(self.cpu_seconds, seconds)
        self.energy.add(self.cpu_seconds)


class Wishes:
    """What the keeper is asked for from outside, seen when it wakes: `ending` is why the sandbox is to end, and until when."""

    def __init__(self) -> None:
        self.ending: tuple[Outcome, float] | None = None

    def end(self, outcome: Outcome, until: float) -> None:
        if self.ending is None or until < self.ending[1]:
            self.ending = (self.ending[0] if self.ending else outcome, until)


Look = Callable[[list[int], float], str]  # the processes and the seconds since the last look; why they may not go on


class Confined:
    """One sandbox, from its first process to its last."""

    def __init__(self, house: House, inside: Inside, work: Work, log: Log, meter: Meter, wishes: Wishes) -> None:
        self._house, self._work, self._log, self._meter, self._wishes = house, work, log, meter, wishes
        self._group: Group | None = None
        self._relay: Relay | None = None
        self._said: Outcome | None = None
        self._killed_for: Outcome | None = None
        self._asked_to_end = False
        self._rest = b""
        self._inner: list[int] = []  # the processes that are ours: bubblewrap's two, and the first one inside
        self.started: int | None = None  # microseconds since 1970
        self._flood = _Flood()
        self._begun = time.monotonic()
        self._device = Path(work.places[0]).stat().st_dev
        self._last_words = b""
        self._control, theirs = socket.socketpair()
        self._output, writes = os.pipe()
        with contextlib.suppress(OSError):  # where the user has too many of them already
            fcntl.fcntl(self._output, fcntl.F_SETPIPE_SZ, MIB)
        arguments = command(house, inside, theirs.fileno())
        # No environment for bubblewrap either: its first process stays inside the walls, where others may look into it.
        self._process = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=writes,
            stderr=writes,
            env={},
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
        )
        theirs.close()
        os.close(writes)
        self.pid = self._process.pid

    def groups(self) -> list[str]:
        return self._group.places if self._group else []

    def attend(self, woken: int, notice: Callable[[], None], look: Look, report: Callable[[], None]) -> Outcome:
        """Until it ended. `notice` is called when `woken` can be read; all three now and then."""
        selector = selectors.DefaultSelector()
        for readable in (woken, self._control, self._output):
            selector.register(readable, selectors.EVENT_READ)
        os.set_blocking(self._output, False)
        self._begun = looked = disk_at = time.monotonic()
        wait, pids = _QUICK, [self.pid]
        while not self._has_ended():
            ready = selector.select(max(0.0, min(looked + wait, disk_at, self._next_end()) - time.monotonic()))
            descriptors = {key.fd for key, _ in ready}
            if woken in descriptors:
                _drain(woken)
                notice()
            if self._control.fileno() in descriptors:  # before what it writes, which it says that it begins with
                if not self._hear():
                    selector.unregister(self._control)
                report()
            if self._output in descriptors:
                self._flood.count(self._take_output())
            now = time.monotonic()
            self._flood.pace(selector, self._output, now, self._log.is_flooded)
            self._end_where_asked(now)
            if now - looked >= wait or not self._inner:
                notice()
                pids = self._group.pids() if self._group else tree(self.pid)
                wait = self._look_at_processes(pids, now - looked, look)
                looked = now
                report()
            if now >= disk_at:
                if problem := self._too_much_disk(pids):
                    self.kill(problem)
                disk_at = now + max(_DISK_PAUSE, (time.monotonic() - now) * _DISK_SHARE)
        selector.close()
        return self._conclude()

    def kill(self, outcome: Outcome) -> None:
        """The whole tree goes with the first process inside; its parent waits until all of it has gone."""
        self._killed_for = self._killed_for or outcome
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._inner[1] if len(self._inner) > 1 else self.pid, signal.SIGKILL)

    def abandon(self) -> None:
        """Ends it without asking how it went."""
        if self._process.returncode is None:
            self.kill(Outcome("lost", None, ""))
            while not self._has_ended():
                time.sleep(0.02)

    def _has_ended(self) -> bool:
        """With it, all that ended below it is counted, however short its life was."""
        pid, status, used = os.wait4(self.pid, os.WNOHANG)
        if not pid:
            return False
        self._process.returncode = os.waitstatus_to_exitcode(status)
        self._meter.cpu(used.ru_utime + used.ru_stime)
        return True

    def _conclude(self) -> Outcome:
        """Once nothing of it is left: what it still said, and how it ended."""
        while self._take_output():
            pass
        with contextlib.suppress(OSError):
            self._control.setblocking(False)
            while self._hear():
                pass
        for descriptor in (self._output, self._control.detach()):
            os.close(descriptor)
        if self._relay is not None:
            self._relay.close()
        ended_for_memory = self._group.ended_for_memory() if self._group else 0
        if self._group is not None:
            self._meter.cpu(self._group.cpu_seconds() or 0.0)
            self._group.remove()
        if self._killed_for is not None:
            return self._killed_for
        if ended_for_memory:
            return self._too_much_memory()
        if self._wishes.ending is not None and self._asked_to_end:
            return self._wishes.ending[0]._replace(code=self._said.code if self._said else None)
        end = self._own_end()
        # A file that may not grow any further is an error like any other to the job.
        return (self._too_much_disk([]) or end) if end.cause == "failed" else end

    def _own_end(self) -> Outcome:
        if self._said is not None:
            return self._said
        if self.started is None:
            last = self._last_words.decode(errors="replace").strip().splitlines()
            return Outcome("environment", None, f"{_BROKEN}: {last[-1][:500] if last else 'it ended without a word'}")
        return Outcome("failed", 128 + signal.SIGKILL, "it ended everything inside, the first process too")

    def _too_much_memory(self) -> Outcome:
        return Outcome("memory", None, f"it took more than the {self._work.memory_mib} MiB of memory it asked for")

    def _next_end(self) -> float:
        if self._killed_for is not None:
            return float("inf")
        if self._wishes.ending is not None:
            return self._wishes.ending[1]
        return self._begun + self._work.seconds if self._work.seconds else float("inf")

    def _end_where_asked(self, now: float) -> None:
        if self._killed_for is not None:
            return
        if self._work.seconds and now >= self._begun + self._work.seconds:
            self._wishes.end(Outcome("timeout", None, f"it took more than {self._work.seconds} seconds"), now + _LAST_GRACE)
        if self._wishes.ending is None:
            return
        outcome, until = self._wishes.ending
        if now >= until or self.started is None:
            self.kill(outcome)
        elif not self._asked_to_end:
            self._asked_to_end = True
            with contextlib.suppress(OSError):
                self._control.sendall(b'{"stop": true}\n')

    def _look_at_processes(self, pids: list[int], seconds: float, look: Look) -> float:
        """How soon to look again."""
        wait = self._look_at_memory(pids, seconds)
        if self._work.processes and len(pids) > self._work.processes + len(self._inner):
            self.kill(Outcome("failed", None, f"it ran more than {self._work.processes} processes at once"))
        if why := look(pids, seconds):
            self.kill(Outcome("memory", None, why))
        return wait

    def _look_at_memory(self, pids: list[int], seconds: float) -> float:
        """How soon to look again."""
        if not self._inner:
            return _QUICK / 2  # the walls are being built, and what is seen is the host's
        group, theirs = self._group, [pid for pid in pids if pid not in self._inner]
        used = group.memory() if group else None
        if used is None:
            # What processes share counts for each of them, unless one looks closely, which takes longer.
            used = resident(theirs)
            if self._work.memory_mib and used > self._work.memory_mib * MIB:
                used = proportional(theirs)
            if theirs:
                used += shared_memory(theirs[0]) + held_open(theirs, self._device).memory
            if self._work.memory_mib and used > self._work.memory_mib * MIB:
                self.kill(self._too_much_memory())
        elif group is not None and group.ended_for_memory():
            self.kill(self._too_much_memory())  # one process of it was, and the rest is of no use to anybody
        self._meter.memory(used, seconds)
        measured = group.cpu_seconds() if group else None
        self._meter.cpu(cpu_seconds(pids) if measured is None else measured)
        if self.started is None:
            return _QUICK / 2
        return _SLOW if group and group.holds_memory else _QUICK

    def _too_much_disk(self, pids: list[int]) -> Outcome | None:
        used = sum(lying_in(place) for place in self._work.places) + held_open(pids, self._device).disk
        self._meter.disk = max(self._meter.disk, used)
        if self._work.disk_mib and used > self._work.disk_mib * MIB:
            return Outcome("disk", None, f"it filled more than the {self._work.disk_mib} MiB of disk it may")
        return None

    def _take_output(self) -> int:
        try:
            piece = os.read(self._output, _PIECE)
        except BlockingIOError:
            return 0
        with contextlib.suppress(OSError):  # a full disk is no reason to end what runs
            self._log.write(piece)
        if self.started is None:
            self._last_words = (self._last_words + piece)[-4000:]
        return len(piece)

    def _hear(self) -> bool:
        """What the first process inside says."""
        try:
            part, descriptors, _, _ = socket.recv_fds(self._control, _PIECE, 1)
        except BlockingIOError:
            return False
        except OSError:
            part, descriptors = b"", []
        for descriptor in descriptors:
            server = socket.socket(fileno=descriptor)
            self._relay = Relay(server, self._work.platform_url, self._work.hosts, self._work.certificates)
        *lines, self._rest = (self._rest + part).split(b"\n")
        for line in lines:
            self._understand(json.loads(line))
        return bool(part)

    def _understand(self, said: dict[str, Any]) -> None:
        if "here" in said:
            self._inner = tree(self.pid)
            self._let_in()
        if "started" in said:
            self.started = time.time_ns() // 1000
        if "unusable" in said:
            self._said = Outcome("environment", None, f"its source cannot be unpacked: {said['unusable']}")
        if "ended" in said:
            code, words = said["ended"]["code"], said["ended"]["words"]
            self._said = Outcome("failed" if code else "done", code, words)

    def _let_in(self) -> None:
        """Limits stand before anything of the job's runs."""
        work = self._work
        if self._house.groups:
            memory = work.memory_mib and (work.memory_mib + _OURS_MIB) * MIB
            group = Group.make(work.name, Most(work.cpu_milli, memory, work.processes and work.processes + len(self._inner)))
            group.add(self._inner)
            self._group = group if group.places else None
        limits = {"RLIMIT_CORE": 0}
        if work.processes and not self._house.is_shared:
            limits["RLIMIT_NPROC"] = work.processes + len(self._inner)
        if work.disk_mib:
            limits["RLIMIT_FSIZE"] = work.disk_mib * MIB + MIB
        order = {
            "source": work.source,
            "relay": bool(work.platform_url or work.hosts),
            "proxy": bool(work.hosts),
            "platform_url": work.platform_url,
            "cores": work.cores,
            "user": self._house.user,
            "limits": limits,
            "directory": work.directory,
            "most_files": 1_000_000,
            "command": work.command,
            "variables": work.variables,
            "tasks": work.own,
        }
        self._control.sendall(json.dumps(order).encode() + b"\n")


def _drain(descriptor: int) -> None:
    with contextlib.suppress(BlockingIOError):
        os.read(descriptor, 1 << 12)


class _Flood:
    """Lets a log that is flooded be read only so fast."""

    def __init__(self) -> None:
        self._allowance = _FLOOD_PER_SECOND
        self._since = time.monotonic()
        self._listens = True

    def count(self, size: int) -> None:
        self._allowance -= size

    def pace(self, selector: selectors.BaseSelector, output: int, now: float, is_flooded: bool) -> None:
        if now - self._since >= 0.1:
            gained = int((now - self._since) * _FLOOD_PER_SECOND)
            self._allowance, self._since = min(_FLOOD_PER_SECOND, self._allowance + gained), now
        listens = self._allowance > 0 or not is_flooded
        if listens and not self._listens:
            selector.register(output, selectors.EVENT_READ)
        elif self._listens and not listens:
            selector.unregister(output)
        self._listens = listens
