"""The program that runs one attempt inside a Ray cluster: `python -m falaj.jobs.engines.ray_driver ATTEMPT`, on the head.

It takes the places that were decided, as one placement group, puts a local engine on each of the hosts, and stays beside them:
what they write it writes down, and when one part ends badly all of them end. Everything it starts ends with it.
"""

import contextlib
import json
import logging
import os
import shutil
import signal
import socket
import sys
import time
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import ray
from ray.experimental import internal_kv
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from falaj.base.clock import MINUTE, SECOND, Moment
from falaj.base.errors import FalajError
from falaj.jobs.engines import ray_letters
from falaj.jobs.engines.engine import Cause, Launch, Seen, Used
from falaj.jobs.engines.local import LocalEngine
from falaj.jobs.engines.local_orders import Site
from falaj.jobs.engines.ray_letters import Ended, Order, Status
from falaj.jobs.running import checkpoints, gpus
from falaj.jobs.running.limits import MIB
from falaj.jobs.running.log import Log
from falaj.jobs.running.orders import Gang
from falaj.jobs.scheduler.values import Seat, Shape

_JOBS: Final = "job"  # the namespace in which Ray keeps what it knows of jobs, and what their names begin with there
_JOB: Final = "_ray_internal_job_info_"
_NODE_ID: Final = "ray.io/node-id"
_ROOM: Final = 120.0  # seconds in which the places have to be there
_BROKEN_GRACE: Final = 10 * SECOND  # of tasks whose gang has broken
_LAST_WAIT: Final = 30.0  # seconds for hosts that were told to end
_PAUSE: Final = 0.25  # seconds that a host waits for news before it says that there are none
_REPORTS: Final = 2.0  # seconds between two words about what is used
_PART: Final = 1 << 20
_UNUSED: Final = 30 * 86_400  # seconds after which nobody comes back to checkpoints
_TLS_INSIDE: Final = "/falaj/gang"
_TLS_FILES: Final = ("certificate.pem", "key.pem", "authority.pem")


class Share(NamedTuple):
    """The tasks of one host, which all have the same shape."""

    node: str  # Ray's id
    name: str  # ours
    seats: tuple[Seat, ...]


class Host:
    """One host's part of an attempt, as a Ray actor: it holds the place, and its keepers end with it. For one thread."""

    def __init__(self) -> None:
        self._session = Path(ray._private.worker._global_node.get_session_dir_path())
        self._told = ""
        self._attempt = ""
        self._checkpoints: tuple[str, ...] = ()
        self._root = self._session
        self._engine: LocalEngine | None = None

    def address(self) -> tuple[str, int]:
        """Where it can be reached by other hosts, and a port that is free there."""
        with socket.socket() as free:
            free.bind(("", 0))
            return ray.util.get_node_ip_address(), free.getsockname()[1]

    def start(
        self, launch: Launch, source: bytes | None, gang: Gang | None, tls: tuple[str, str, str] | None, shared: str
    ) -> str:
        """Why it cannot be, or nothing. `shared` is where checkpoints are, if that is not Ray's own folder."""
        self._attempt = launch.attempt
        self._checkpoints = () if shared else launch.checkpoints[:1]  # the platform sees shared ones, and who still uses them
        self._root = Path(shared) if shared else self._session / "falaj" / "checkpoints"
        try:
            if gang is not None and tls is not None:
                gang = gang._replace(readable=((str(self._keep(tls)), _TLS_INSIDE),))
            hidden = (self._session, Path.home() / ".ray")
            site = Site(zone="", hidden=hidden, tied=True, gang=gang, checkpoints=self._root)
            engine = LocalEngine(self._session / "falaj", site)
            _bury_others(engine)
            if not shared:
                _remove_unused(self._root)
            seats = _with_cards(launch.seats, launch.shape)
            engine.start(replace(launch, seats=seats, source=(lambda: iter([source])) if source is not None else None))
        except FalajError as error:
            return str(error)
        self._engine = engine
        return ""

    def look(self, offset: int) -> tuple[Seen | None, bytes, int]:
        """As soon as there is news, or a moment later: how it goes, and what it wrote since `offset`."""
        assert self._engine is not None  # nosec B101 - for types
        until = time.monotonic() + _PAUSE
        while True:
            seen = next((seen for seen in self._engine.look() if seen.attempt == self._attempt), None)
            part, following = self._engine.log(self._attempt, offset, _PART)
            state = seen.state if seen else ""
            if part or state != self._told or time.monotonic() >= until:
                self._told = state
                return seen, part, following
            time.sleep(_PAUSE / 10)

    def stop(self, grace: int) -> None:
        assert self._engine is not None  # nosec B101 - for types
        self._engine.stop(self._attempt, grace)

    def forget(self) -> None:
        assert self._engine is not None  # nosec B101 - for types
        self._engine.forget(self._attempt)
        shutil.rmtree(self._gang_folder, ignore_errors=True)

    def is_done(self) -> None:
        """All of the job is: nobody goes on from its checkpoints."""
        for name in self._checkpoints:
            checkpoints.remove(self._root, name)

    @property
    def _gang_folder(self) -> Path:
        return self._session / "falaj" / f"gang-{self._attempt}"

    def _keep(self, tls: tuple[str, str, str]) -> Path:
        """Within a folder that is ours alone; readable for the job's own user, who sees nothing else of it."""
        folder = self._gang_folder
        folder.parent.mkdir(mode=0o700, exist_ok=True)
        folder.mkdir(mode=0o755, exist_ok=True)
        for name, text in zip(_TLS_FILES, tls, strict=True):
            (folder / name).write_text(text)
            (folder / name).chmod(0o644)
        return folder


