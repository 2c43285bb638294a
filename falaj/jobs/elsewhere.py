"""Engines that belong to other control planes over the same database. Each reports there what its engine says, and does there
what was written for it (`tending`); whoever decides reads the reports, and never touches an engine that is not its own."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from falaj.base.clock import SECOND, Moment
from falaj.base.errors import Invalid, Unavailable
from falaj.base.values import value
from falaj.database.work import UnitOfWork
from falaj.jobs.engines.engine import CardUse, Seen
from falaj.jobs.observing import SteadyClock
from falaj.jobs.scheduler.values import Node
from falaj.jobs.store import engines as store

FRESH: Final = 5 * SECOND  # a report comes every second; one that is late says that nobody is there

log = logging.getLogger(__name__)


@value
class Report:
    """What an engine said a moment ago."""

    seen: tuple[Seen, ...]
    nodes: tuple[Node, ...]
    cards: dict[str, tuple[CardUse | None, ...]]


def report_written(report: Report) -> str:
    return msgspec.json.encode(report, enc_hook=int).decode()  # moments are numbers


def report_read(text: str) -> Report:
    """Fields of another release are passed over. Raises `Invalid` where it makes no sense."""
    try:
        return msgspec.json.decode(text, type=Report, dec_hook=_decoded)
    except msgspec.MsgspecError as error:
        raise Invalid(f"It is no report of an engine: {error}") from None


def _decoded(kind: type, told: Any) -> Any:
    return Moment(told) if kind is Moment else told


class Elsewhere:
    """What is known of one of them. Belongs to the controller's thread."""

    def __init__(self, name: str, time: SteadyClock, beats: int) -> None:
        self.name = name
        self._time = time
        self._beats = beats
        self._report = Report(seen=(), nodes=(), cards={})
        self.heard = 0  # never yet: what was there before may be of long ago

    def take(self, work: UnitOfWork, beats: int) -> None:
        if beats == self._beats:
            return
        self._beats = beats
        try:
            self._report = report_read(store.reported(work, self.name))
        except Invalid as error:  # as if it had not spoken
            log.warning("what the engine %s reports cannot be read: %s", self.name, error)
            return
        self.heard = self._time.steady

    def look(self) -> Sequence[Seen]:
        return self._fresh().seen

    def nodes(self) -> Sequence[Node]:
        return self._fresh().nodes

    def cards(self) -> Mapping[str, Sequence[CardUse | None]]:
        return self._fresh().cards

    def _fresh(self) -> Report:
        if not self.heard or self._time.steady - self.heard > FRESH:
            raise Unavailable("its control plane does not report")
        return self._report


class Others:
    """All of them, as they come. `mine` are the engines that this control plane acts on itself."""

    def __init__(self, mine: frozenset[str], time: SteadyClock) -> None:
        self._mine = mine
        self._time = time
        self._known: dict[str, Elsewhere] = {}

    def read(self, work: UnitOfWork) -> None:
        for name, beats in store.beats(work).items():
            if name in self._mine:
                continue
            if (known := self._known.get(name)) is None:
                self._known[name] = Elsewhere(name, self._time, beats)
            else:
                known.take(work, beats)

    def heard(self, name: str) -> int:
        """When that engine's last report came, on the steady clock; now, for one that is not elsewhere."""
        known = self._known.get(name)
        return self._time.steady if known is None else known.heard

    def __iter__(self) -> Iterator[Elsewhere]:
        return iter(self._known.values())
