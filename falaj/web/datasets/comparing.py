"""Two versions of a dataset side by side: columns, rows that came and went, and values that moved."""

from typing import Any, Final

from falaj.base.values import value
from falaj.datasets.operations.comparing import COMPARE_VERSIONS, Shift
from falaj.datasets.operations.versions import LIST_VERSIONS
from falaj.web.datasets.dataset import itself
from falaj.web.datasets.version import cell
from falaj.web.drawing.quotas import meter
from falaj.web.forms import checked
from falaj.web.visits import Visit

MOST_VERSIONS: Final = 100
MOST_SHIFTS: Final = 200


@value
class Moved:
    """How far a column moved, in words and as a bar; the pairs are before and after."""

    name: str
    distance: str
    bar: Any
    pairs: tuple[tuple[str, str, str], ...]


def versions(visit: Visit) -> Any:
    return checked(LIST_VERSIONS, itself(visit) | {"limit": MOST_VERSIONS})


def difference(visit: Visit) -> Any:
    """None until both versions are chosen: comparing reads rows, and leaves a record."""
    before, after = visit.query.get("before", ""), visit.query.get("after", "")
    if not before or not after:
        return None
    keys = [key for key in visit.asked("key") if key]
    return checked(COMPARE_VERSIONS, itself(visit) | {"version": before, "other": after, "keys": keys})


def story(visit: Visit) -> dict[str, Any]:
    found = visit.loaded["diff"]
    listed = visit.loaded["versions"].items if visit.loaded["versions"] is not None else ()
    shifts = sorted(found.shifts, key=lambda one: -(one.distance or 0.0)) if found is not None else []
    return {
        "choices": [one for one in listed if one.pruned is None],
        "moved": [_moved(one) for one in shifts[:MOST_SHIFTS]],
        "keys": ", ".join(key for key in visit.asked("key") if key),
    }


def _moved(shift: Shift) -> Moved:
    pairs = [("nulls", *(f"{share:.1%}" for share in shift.nulls))]
    if shift.distinct is not None:
        pairs.append(("different", *(f"{round(count):,}" for count in shift.distinct)))
    if shift.mean is not None:
        pairs.append(("mean", *(cell(one) for one in shift.mean)))
    return Moved(
        name=shift.name,
        distance="" if shift.distance is None else f"{shift.distance:.3f}",
        bar=meter(shift.distance or 0.0),
        pairs=tuple((name, before, after) for name, before, after in pairs if before != after),
    )