class Stopped(Exception):
    """It was told to end before it began."""


class Failed(Exception):
    def __init__(self, cause: Cause, words: str) -> None:
        super().__init__(words)
        self.cause: Cause = cause


class Letters:
    """What the engine wrote about this attempt, and what is said about it in turn."""

    def __init__(self, attempt: str) -> None:
        self._attempt = attempt
        self._stop_at: float | None = None
        self._read: set[str] = set()

    def take_order(self) -> Order:
        """Once: nobody else reads it."""
        name = _stored(ray_letters.order_letter(self._attempt))
        letter = internal_kv._internal_kv_get(name)
        internal_kv._internal_kv_del(name)
        if letter is None:
            raise Failed("lost", "what it was to do was not there any more: Ray took too long to start it")
        return ray_letters.understood(letter)

    def stop_at(self) -> float | None:
        """When it has to be over, on the monotonic clock; None while nobody asked for it."""
        for key in internal_kv._internal_kv_list(_stored(ray_letters.letters_of(self._attempt))):
            name = key.decode().removeprefix(_stored(""))
            if name not in self._read and (grace := ray_letters.asked_grace(self._attempt, name)) is not None:
                self._read.add(name)
                self.ask_to_stop(grace)
        return self._stop_at

    def ask_to_stop(self, grace: int) -> None:
        at = time.monotonic() + grace / SECOND
        self._stop_at = at if self._stop_at is None else min(at, self._stop_at)

    def report(self, status: Status) -> None:
        """Into the metadata of the Ray job, which nobody else writes while its program runs."""
        key = f"{_JOB}{self._attempt}"
        known = internal_kv._internal_kv_get(key, namespace=_JOBS)
        if known is None:
            return
        about = json.loads(known)
        about["metadata"] = (about["metadata"] or {}) | {ray_letters.STATUS: ray_letters.status_written(status)}
        internal_kv._internal_kv_put(key, json.dumps(about), overwrite=True, namespace=_JOBS)


