"""Looking at engines. One that does not answer says nothing about its attempts, until it was silent for long."""

import logging
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from falaj.base.clock import MINUTE, SECOND, Moment
from falaj.base.errors import FalajError
from falaj.base.values import value
from falaj.jobs.engines.engine import CardUse, MeasuresCards, Seen
from falaj.jobs.scheduler.values import Node

log = logging.getLogger(__name__)


@value
class Patience:
    """How long a controller waits before it concludes something, in microseconds of its steady clock."""

    silent: int = 2 * MINUTE  # an engine, or a node its engine does not speak of: its attempts are lost
    missing: int = 10 * SECOND  # an attempt that its engine does not speak of
    unstarted: int = 5 * MINUTE  # an attempt that its engine will not take on
    stopped: int = 30 * SECOND  # an attempt that should have ended by now is told again
    nodes: int = 2 * SECOND  # so often engines are asked for their hosts
    said: int = 3 * SECOND  # an engine that does not answer for so long is said not to


class SteadyClock:
    """How much time the controller has watched go by: a clock that jumps, or a controller that slept, adds a moment at most.

    What is concluded from silence is concluded by this clock, for in a jump nobody had a chance to speak.
    """

    LONGEST_STEP: Final = 2 * SECOND

    def __init__(self, now: Moment) -> None:
        self.now = now
        self.steady = self.LONGEST_STEP  # 0 stands for never

    def go_on(self, now: Moment) -> None:
        """It is so late; never earlier than it was."""
        self.steady += min(max(now - self.now, 0), self.LONGEST_STEP)
        self.now = Moment(max(now, self.now))


class Observed(Protocol):
    """What a controller sees of an engine, its own or another control plane's."""

    def nodes(self) -> Sequence[Node]: ...

    def look(self) -> Sequence[Seen]: ...


class Watch:
    """One engine as its controller sees it. `engine` is None for one that nobody has any more; one that `is_here` is the
    controller's own to act on."""

    def __init__(self, name: str, engine: Observed | None, patience: Patience, steady: int, *, is_here: bool = True) -> None:
        self.name = name
        self.engine = engine
        self.is_here = is_here
        self.answers = is_here  # whether it did at the last look
        self.answers_since = steady
        self.silent_since: Moment | None = None  # as it is written
        self.measures_gpus = False  # it was heard to say that a card was busy
        self._patience = patience
        self._heard = steady
        self._asked_nodes = 0
        self._known: set[str] = set()
        self._absent: dict[str, int] = {}

    def look(self, steady: int) -> Sequence[Seen] | None:
        """None where it does not answer."""
        try:
            seen = None if self.engine is None else self.engine.look()
        except Exception as error:  # noqa: BLE001  one broken engine must not keep the others from going on
            self._complain(error)
            seen = None
        if seen is not None:
            self._heard = steady
            if not self.answers:
                self.answers_since = steady
        self.answers = seen is not None
        return seen

    def change(self, now: Moment, steady: int) -> bool:
        """Whether it is to be written that it answers, or since when it does not."""
        if self.answers == (self.silent_since is None) or (not self.answers and steady - self._heard < self._patience.said):
            return False
        self.silent_since = None if self.answers else Moment(now - (steady - self._heard))
        return True

    def nodes(self, steady: int) -> Sequence[Node] | None:
        """Its hosts, where it was time to ask for them and it answered."""
        if self.engine is None or not self.answers or (self._asked_nodes and steady - self._asked_nodes < self._patience.nodes):
            return None
        try:
            nodes = self.engine.nodes()
        except Exception as error:  # noqa: BLE001
            self._complain(error)
            return None
        self._asked_nodes = steady
        names = {node.name for node in nodes}
        self._known |= names
        self._absent = {name: self._absent.get(name, steady) for name in self._known - names}
        return nodes

    def cards(self) -> Mapping[str, Sequence[CardUse | None]]:
        """What its hosts' cards do, where it can tell."""
        measuring: object = self.engine
        if not isinstance(measuring, MeasuresCards):
            return {}
        try:
            return measuring.cards()
        except Exception as error:  # noqa: BLE001
            self._complain(error)
            return {}

    def expect(self, node: str) -> None:
        """A node that a controller before this one knew of."""
        self._known.add(node)

    def is_silent(self, steady: int) -> bool:
        return steady - self._heard >= self._patience.silent

    def lost_nodes(self, steady: int) -> list[str]:
        """Those nobody spoke of for too long; they are told once."""
        absent = (name for name, since in self._absent.items() if steady - since >= self._patience.silent)
        lost = sorted(self._known if self.is_silent(steady) else absent)
        for name in lost:
            self._known.discard(name)
            self._absent.pop(name, None)
        return lost

    def has(self, node: str) -> bool:
        """Whether it answers, and spoke of the node when it was last asked for its hosts."""
        return self.answers and self._asked_nodes > 0 and node in self._known and node not in self._absent

    def _complain(self, error: Exception) -> None:
        if not self.answers:
            return  # it was said already
        if isinstance(error, FalajError):
            log.warning("the engine %s does not answer: %s", self.name, error)
        else:
            log.warning("the engine %s failed", self.name, exc_info=error)
