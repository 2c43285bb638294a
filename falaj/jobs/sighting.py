"""What engines say about hosts and attempts, and what follows from it and from their silence."""

import logging
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from typing import Final

import msgspec

from falaj.base.clock import SECOND
from falaj.jobs.acting import Actions
from falaj.jobs.elsewhere import Others
from falaj.jobs.engines.engine import Engine, Seen, Used
from falaj.jobs.metering import Meter
from falaj.jobs.moving import Moves
from falaj.jobs.observing import Patience, SteadyClock, Watch
from falaj.jobs.present import LiveAttempt, Present
from falaj.jobs.scheduler.scheduler import Scheduler
from falaj.jobs.scheduler.values import Node
from falaj.jobs.strangers import Strangers
from falaj.jobs.turns import Turn

WRITE_AGAIN: Final = 20 * SECOND  # a node's row, so that people see when it was last heard of
WRITE_CARDS: Final = 10 * SECOND  # where it says what its cards do, which people want to see as it is
log = logging.getLogger(__name__)


class Sightings:
    """Belongs to the controller's thread."""

    def __init__(
        self,
        present: Present,
        scheduler: Scheduler,
        engines: Mapping[str, Engine],
        *,
        others: Others,
        actions: Actions,
        strangers: Strangers,
        meter: Meter,
        time: SteadyClock,
        patience: Patience,
    ) -> None:
        self._present = present
        self._scheduler = scheduler
        self._others = others
        self._actions = actions
        self._strangers = strangers
        self._meter = meter
        self._time = time
        self._patience = patience
        self._told: dict[str, Node] = {}  # nodes as the scheduler knows them
        self._written: dict[str, tuple[tuple[Node, bool], int]] = {}  # and whether it said what its cards do
        used = {attempt.engine for attempt in present.attempts.values()}
        names = sorted({*engines, *used, *present.engine_of.values()})
        self._watches = {name: Watch(name, engines.get(name), patience, time.steady, is_here=name in engines) for name in names}
        self._claims: set[tuple[str, str]] = set()  # of hosts that another engine has, which was said
        for node, engine in present.engine_of.items():
            self._watches[engine].expect(node)
        for watch in self._watches.values():
            watch.silent_since = present.silent.get(watch.name)

    def look(self, moves: Moves, turn: Turn) -> bool:
        """Look at every engine once; whether the hosts have changed."""
        self._meet_others()
        for watch in self._watches.values():
            seen = watch.look(self._time.steady)
            if seen is not None:
                self._take_seen(watch, seen, moves, turn)
            self._conclude(watch, {one.attempt for one in seen or ()}, moves)
            nodes = watch.nodes(self._time.steady)
            if nodes is not None:
                self._take_nodes(watch, nodes, turn)
            if watch.change(turn.now, self._time.steady):
                turn.engines.append({"name": watch.name, "silent_since": watch.silent_since})
                if watch.silent_since and not watch.is_here:
                    log.warning("the control plane of the engine %s does not report", watch.name)
        lost = [(watch, name) for watch in self._watches.values() for name in watch.lost_nodes(self._time.steady)]
        for watch, name in lost:
            self._lose_node(watch, name, moves, turn)
        return self._tell_nodes() or bool(lost)

    def idle(self, limits: Mapping[str, int]) -> list[LiveAttempt]:
        """Attempts whose cards did nothing for longer than their queues allow (`limits` by queue, in seconds)."""
        if not limits:
            return []
        return [
            attempt
            for attempt in self._present.attempts.values()
            if not attempt.stop_for and (limit := limits.get(attempt.job.queue)) and self.idle_for(attempt) >= limit * SECOND
        ]

    def idle_for(self, attempt: LiveAttempt) -> int:
        """For how long its cards have done nothing, in microseconds; 0 where it has none, or nobody can tell."""
        if not attempt.job.order.shape.gpus or attempt.started is None:
            return 0
        # An engine that never said that a card was busy may not be able to tell.
        return self._time.steady - attempt.busy_at if self._watches[attempt.engine].measures_gpus else 0

    def _meet_others(self) -> None:
        for engine in self._others:
            watch = self._watches.get(engine.name)
            if watch is None:
                self._watches[engine.name] = Watch(engine.name, engine, self._patience, self._time.steady, is_here=False)
            else:
                watch.engine = engine

    # Attempts

    def _take_seen(self, watch: Watch, seen: Sequence[Seen], moves: Moves, turn: Turn) -> None:
        steady, attempts = self._time.steady, self._present.attempts
        for one in seen:
            attempt = attempts.get(one.attempt)
            if attempt is None or attempt.engine != watch.name:
                if watch.is_here:  # else it is for its own control plane to send it away
                    self._strangers.meet(watch.name, one, steady)
                continue
            attempt.seen = steady
            if attempt.acted is None:
                attempt.acted = steady
                attempt.inherited = False
            if one.state == "ended":
                self._end_seen(attempt, one, moves)
                continue
            if one.state == "running":
                if attempt.started is None:
                    attempt.busy_at = steady
                    moves.run(attempt, one.started, one.image)
                self._take_used(watch, attempt, one.used)
                self._meter.sample(attempt, turn)
            if attempt.stop_told is not None and steady - attempt.stop_told >= self._patience.stopped:
                self._actions.stop(attempt)

    def _take_used(self, watch: Watch, attempt: LiveAttempt, used: Used) -> None:
        if used.gpu_busy_seconds > attempt.used.gpu_busy_seconds:
            watch.measures_gpus = True
            attempt.busy_at = self._time.steady
        attempt.used = used

    def _end_seen(self, attempt: LiveAttempt, seen: Seen, moves: Moves) -> None:
        # One that was given up, or could not be started, may have left something behind at its engine: it ends as what it is.
        cause, words = attempt.trouble or (seen.cause or "lost", seen.words)
        if attempt.started is None and seen.started is not None and seen.image:
            moves.tell_running(attempt, seen.image)  # it was over before it was seen to run
        moves.end(attempt, cause, code=seen.code, words=words, started=seen.started, ended=seen.ended, used=seen.used)
        self._gone(attempt)

    def _conclude(self, watch: Watch, spoken_of: Set[str], moves: Moves) -> None:
        """What follows for the attempts that the engine did not speak of."""
        silent = watch.is_silent(self._time.steady)
        for attempt in list(self._present.attempts.values()):
            if attempt.engine != watch.name:
                continue
            if attempt.trouble is not None:
                cause, words = attempt.trouble
                moves.end(attempt, cause, words=words)
                self._gone(attempt)
            elif silent:
                self._lose(attempt, f"its engine {watch.name} was silent for {self._patience.silent // SECOND} s", moves)
            elif not watch.answers or attempt.id in spoken_of:
                continue
            elif attempt.inherited and watch.is_here:
                self._actions.give_up(attempt)
            elif attempt.acted is None and watch.is_here:
                continue
            elif self._others.heard(watch.name) - max(attempt.seen, watch.answers_since) >= self._patience.missing:
                self._lose(attempt, "its engine does not know of it any more", moves)

    def _lose(self, attempt: LiveAttempt, words: str, moves: Moves) -> None:
        moves.end(attempt, "lost", words=words)
        self._gone(attempt)
        self._actions.fence(attempt.id, attempt.engine)

    def _gone(self, attempt: LiveAttempt) -> None:
        self._actions.forget(attempt)
        self._strangers.ended(attempt.id, self._time.steady)

    # Nodes

    def _take_nodes(self, watch: Watch, nodes: Sequence[Node], turn: Turn) -> None:
        cards = watch.cards()
        for node in [replace(node, engine=watch.name) for node in nodes]:
            owner = self._present.engine_of.setdefault(node.name, watch.name)
            if owner != watch.name:
                if (node.name, watch.name) not in self._claims:
                    self._claims.add((node.name, watch.name))
                    log.warning("the engines %s and %s both have a node %s; the first keeps it", owner, watch.name, node.name)
                continue
            self._present.nodes[node.name] = node
            if uses := cards.get(node.name):
                self._meter.cards.see(node.name, uses, turn.now)
                watch.measures_gpus = watch.measures_gpus or any(use is not None for use in uses)
            told = (node, bool(uses))
            known, written = self._written.get(node.name, (None, 0))
            if known != told or self._time.steady - written >= (WRITE_CARDS if uses else WRITE_AGAIN):
                self._written[node.name] = (told, self._time.steady)
                facts = msgspec.json.encode(node).decode()
                row = {"name": node.name, "engine": watch.name, "zone": node.zone, "facts": facts, "seen": int(turn.now)}
                turn.nodes.append(row | {"cards": self._meter.cards.written(node.name)})

    def _lose_node(self, watch: Watch, name: str, moves: Moves, turn: Turn) -> None:
        words = f"its node {name} was silent for {self._patience.silent // SECOND} s"
        for attempt in [one for one in self._present.attempts.values() if name in one.nodes]:
            self._lose(attempt, words, moves)
        if self._present.nodes.pop(name, None) is not None:
            self._scheduler.drop_node(name)
            turn.lost_nodes.append(name)
        self._present.engine_of.pop(name, None)
        self._told.pop(name, None)
        self._written.pop(name, None)
        self._meter.cards.forget(name)

    def _tell_nodes(self) -> bool:
        """Nothing starts where an engine is silent or has its node no more, nor where somebody drains it."""
        changed = False
        for name, node in self._present.nodes.items():
            watch = self._watches[self._present.engine_of[name]]
            is_open = node.open and name not in self._present.draining and watch.has(name)
            told = self._told.get(name)
            if told is None or told.open != is_open or (is_open and told is not node and told != node):
                self._told[name] = now_told = node if node.open == is_open else replace(node, open=is_open)
                self._scheduler.put_node(now_told)
                changed = True
        return changed
