"""An engine whose attempts are timers: nothing runs, time goes by. It keeps the protocol's promises, survives its controller
where it is given a folder, and fails in every way that a real one may.

A job's command says what becomes of it: `timer SECONDS [CAUSE]`, with `stubborn` for one that ends only when it is killed.
"""

import json
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from falaj.base.clock import SECOND, Clock, Moment
from falaj.base.errors import NotFound, Unavailable
from falaj.jobs.engines.engine import CardUse, Cause, Launch, Seen, Used
from falaj.jobs.scheduler.values import Node

_CODES: Final = {"done": 0, "failed": 1, "memory": 137}


class TimerEngine:
    """Thread-safe. `reachable`, `deaf` (it does not start anything) and `preparing` (microseconds before a command begins)
    may be set at any time; `starts` is every attempt that ever began here, in order."""

    def __init__(self, name: str, nodes: Sequence[Node], clock: Clock, folder: Path | None = None) -> None:
        self.name = name
        self.reachable = True
        self.deaf = False
        self.preparing = 0
        self.busy_cards = 1.0  # how much cards do for their attempts, 0 to 1
        self.card_uses: dict[str, Sequence[CardUse | None]] = {}  # what they say of themselves, by node
        self.memory_mib = 100  # that each attempt takes
        self.starts: list[str] = []
        self.launches: dict[str, Launch] = {}
        self.logs: dict[str, bytes] = {}
        self._nodes = {node.name: node for node in nodes}
        self._clock = clock
        self._folder = folder
        self._lock = threading.Lock()
        self._attempts: dict[str, dict[str, Any]] = {}
        self._over: dict[str, Seen] = {}  # what has ended does not change any more
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            for file in sorted(folder.glob("*.json")):
                self._attempts[file.stem] = json.loads(file.read_text())

    # The protocol

    def nodes(self) -> Sequence[Node]:
        self._reach()
        return tuple(self._nodes.values())

    def cards(self) -> Mapping[str, Sequence[CardUse | None]]:
        self._reach()
        return dict(self.card_uses)

    def start(self, launch: Launch) -> None:
        self._reach()
        if self.deaf:
            raise Unavailable(f"The engine {self.name} starts nothing now.")
        if launch.source is not None:
            for _ in launch.source():
                pass
        with self._lock:
            if launch.attempt in self._attempts or self._was_here(launch.attempt):
                return
            _, seconds, *how = launch.command
            self.launches[launch.attempt] = launch
            self.starts.append(launch.attempt)
            began = self._clock.now() + self.preparing
            told = {
                "job": launch.job,
                "began": began,
                "ends": began + int(float(seconds) * SECOND),
                "cause": how[0] if how else "done",
                "nodes": [seat.node for seat in launch.seats],
                "cards": launch.shape.gpus * len(launch.seats),
            }
            self._write(launch.attempt, told)

    def stop(self, attempt: str, grace: int) -> None:
        self._reach()
        now = self._clock.now()
        with self._lock:
            told = self._attempts.setdefault(attempt, {"never": True})
            if "never" not in told and told["ends"] > now:
                at = now + grace if told["cause"] == "stubborn" else now
                told = told | {"ends": min(at, told["ends"]), "stopped": True}
            self._write(attempt, told)

    def look(self) -> Sequence[Seen]:
        self._reach()
        now = self._clock.now()
        with self._lock:
            return [
                self._over.get(attempt) or self._seen(attempt, told, now)
                for attempt, told in self._attempts.items()
                if "never" not in told
            ]

    def log(self, attempt: str, offset: int, limit: int) -> tuple[bytes, int]:
        self._reach()
        with self._lock:
            if "never" in self._attempts.get(attempt, {"never": True}):
                raise NotFound(f"The engine {self.name} has no attempt {attempt}.")
        part = self.logs.get(attempt, b"")[offset : offset + limit]
        return part, offset + len(part)

    def forget(self, attempt: str) -> None:
        self._reach()
        with self._lock:
            self._over.pop(attempt, None)
            if self._attempts.pop(attempt, None) is not None and self._folder is not None:
                (self._folder / f"{attempt}.json").rename(self._folder / f"{attempt}.past")

    def close(self) -> None:
        pass

    # Faults

    def lose(self, attempt: str) -> None:
        """It knows nothing of it any more."""
        with self._lock:
            self._attempts.pop(attempt, None)
            self._over.pop(attempt, None)
            if self._folder is not None:
                (self._folder / f"{attempt}.json").unlink(missing_ok=True)

    def kill(self, attempt: str, cause: str = "lost") -> None:
        """It ends now, and not by itself."""
        with self._lock:
            self._write(attempt, self._attempts[attempt] | {"ends": self._clock.now(), "cause": cause, "killed": True})

    def take_away(self, node: str) -> None:
        """The host is gone, and with it what ran there; nobody says so."""
        del self._nodes[node]
        for attempt in [id for id, told in self._attempts.items() if node in told.get("nodes", ())]:
            self.lose(attempt)

    def bring(self, node: Node) -> None:
        self._nodes[node.name] = node

    # Steps

    def _reach(self) -> None:
        if not self.reachable:
            raise Unavailable(f"The engine {self.name} cannot be reached.")

    def _was_here(self, attempt: str) -> bool:
        return self._folder is not None and (self._folder / f"{attempt}.past").exists()

    def _write(self, attempt: str, told: dict[str, Any]) -> None:
        self._attempts[attempt] = told
        if self._folder is not None:
            new = self._folder / f"{attempt}.new"  # survives any death but that of the machine, which no test brings about
            new.write_text(json.dumps(told))
            new.rename(self._folder / f"{attempt}.json")

    def _seen(self, attempt: str, told: dict[str, Any], now: Moment) -> Seen:
        began, ends, nodes = Moment(told["began"]), Moment(told["ends"]), tuple(told["nodes"])
        if now < began and now < ends:
            return Seen(attempt=attempt, state="preparing", nodes=nodes)
        used = self._used(told, max(0, min(now, ends) - began) / SECOND)
        if now < ends:
            return Seen(attempt=attempt, state="running", started=began, used=used, nodes=nodes)
        stopped = told.get("stopped") and not told.get("killed")
        cause: Cause = "stopped" if stopped or told["cause"] == "stubborn" else told["cause"]
        over = self._over[attempt] = Seen(
            attempt=attempt,
            state="ended",
            started=min(began, ends),
            ended=ends,
            cause=cause,
            code=_CODES.get(cause),
            used=used,
            nodes=nodes,
        )
        return over

    def _used(self, told: dict[str, Any], seconds: float) -> Used:
        return Used(
            cpu_seconds=seconds,
            memory_mib_peak=self.memory_mib,
            memory_mib_seconds=self.memory_mib * seconds,
            gpu_seconds=told["cards"] * seconds,
            gpu_busy_seconds=told["cards"] * seconds * self.busy_cards,
        )
