"""The process beside each attempt: makes its environment and its walls, runs it, and writes down how it ended.

`python -m falaj.jobs.running.keeper FOLDER [PARENT]`, in a session of its own, ending with its parent where that is named; a
descriptor that it inherits holds the folder's lock for as long as it lives. What the job sees, its secrets too, comes through
standard input and is nowhere else. It needs nothing but the standard library, so that it is there at once and takes little.
"""

import contextlib
import ctypes
import io
import json
import os
import signal
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any, Final

from falaj.jobs.running import checkpoints, containers, environments, folders, images, walls
from falaj.jobs.running.confined import Confined, Meter, Outcome, Wishes, Work
from falaj.jobs.running.containers import Contained
from falaj.jobs.running.gpus import Watched
from falaj.jobs.running.limits import MIB
from falaj.jobs.running.log import Log
from falaj.jobs.running.measures import Unmeasured, began, lying_in
from falaj.jobs.running.orders import Gang, Image, Order, understood
from falaj.jobs.running.walls import Inside

_REPORTS: Final = 1.0  # seconds between two words about how it goes
_SOURCE_INSIDE: Final = "/falaj/source.tar"
_BUILD_MEMORY_MIB: Final = 4096
_PATIENCE: Final = 600.0  # seconds, with a disk that does not take the last word
_MASTER_PORT: Final = 29500
_STOPPED: Final = "it was told to end"
_PR_SET_PDEATHSIG: Final = 1
_MOST_TROUBLE: Final = 64 << 10  # bytes: a job may be able to cause it


class _Stopped(Exception):
    """It is to end before it has begun."""


class _Unsaved(Exception):
    """There is no place for its checkpoints."""


