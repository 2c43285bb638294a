"""How much planes have to do: kept with what they reported last, and told in a sentence."""

import json
import math
from dataclasses import replace
from typing import Any

import msgspec

from falaj.serving.operations.loads import CardLoad, PlaneLoad
from falaj.serving.store.tables import Found


def written(load: PlaneLoad) -> Any:
    """For JSON. A plane may say anything, and what is no number is nothing that could be read again."""
    cards = tuple(replace(card, busy=_number(card.busy)) for card in load.cards)
    return msgspec.to_builtins(replace(load, busy=_number(load.busy) or 0.0, cards=cards))


def load_of(plane: Found) -> PlaneLoad | None:
    """As the plane said in its last report; none of one that has not reported yet."""
    runs = json.loads(plane.runs)
    return msgspec.convert(runs[0][2], PlaneLoad) if runs and len(runs[0]) > 2 else None


def sentence(plane: Found, load: PlaneLoad) -> str:
    workers = "1 worker uses" if plane.workers == 1 else f"{plane.workers} workers use"
    each = "" if plane.workers == 1 else " each"
    told = [
        f"{workers} {load.busy * 100:.0f} % of a core{each}",
        f"{_counted(load.calls, 'call')} in hand",
        f"{_counted(load.rows, 'row')} waiting or at work",
        *(f"GPU {number} {_card(card)}" for number, card in enumerate(load.cards)),
    ]
    return f"Plane {plane.name}: {', '.join(told)}."


def _card(card: CardLoad) -> str:
    memory = f"{card.memory_used_mib / 1024:.1f} of {card.memory_mib / 1024:.1f} GiB"
    return memory if card.busy is None else f"{card.busy * 100:.0f} % busy with {memory}"


def _counted(number: int, of: str) -> str:
    return f"{number:,} {of}" if number == 1 else f"{number:,} {of}s"


def _number(told: float | None) -> float | None:
    return told if told is not None and math.isfinite(told) else None
