"""What cards do, as their engines say: the last word about each, since when one that is held does nothing, and what a minute
came to."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from falaj.base.clock import Moment
from falaj.base.values import value
from falaj.jobs.engines.engine import CardUse
from falaj.jobs.scheduler.values import CARD, Node

_AT_REST: Final = 0.01  # a card that computes less than this part of the time does nothing


@value
class CardState:
    """As its host's row has it."""

    busy: float
    memory_mib: int
    memory_used_mib: int
    idle_since: int | None = None  # that it is held and does nothing


class Cards:
    """Belongs to the controller's thread. `held` says how many thousandths of each card are, by host and number."""

    def __init__(self, held: Mapping[tuple[str, int], int]) -> None:
        self._held = held
        self._states: dict[str, tuple[CardState | None, ...]] = {}
        self._minute: dict[tuple[str, int], list[CardUse]] = defaultdict(list)
        self._shown: set[tuple[str, int]] = set()

    def see(self, node: str, uses: Sequence[CardUse | None], now: Moment) -> None:
        before = self._states.get(node, ())
        states = []
        for number, use in enumerate(uses):
            if use is not None:
                self._minute[node, number].append(use)
            known = before[number] if number < len(before) else None
            states.append(None if use is None else self._state(node, number, use, known, now))
        self._states[node] = tuple(states)

    def forget(self, node: str) -> None:
        self._states.pop(node, None)

    def written(self, node: str) -> str:
        return msgspec.json.encode(self._states.get(node, ())).decode()

    def rows(self, at: int, nodes: Mapping[str, Node]) -> list[dict[str, Any]]:
        """The minute that went by; of a card at rest the first alone is written."""
        rows, shown = [], set()
        for (node, number), uses in self._minute.items():
            busy = sum(use.busy for use in uses) / len(uses)
            held = self._held.get((node, number), 0) / CARD
            if held or busy >= _AT_REST:
                shown.add((node, number))
            there = nodes.get(node)
            if there is None or number >= len(there.cards) or (node, number) not in shown | self._shown:
                continue
            rows.append(
                {
                    "at": at,
                    "node": node,
                    "card": number,
                    "model": there.cards[number],
                    "held": held,
                    "busy": busy,
                    "memory_mib": uses[-1].memory_mib,
                    "memory_used_mib": max(use.memory_used_mib for use in uses),
                }
            )
        self._shown = shown
        self._minute.clear()
        return rows

    def _state(self, node: str, number: int, use: CardUse, known: CardState | None, now: Moment) -> CardState:
        rests = use.busy < _AT_REST and self._held.get((node, number), 0) > 0
        since = known.idle_since if known is not None and known.idle_since is not None else int(now)
        return CardState(
            busy=use.busy,
            memory_mib=use.memory_mib,
            memory_used_mib=use.memory_used_mib,
            idle_since=since if rests else None,
        )


def states_of(text: str) -> tuple[CardState | None, ...]:
    return msgspec.json.decode(text, type=tuple[CardState | None, ...]) if text else ()
