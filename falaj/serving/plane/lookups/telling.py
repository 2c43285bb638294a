"""What was looked up for a call, as its report tells it for audits: keys, values with their bits, and of which moment."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from falaj.base.clock import Moment
from falaj.base.values import value
from falaj.datasets.online.views import Found
from falaj.serving.plane.lookups.views import ReadView
from falaj.tables import types
from falaj.tables.joining.told import telling

LONGEST: Final = 20_000


@value
class Looked:
    """What each view said of every row's entity at a moment."""

    views: Sequence[ReadView]
    entities: Mapping[str, Sequence[Any]]
    found: Sequence[Sequence[Found | None]]
    at: Moment


def told_looked(looked: Looked | None, masked: Sequence[str]) -> str:
    """As JSON; empty where there is nothing to tell, or too much. A view whose keys are masked is left out, and a feature that
    is."""
    if looked is None:
        return ""
    views = [
        _told(view, looked.entities, some, masked)
        for view, some in zip(looked.views, looked.found, strict=True)
        if not set(view.keys) & set(masked)
    ]
    text = msgspec.json.encode({"at": int(looked.at), "views": views}).decode()
    return text if len(text) <= LONGEST else ""


def _told(
    view: ReadView, entities: Mapping[str, Sequence[Any]], some: Sequence[Found | None], masked: Sequence[str]
) -> dict[str, Any]:
    kinds = {field.name: types.parse(field.type) for field in (*view.told.keys, *view.told.features)}
    wanted = [name for name in view.told.wanted if name not in masked]
    changes = [telling(kinds[name]) for name in (*view.keys, *wanted)]
    rows = []
    for row, found in enumerate(some):
        keys = [entities[key][row] for key in view.keys]
        values = [view.nothing[name] if found is None else found.values[view.places[name]] for name in wanted]
        told = [one if change is None else change(one) for one, change in zip((*keys, *values), changes, strict=True)]
        rows.append([None if found is None else int(found.of), *told])
    return {"view": view.told.reference, "features": wanted, "rows": rows}