class Driver:
    """One attempt, from its order to its end."""

    def __init__(self, attempt: str) -> None:
        self._attempt = attempt
        self._letters = Letters(attempt)
        self._status = Status()
        self._reported = 0.0
        self._logs = Path(ray._private.worker._global_node.get_logs_dir_path()) / ray_letters.LOGS
        signal.signal(signal.SIGTERM, lambda *_: self._letters.ask_to_stop(0))

    def run(self) -> bool:
        """Whether it went well."""
        try:
            ended = self._attend()
        except Stopped:
            ended = _ended("stopped", None, "it was stopped before it was started")
        except Failed as failed:
            ended = _ended(failed.cause, None, str(failed))
        except Exception as error:  # noqa: BLE001 - whatever it is, the attempt ends by it
            traceback.print_exc()
            ended = _ended("lost", None, f"its driver failed: {type(error).__name__}")
        self._letters.report(replace(self._status, ended=ended))
        self._sweep()
        return ended.cause == "done"

    def _attend(self) -> Ended:
        if self._letters.stop_at() is not None:
            raise Stopped
        order = self._letters.take_order()
        shares = _shares(order)
        group = self._places(shares, order.launch.shape)
        try:
            hosts = [_host(group, number, share, order.launch.shape) for number, share in enumerate(shares)]
            self._start(hosts, shares, order)
            self._logs.mkdir(mode=0o700, exist_ok=True)
            log = Log(self._logs / self._attempt, order.launch.limits.log_mib, ray_letters.SEGMENTS)
            ended = Watch(hosts, shares, log, self._letters, self._tell).run()
            if ended.cause == "done":
                with contextlib.suppress(ray.exceptions.RayError):
                    ray.get([host.is_done.remote() for host in hosts], timeout=_LAST_WAIT)
            return ended
        finally:
            remove_placement_group(group)  # and whatever is left there

    # 1. The places

    def _places(self, shares: list[Share], shape: Shape) -> Any:
        """All of them or none, each on its own host."""
        bundles = [_resources(shape, len(share.seats)) for share in shares]
        group = placement_group(bundles, bundle_label_selector=[{_NODE_ID: share.node} for share in shares])
        until = time.monotonic() + _ROOM
        while not group.wait(_PAUSE):
            alive = {node["NodeID"] for node in ray.nodes() if node["Alive"]}
            if gone := [share.name for share in shares if share.node not in alive]:
                raise Failed("lost", f"its host {gone[0]} went away before it began")
            if self._letters.stop_at() is not None:
                raise Stopped
            if time.monotonic() > until:
                raise Failed("lost", f"Ray had no room for it within {_ROOM:.0f} s where it was to run: others are there")
        return group

    # 2. The hosts

    def _start(self, hosts: list[Any], shares: list[Share], order: Order) -> None:
        launch = order.launch
        source = b"".join(launch.source()) if launch.source is not None else None
        kept = ray.put(source)  # once for all of them
        gangs = self._gangs(hosts, shares)
        tls = order.tls if gangs[0] is not None else None
        variables = dict(launch.variables) | (_told_tls() if tls else {})
        told = [
            replace(launch, attempt=f"{launch.attempt}-{number}", seats=share.seats, variables=variables, source=None)
            for number, share in enumerate(shares)
        ]
        each = zip(hosts, told, gangs, strict=True)
        started = [host.start.remote(part, kept, gang, tls, order.checkpoints) for host, part, gang in each]
        for share, problem in zip(shares, _answers(started, shares), strict=True):
            if problem:
                raise Failed("environment", f"on {share.name}: {problem}" if len(shares) > 1 else problem)

    def _gangs(self, hosts: list[Any], shares: list[Share]) -> list[Gang | None]:
        """Ranks go on from host to host; those of one host alone need nothing of the others."""
        if len(hosts) == 1:
            return [None]
        places = _answers([host.address.remote() for host in hosts], shares)
        size, first, gangs = sum(len(share.seats) for share in shares), 0, list[Gang | None]()
        for share, (own, _) in zip(shares, places, strict=True):
            gangs.append(Gang(first=first, size=size, own=own, address=places[0][0], port=places[0][1]))
            first += len(share.seats)
        return gangs

    # 3. What is said

    def _tell(self, started: Moment | None, used: Used) -> None:
        began_now = started is not None and self._status.started is None
        self._status = Status(started=started, used=used)
        if began_now or time.monotonic() - self._reported >= _REPORTS:
            self._letters.report(self._status)
            self._reported = time.monotonic()

    def _sweep(self) -> None:
        """Logs of attempts that were forgotten: nobody but us can remove them."""
        known = {key.decode().removeprefix(_JOB) for key in internal_kv._internal_kv_list(_JOB, namespace=_JOBS)}
        with contextlib.suppress(OSError):
            for folder in self._logs.iterdir():
                if folder.name not in known:
                    shutil.rmtree(folder, ignore_errors=True)
                    for name in (f"job-driver-{folder.name}.log", f"jobs/supervisor-{folder.name}.log"):
                        (self._logs.parent / name).unlink(missing_ok=True)


