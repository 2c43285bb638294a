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
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from falaj.jobs.running import walls, words
from falaj.jobs.running.floods import Flood
from falaj.jobs.running.limits import MIB, Group, Most
from falaj.jobs.running.log import Log
from falaj.jobs.running.measures import UNMEASURED, Energy, Memory, Unmeasured, cpu_seconds, held_open, lying_in, shared_memory
from falaj.jobs.running.orders import House
from falaj.jobs.running.relay import Relay
from falaj.jobs.running.walls import Inside, command
from falaj.runtimes.processes import tree

_OURS_MIB: Final = 24  # the first process inside is ours, and takes nothing from the job
_QUICK, _SLOW = 0.1, 0.25  # seconds between two looks
_PIECE: Final = 1 << 16
_LAST_GRACE: Final = 5.0  # seconds of what ran out of time
_SHORT: Final = 1_000_000  # microseconds; what is over sooner was hardly looked at, and its largest process tells instead
_DISK_PAUSE: Final = 0.25
_DISK_SHARE: Final = 20  # looking at a folder takes at most one part in so many of the time


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
    outputs: tuple[str, ...] = ()  # what it is to have written once it has ended well, and
    zone: str = ""  # where that is kept


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

    _broken = "The sandbox could not be built"

    def __init__(self, house: House, inside: Inside, work: Work, log: Log, meter: Meter, wishes: Wishes) -> None:
        self._house, self._work, self._log, self._meter, self._wishes = house, work, log, meter, wishes
        self._group: Group | None = None
        self._memory = Memory()
        self._relay: Relay | None = None
        self._said: Outcome | None = None
        self._killed_for: Outcome | None = None
        self._asked_to_end = False
        self._is_all_kept = False  # it had ended well before anybody asked, and what it was to write is with its run
        self._rest = b""
        self._inner: list[int] = []  # the processes that are ours: bubblewrap's two, and the first one inside
        self.started: int | None = None  # microseconds since 1970
        self._flood = Flood()
        self._begun = time.monotonic()
        self._devices = {Path(place).stat().st_dev for place in work.places}
        self._last_words = b""
        self._ended_for_memory = 0  # processes
        self._control, theirs = socket.socketpair()
        self._output, writes = os.pipe()
        with contextlib.suppress(OSError):  # where the user has too many of them already
            fcntl.fcntl(self._output, fcntl.F_SETPIPE_SZ, MIB)
        self._is_over = False
        self._becomes = house.user  # whom the first process inside makes itself
        self.pid = self._begin(inside, theirs.fileno(), writes)
        theirs.close()
        os.close(writes)

    def ends_all(self) -> int:
        """The process that may be killed at any time, and takes all of it along; 0 while there is none."""
        return self.pid

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
                pids = self._all_inside()
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
            if len(self._inner) > 1:
                os.kill(self._inner[1], signal.SIGKILL)
            else:  # bubblewrap's second process would wait for the first for ever, were it not killed along with it
                os.killpg(self.pid, signal.SIGKILL)

    def abandon(self) -> None:
        """Ends it without asking how it went."""
        if not self._is_over:
            self.kill(Outcome("lost", None, ""))
            while not self._has_ended():
                time.sleep(0.02)

    def _has_ended(self) -> bool:
        """With it, all that ended below it is counted, however short its life was."""
        pid, _, used = os.wait4(self.pid, os.WNOHANG)
        if not pid:
            return False
        self._is_over = True
        self._builder_ended(used.ru_utime + used.ru_stime)
        return True

    # What differs with who builds the walls

    def _begin(self, inside: Inside, control: int, output: int) -> int:
        """The process that builds the walls and stays until nothing is left inside."""
        # No environment for bubblewrap either: its first process stays inside the walls, where others may look into it.
        return begun(command(self._house, inside, control), {}, output, (control, control))

    def _first_inside(self) -> list[int]:
        """The processes that are ours, once the one inside is there."""
        return tree(self.pid)

    def _bounded(self) -> Group | None:
        """What holds the limits, and counts."""
        if not self._house.groups:
            return None
        group = Group.make(self._work.name, self._most())
        group.add(self._inner)
        return group if group.places else None

    def _all_inside(self) -> list[int]:
        return self._group.pids() if self._group else tree(self.pid)

    def _builder_ended(self, seconds: float) -> None:
        """The builder has ended, and took so long with all below it."""
        self._meter.cpu(seconds)

    def _most(self) -> Most:
        work = self._work
        memory = work.memory_mib and (work.memory_mib + _OURS_MIB) * MIB
        return Most(work.cpu_milli, memory, work.processes and work.processes + len(self._inner))

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
        self._count_group()
        if self._group is not None:
            self._group.remove()
        if self._killed_for is not None:
            return self._killed_for
        if self._ended_for_memory:
            return self._too_much_memory()
        if self._wishes.ending is not None and self._asked_to_end and not self._is_all_kept:
            return self._wishes.ending[0]._replace(code=self._said.code if self._said else None)
        end = self._own_end()
        # A file that may not grow any further is an error like any other to the job.
        return (self._too_much_disk([]) or end) if end.cause == "failed" else end

    def _count_group(self) -> None:
        if self._group is not None:
            self._ended_for_memory = max(self._ended_for_memory, self._group.ended_for_memory())
            self._meter.cpu(self._group.cpu_seconds() or 0.0)

    def _own_end(self) -> Outcome:
        if self._said is not None:
            return self._said
        if self.started is None:
            last = self._last_words.decode(errors="replace").strip().splitlines()
            return Outcome("environment", None, f"{self._broken}: {last[-1][:500] if last else 'it ended without a word'}")
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
            used = self._memory.taken(theirs, self._work.memory_mib * MIB)
            if theirs:
                used += shared_memory(theirs[0]) + held_open(theirs, self._devices).memory
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
        try:
            used = sum(lying_in(place) for place in self._work.places) + held_open(pids, self._devices).disk
        except Unmeasured as problem:
            return Outcome("disk", None, f"{UNMEASURED}: {problem}") if self._work.disk_mib else None
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
            if self._relay is not None:
                server.close()
            else:
                self._relay = Relay(server, self._work.platform_url, self._work.hosts, self._work.certificates)
        *lines, self._rest = (self._rest + part).split(b"\n")
        try:
            for line in lines:
                self._understand(words.read(line))
        except words.NotOurs:
            self._rest = b" " * (words.LONGEST + 1)
        if len(self._rest) > words.LONGEST:
            self._rest = b""
            self.kill(Outcome("failed", None, "the first process inside was taken over"))
        return bool(part)

    def _understand(self, said: dict[str, Any]) -> None:
        if "here" in said and not self._inner:
            self._inner = self._first_inside()
            self._let_in()
        if "started" in said and self.started is None:
            self.started = time.time_ns() // 1000
        if "unusable" in said:
            self._said = Outcome("environment", None, f"its source cannot be unpacked: {said['unusable']}")
        if "ended" in said:
            code, unkept = said["ended"]["code"], said["ended"].get("unkept")
            self._is_all_kept = unkept == "" and not code
            if unkept and not code:
                self._said = Outcome("output", code, unkept)
            else:
                self._said = Outcome("failed" if code else "done", code, said["ended"]["words"])
            self._count_group()  # while it is there
            with contextlib.suppress(OSError):  # it waits for that, for what counts may go with it
                self._control.shutdown(socket.SHUT_WR)
            if self.started is None or time.time_ns() // 1000 - self.started < _SHORT:
                self._meter.memory(said["ended"]["memory"], 0)

    def _let_in(self) -> None:
        """Limits stand before anything of the job's runs."""
        work = self._work
        self._group = self._bounded()
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
            "user": self._becomes,
            "limits": limits,
            "directory": work.directory,
            "most_files": 1_000_000,
            "command": work.command,
            "variables": work.variables,
            "tasks": work.own,
            "outputs": work.outputs,
            "output": walls.OUTPUT,
            "zone": work.zone,
        }
        self._control.sendall(json.dumps(order).encode() + b"\n")


def begun(arguments: list[str], environment: dict[str, str], output: int, control: tuple[int, int]) -> int:
    """A process in a session of its own, with nothing of ours but where it writes to and the socket: which one of ours it is,
    and by which number it knows it."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    actions = [(os.POSIX_SPAWN_DUP2, have, want) for have, want in ((nothing, 0), (output, 1), (output, 2), control)]
    ours = (signal.SIGPIPE, signal.SIGXFSZ)  # Python ignores them
    try:
        return os.posix_spawn(arguments[0], arguments, environment, file_actions=actions, setsid=True, setsigdef=ours)
    finally:
        os.close(nothing)


def _drain(descriptor: int) -> None:
    with contextlib.suppress(BlockingIOError):
        os.read(descriptor, 1 << 12)