class Keeper:
    """One attempt, from its order to its end."""

    def __init__(self, folder: Path, order: Order, variables: dict[str, str]) -> None:
        self._folder, self._order, self._variables = folder, order, variables
        self._log = Log(folder / folders.LOG, order.log_mib)
        self._meter, self._wishes = Meter(), Wishes()
        self._cards = Watched(order.cards)
        self._confined: Confined | None = None
        self._kind: images.Kind | None = None  # of the image it runs in, once that is known
        self._is_job = False  # what runs is the job itself, not the making of its environment
        self._reported, self._said_started = 0.0, False
        self._woken, waking = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(waking, False)
        for number in (signal.SIGCHLD, signal.SIGUSR1, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: None)
        signal.signal(signal.SIGTERM, self._host_goes_down)
        signal.set_wakeup_fd(waking, warn_on_full_buffer=False)

    def run(self) -> None:
        self._report()
        outcome = self._outcome()
        self._log.close()
        self._cards.close()
        self._end(outcome)

    def _outcome(self) -> Outcome:
        kept = None
        try:
            kept = self._environment() if self._order.environment else None
            if isinstance(kept, Outcome):
                return kept
            self._kind = self._found_image(self._order.image) if self._order.image else None
            return self._job(kept.tree if kept else None)
        except (images.Missing, containers.NoDevices) as problem:
            return Outcome("environment", None, str(problem))
        except _Unsaved as problem:  # its host's fault: what it saved is worth another try
            return Outcome("lost", None, str(problem))
        except _Stopped:
            assert self._wishes.ending is not None  # nosec B101 - for types
            return self._wishes.ending[0]
        except Exception as error:  # noqa: BLE001 - whatever it is, the attempt ends by it
            traceback.print_exc()
            if self._confined is not None:
                self._confined.abandon()
            return Outcome("lost", None, f"its keeper failed: {type(error).__name__}: {error}")
        finally:
            if isinstance(kept, environments.Kept):
                kept.close()

    # 1. Its environment

    def _environment(self) -> environments.Kept | Outcome:
        name, folder = self._order.environment, Path(self._order.packages.folder)
        while True:
            if kept := environments.taken(name, folder):
                return kept
            with environments.making(name, folder) as place:
                if place is not None and (problem := self._build(place)):
                    return problem
            self._look_for_stop()
            if self._wishes.ending is not None:
                return self._wishes.ending[0]
            if place is None:
                time.sleep(0.2)  # somebody else makes it
            else:
                environments.tidy(folder, self._order.packages.kept_mib * MIB)

    def _build(self, place: Path) -> Outcome | None:
        order, packages = self._order, self._order.packages
        self._log.say("making the environment")
        (place / "requirements.txt").write_text(order.requirements)
        (place / "requirements.txt").chmod(0o644)
        home = walls.make_home(place / "work", order.house.user)
        if order.house.user:
            os.chown(place / environments.TREE, order.house.user, order.house.user)
        inside = Inside(
            folder=place / "etc",
            writable=(*home, (str(place / environments.TREE), walls.ENVIRONMENT)),
            readable=environments.readable(packages, place / "requirements.txt"),
            devices=(),
            memory_bytes=64 * MIB,
            libraries=True,
        )
        told = environments.arguments(packages)
        work = Work(
            name=f"{order.attempt}-environment",
            command=(order.house.interpreter, "-I", "-B", "-c", environments.BUILDER, walls.ENVIRONMENT, *told),
            own=({},),
            variables={"PATH": "/usr/bin:/bin", "HOME": walls.HOME, "LANG": "C.UTF-8", "TMPDIR": walls.TEMPORARY},
            source="",
            directory=walls.HOME,
            platform_url="",
            hosts=packages.hosts,
            certificates="",
            cpu_milli=0,
            memory_mib=_BUILD_MEMORY_MIB,
            seconds=packages.seconds,
            disk_mib=packages.disk_mib,
            processes=256,
            cores=(),
            places=(str(place),),
        )
        self._confined = Confined(order.house, inside, work, self._log, Meter(), self._wishes)
        outcome = self._confined.attend(self._woken, self._look_for_stop, lambda *_: "", self._report)
        if outcome.cause == "done":
            environments.clear(place, "work", "etc")
            try:
                environments.finish(place, lying_in(str(place)))
            except Unmeasured as problem:
                return Outcome("environment", None, f"its environment cannot be kept: {problem}")
            return None
        if outcome.cause == "failed":
            return Outcome("environment", outcome.code, f"its environment cannot be made: {self._log.last_line()}")
        return outcome if outcome.cause in ("stopped", "lost") else outcome._replace(cause="environment")

    def _found_image(self, image: Image) -> images.Kind:
        def is_over() -> bool:
            self._look_for_stop()
            return self._wishes.ending is not None

        if (kind := images.kind_of(image, is_over)) is None:
            raise _Stopped
        self._log.say(f"the image {image.name} is {kind.id}")
        return kind

    # 2. The job itself

    def _job(self, environment: Path | None) -> Outcome:
        order, folder = self._order, self._folder
        source = folder / folders.SOURCE
        readable = [(str(source), _SOURCE_INSIDE)] if source.exists() else []
        readable += [(str(environment), walls.ENVIRONMENT)] if environment else []
        readable += order.gang.readable if order.gang else ()
        saved = self._checkpoints()
        home = walls.make_home(folder / folders.WORK, order.house.user)
        inside = Inside(
            folder=folder / "etc",
            writable=(*home, *((place, walls.CHECKPOINTS) for place in saved), *self._cards.writable),
            readable=tuple(readable),
            devices=self._devices(),
            memory_bytes=order.memory_mib * MIB,
            libraries=environment is None,
            address=order.gang.own if order.gang else "",
        )
        work = Work(
            name=order.attempt,
            command=order.command,
            own=tuple(self._seen_by(rank) for rank in range(len(order.tasks))),
            variables=self._seen_by_all(environment is not None) | self._variables,
            source=_SOURCE_INSIDE if source.exists() else "",
            directory=walls.SOURCE,
            platform_url=order.platform_url,
            hosts=order.hosts,
            certificates=order.certificates,
            cpu_milli=order.cpu_milli,
            memory_mib=order.memory_mib,
            seconds=order.seconds,
            disk_mib=order.disk_mib,
            processes=order.processes,
            cores=order.cores,
            places=(str(folder / folders.WORK), *saved),
            outputs=order.outputs,
            zone=order.zone,
        )
        self._confined = self._begun(inside, work)
        self._is_job = True
        return self._confined.attend(self._woken, self._look_for_stop, self._look, self._report)

    def _checkpoints(self) -> tuple[str, ...]:
        """The folder for them, where it has one."""
        if not self._order.checkpoints:
            return ()
        try:
            return (checkpoints.taken(self._order.checkpoints, self._order.house.user),)
        except (OSError, RecursionError) as error:
            traceback.print_exc()
            why = getattr(error, "strerror", None) or type(error).__name__
            raise _Unsaved(f"its folder for checkpoints cannot be had: {why}") from error

    def _begun(self, inside: Inside, work: Work) -> Confined:
        order, source = self._order, self._folder / folders.SOURCE
        if order.image is None or self._kind is None:
            return Confined(order.house, inside, work, self._log, self._meter, self._wishes)
        if order.house.user and source.exists():  # a container has its user from its first process on
            os.chown(source, order.house.user, order.house.user)
        return Contained(order.image, self._kind, order.house, inside, work, self._log, self._meter, self._wishes)

    def _devices(self) -> tuple[str, ...]:
        if self._kind is None:
            return self._cards.devices
        return containers.devices(tuple(card.id for card in self._order.cards))

    def _seen_by_all(self, has_environment: bool) -> dict[str, str]:
        own = walls.ENVIRONMENT if has_environment else str(Path(self._order.house.interpreter).parent.parent)
        each = max(1, self._order.cpu_milli // 1000 // max(1, len(self._order.tasks)))
        variables = {
            "PATH": f"{own}/bin:/usr/local/bin:/usr/bin:/bin",
            "HOME": walls.HOME,
            "USER": "job",
            "LOGNAME": "job",
            "LANG": "C.UTF-8",
            "TMPDIR": walls.TEMPORARY,
            "FALAJ_OUTPUT": walls.OUTPUT,
            "PYTHONUNBUFFERED": "1",  # a log that is read while it grows
            "OMP_NUM_THREADS": str(each),
            "MLFLOW_DISABLE_TELEMETRY": "true",
        }
        if self._order.checkpoints:
            variables["FALAJ_CHECKPOINTS"] = walls.CHECKPOINTS
        return variables if self._kind is None else containers.seen_inside(self._kind, variables)

    def _seen_by(self, rank: int) -> dict[str, str]:
        cards, count = self._order.tasks[rank], len(self._order.tasks)
        gang = self._order.gang or Gang(first=0, size=count, own="", address="127.0.0.1", port=_MASTER_PORT)
        seen = {"CUDA_VISIBLE_DEVICES": ",".join(cards)} | self._cards.variables(cards)
        if self._kind is not None:
            seen.pop("LD_LIBRARY_PATH", None)  # where the host keeps the driver's
        if gang.size > 1:
            seen |= {"RANK": str(gang.first + rank), "WORLD_SIZE": str(gang.size)}
            seen |= {"LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(count)}
            seen |= {"MASTER_ADDR": gang.address, "MASTER_PORT": str(gang.port)}
        return seen

    # 3. What happens meanwhile

    def _look(self, pids: list[int], seconds: float) -> str:
        source = self._folder / folders.SOURCE
        if self._started is None:
            return ""
        if source.exists():
            source.unlink()
        return self._cards.look(pids, seconds)

    @property
    def _started(self) -> int | None:
        return self._confined.started if self._is_job and self._confined else None

    def _look_for_stop(self) -> None:
        if (told := folders.read(self._folder / folders.STOP)) is not None:
            self._wishes.end(Outcome("stopped", None, _STOPPED), told["until"])

    def _host_goes_down(self, *_: object) -> None:
        self._wishes.end(Outcome("lost", None, "its host went down"), time.monotonic() + 5.0)

    def _report(self) -> None:
        """That it began is told at once, and lasts; what it uses is told now and then."""
        began_now = self._started is not None and not self._said_started
        if began_now or not self._reported or time.monotonic() - self._reported >= _REPORTS:
            with contextlib.suppress(OSError):  # a full disk is no reason to end what runs
                folders.write(self._folder / folders.STATUS, self._status(), durable=began_now or not self._reported)
            self._reported, self._said_started = time.monotonic(), self._started is not None

    def _status(self) -> dict[str, Any]:
        sandbox = self._confined.ends_all() if self._confined else 0
        return {
            "keeper": [os.getpid(), began(os.getpid())],
            "sandbox": [sandbox, began(sandbox)] if sandbox else None,
            "groups": self._confined.groups() if self._confined else [],
            "image": self._kind.id if self._kind else "",
            "builder": [self._confined.pid, began(self._confined.pid)] if self._confined else None,
            "started": self._started,
            "used": self._used(),
        }

    def _used(self) -> dict[str, Any]:
        meter = self._meter
        return {
            "cpu_seconds": round(meter.cpu_seconds, 3),
            "memory_mib_peak": -(-meter.memory_peak // MIB),
            "memory_mib_seconds": round(meter.memory_mib_seconds, 3),
            "gpu_seconds": round(self._cards.held_seconds, 3),
            "gpu_busy_seconds": round(self._cards.busy_seconds, 3),
            "gpu_memory_mib": self._cards.memory_mib,
            "energy_joules": round(meter.energy.joules + self._cards.joules, 3),
            "energy_measured": meter.energy.is_measured and self._cards.is_measured,
            "disk_mib": -(-meter.disk // MIB),
        }

    def _end(self, outcome: Outcome) -> None:
        (self._folder / folders.SOURCE).unlink(missing_ok=True)
        about = {"cause": outcome.cause, "code": outcome.code, "words": outcome.words, "ended": _now()}
        about["image"] = self._kind.id if self._kind else ""
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                folders.write(self._folder / folders.ENDED, about | {"started": self._started, "used": self._used()})
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(1.0)  # a disk that is full may have room again
            else:
                return


class Trouble(io.TextIOBase):
    """What goes wrong in a keeper itself, written to a file up to a bound; what is beyond is dropped."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._left = _MOST_TROUBLE - os.fstat(descriptor).st_size
        self._writing = threading.Lock()  # connections of the relay have threads of their own

    def write(self, text: str) -> int:
        with self._writing, contextlib.suppress(OSError):  # a full disk is no reason to end what runs
            if self._left > 0:
                self._left -= os.write(self._descriptor, text.encode(errors="backslashreplace")[: self._left])
        return len(text)


def _now() -> int:
    return time.time_ns() // 1000


def _end_with(parent: int) -> None:
    """This process is killed when the one that started it goes, and what it keeps with it."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it went before
        sys.exit(1)


def main() -> None:
    folder = Path(sys.argv[1]).absolute()
    os.chdir(folder)  # what it starts may leave notes where it is, as podman's monitor does
    if len(sys.argv) > 2:
        _end_with(int(sys.argv[2]))
    os.set_inheritable(folders.LOCK_DESCRIPTOR, False)
    sys.stdout = sys.stderr = Trouble(sys.stderr.fileno())
    variables: dict[str, str] = json.loads(sys.stdin.buffer.read())
    document = folders.read(folder / folders.ORDER)
    if document is None:
        raise FileNotFoundError(folder / folders.ORDER)
    with contextlib.suppress(OSError):  # before the job, if memory runs out, comes nobody; after it this
        Path("/proc/self/oom_score_adj").write_text("-500" if os.geteuid() == 0 else "0")
    Keeper(folder, understood(document), variables).run()


if __name__ == "__main__":
    main()