class Watch:
    """Over the hosts of an attempt until all of them have ended: well, or all because one did not."""

    def __init__(self, hosts: list[Any], shares: list[Share], log: Log, letters: Letters, tell: Any) -> None:
        self._hosts, self._shares, self._log, self._letters, self._tell = hosts, shares, log, letters, tell
        self._seen: list[Seen | None] = [None] * len(hosts)
        self._offsets = [0] * len(hosts)
        self._asked: dict[Any, int] = {}
        self._ended: Ended | None = None  # why the others have to end, too
        self._told_at: float | None = None  # by when they were told to

    def run(self) -> Ended:
        going = set(range(len(self._hosts)))
        for number in going:
            self._ask(number)
        give_up = float("inf")
        while going and time.monotonic() < give_up:
            ready, _ = ray.wait(list(self._asked), num_returns=1, timeout=_PAUSE)
            for answer in ready:
                number = self._asked.pop(answer)
                if self._hear(number, answer):
                    self._ask(number)
                else:
                    going.discard(number)
            self._pass_on_stop()
            if self._told_at is not None:
                give_up = self._told_at + _LAST_WAIT
            self._tell(self._started(), self._used())
        self._log.close()
        return self._conclude(going)

    def _ask(self, number: int) -> None:
        self._asked[self._hosts[number].look.remote(self._offsets[number])] = number

    def _hear(self, number: int, answer: Any) -> bool:
        """Whether there is more to come."""
        try:
            seen, part, self._offsets[number] = ray.get(answer)
        except ray.exceptions.RayError as error:
            print(f"{self._shares[number].name}: {error}", file=sys.stderr)
            self._break(_ended("lost", None, f"its host {self._shares[number].name} went away under it"))
            return False
        self._log.write(part)
        self._seen[number] = seen or self._seen[number]
        if seen is None or (seen.state == "ended" and not part):
            if seen is None or seen.cause != "done":
                self._break(self._end_of(number, seen))
            with contextlib.suppress(ray.exceptions.RayError):
                self._hosts[number].forget.remote()
            return False
        return True

    def _end_of(self, number: int, seen: Seen | None) -> Ended:
        if seen is None or seen.cause is None:
            return _ended("lost", None, f"its host {self._shares[number].name} knows nothing of it any more")
        words = f"on {self._shares[number].name}: {seen.words}" if seen.words and len(self._hosts) > 1 else seen.words
        return _ended(seen.cause, seen.code, words)

    def _break(self, ended: Ended) -> None:
        """The first one that ends badly says how all of them ended."""
        if self._ended is None:
            self._ended = ended
            self._stop_all(time.monotonic() + (0 if ended.cause == "lost" else _BROKEN_GRACE / SECOND))

    def _pass_on_stop(self) -> None:
        at = self._letters.stop_at()
        if at is not None:
            self._stop_all(at)

    def _stop_all(self, at: float) -> None:
        if self._told_at is not None and self._told_at <= at:
            return
        self._told_at = at
        grace = max(0, round((at - time.monotonic()) * SECOND))
        for host in self._hosts:
            with contextlib.suppress(ray.exceptions.RayError):
                host.stop.remote(grace)

    def _conclude(self, going: set[int]) -> Ended:
        for number in going:  # it does not listen; with its actor everything of it ends
            ray.kill(self._hosts[number])
        if self._ended is not None:
            return self._ended
        if going:
            return _ended("stopped", None, "it was told to end, and was killed with the actor that kept it")
        last = next(seen for seen in self._seen if seen is not None)
        return _ended("done", last.code, last.words)

    def _started(self) -> Moment | None:
        """When all of them had."""
        moments = [seen.started for seen in self._seen if seen is not None and seen.started is not None]
        return max(moments) if len(moments) == len(self._seen) else None

    def _used(self) -> Used:
        every = [seen.used for seen in self._seen if seen is not None]
        summed = {name: sum(getattr(used, name) for used in every) for name in Used.__value_fields__}  # type: ignore[attr-defined]
        return Used(**summed | {"energy_measured": all(used.energy_measured for used in every)})


def _shares(order: Order) -> list[Share]:
    """One per host, in the order in which they are first named."""
    found: dict[str, Share] = {}
    for seat, node in zip(order.launch.seats, order.nodes, strict=True):
        if not node:
            raise Failed("lost", f"its host {seat.node} is not there any more")
        share = found.setdefault(node, Share(node, seat.node, ()))
        found[node] = share._replace(seats=(*share.seats, seat))
    return list(found.values())


def _resources(shape: Shape, count: int) -> dict[str, float]:
    amounts = {"CPU": shape.cpu_milli * count / 1000, "memory": shape.memory_mib * count * MIB, "GPU": shape.gpus * count}
    return {name: amount for name, amount in amounts.items() if amount}


def _host(group: Any, number: int, share: Share, shape: Shape) -> Any:
    taken = _resources(shape, len(share.seats))
    place = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=number)
    amounts = {"num_cpus": taken.get("CPU", 0), "num_gpus": taken.get("GPU", 0), "memory": taken.get("memory", 0)}
    return ray.remote(Host).options(scheduling_strategy=place, max_restarts=0, **amounts).remote()


def _answers(asked: list[Any], shares: list[Share]) -> list[Any]:
    found = []
    for answer, share in zip(asked, shares, strict=True):
        try:
            found.append(ray.get(answer))
        except ray.exceptions.RayError as error:
            print(f"{share.name}: {error}", file=sys.stderr)
            raise Failed("lost", f"its host {share.name} went away before it began") from None
    return found


def _with_cards(seats: tuple[Seat, ...], shape: Shape) -> tuple[Seat, ...]:
    """Which cards they are says Ray, which gives as many as were planned and chooses them itself."""
    if not shape.gpus:
        return seats
    known = {card.id: number for number, card in enumerate(gpus.cards())}
    given = sorted(known.get(str(one), int(one) if str(one).isdigit() else -1) for one in ray.get_gpu_ids())
    return tuple(
        replace(seat, cards=tuple(given[number * shape.gpus : (number + 1) * shape.gpus])) for number, seat in enumerate(seats)
    )


def _bury_others(engine: LocalEngine) -> None:
    """What attempts left behind whose hosts, in Ray's sense, went away under them."""
    for seen in engine.look():
        if seen.ended is not None and seen.ended < time.time_ns() // 1000 - MINUTE:
            engine.forget(seen.attempt)


def _remove_unused(root: Path) -> None:
    """Checkpoints that only this host has: whoever knows how their jobs ended cannot reach them."""
    for name in checkpoints.kept(root):
        with contextlib.suppress(OSError):
            if (root / name).stat().st_ctime < time.time() - _UNUSED:
                checkpoints.remove(root, name)


def _told_tls() -> dict[str, str]:
    certificate, key, authority = (f"{_TLS_INSIDE}/{name}" for name in _TLS_FILES)
    prefix = "GLOO_DEVICE_TRANSPORT"
    return {
        prefix: "TCP_TLS",
        f"{prefix}_TCP_TLS_CERT": certificate,
        f"{prefix}_TCP_TLS_PKEY": key,
        f"{prefix}_TCP_TLS_CA_FILE": authority,
    }


def _stored(name: str) -> str:
    return f"{ray_letters.STORE}://{name}"


def _ended(cause: Cause, code: int | None, words: str) -> Ended:
    return Ended(cause=cause, code=code, words=words, at=Moment(time.time_ns() // 1000))


def main() -> None:
    ray.init(log_to_driver=False, logging_level=logging.WARNING)
    went_well = Driver(sys.argv[1]).run()
    ray.shutdown()
    os._exit(0 if went_well else 1)


if __name__ == "__main__":
    main()
