"""Models on their ladders: which of its forms a model answers in, looked at ten times a second.

`falling` decides; `fleet` loads the rungs beforehand, so that nobody waits for a fall. Only new requests go elsewhere: those
that wait are answered where they are.
"""

from falaj.runtimes.engine import Engine, TensorSpec
from falaj.serving.plane.core.batches import Batches
from falaj.serving.plane.core.falling import Course, Seen, decide
from falaj.serving.plane.core.models import Model, Rung
from falaj.serving.plane.core.reading import Loaded, is_elsewhere, row_seconds


def look(model: Model, now: float) -> None:
    """Go one rung down or up where it is time for that; `now` is monotonic."""
    if model.own is None:
        return
    here, above, below = model.rungs[model.at], _above(model), _below(model)
    if here.batches is None or not here.is_usable:  # it failed, or had to make room
        model.stand_on(above or 0)
        model.course = Course()
        return
    slower = model.rungs[above].batches if above is not None else None
    seen = Seen(
        wait=_wait(here.batches),
        objective=here.batches.size.objective,
        rows=here.tally.rows,
        above_s=slower.size.row_seconds if slower is not None else 0.0,
    )
    model.course, step = decide(model.course, seen, now, can_fall=below is not None, can_rise=above is not None)
    if step == "fall" and below is not None:
        model.rungs[below].tally.falls += 1
        model.stand_on(below)
    elif step == "rise" and above is not None:
        model.stand_on(above)


def _above(model: Model) -> int | None:
    return next((place for place in range(model.at - 1, -1, -1) if model.rungs[place].is_usable), None)


def _below(model: Model) -> int | None:
    return next((place for place in range(model.at + 1, len(model.rungs)) if model.rungs[place].is_usable), None)


def _wait(batches: Batches) -> float:
    """How long what is there would take. A second place that takes more is help enough."""
    if batches.aside is not None and batches.aside.takes(1):
        return 0.0
    return batches.size.wait(batches.rows_waiting + batches.long_rows)


# Whether a rung that was loaded may be used


def measure(rung: Rung, loaded: Loaded) -> None:
    """A latency that was certified on another kind of host says nothing here; what was measured at load does."""
    rung.row_s, rung.latency = row_seconds(loaded.timing), loaded.latency


def why_unfit(model: Model, rung: Rung, engine: Engine, host: str) -> str:
    """Empty where it may stand in for the model here."""
    own = model.own
    if own is None or not _can_stand_in(own.engine, engine):
        return "it takes or gives other tensors than the revision, and cannot stand in for it"
    place = model.rungs.index(rung)
    above = next(one for one in reversed(model.rungs[:place]) if one.batches is not None)
    if is_elsewhere(rung.form, host) and above.row_s and rung.row_s >= above.row_s:
        return (
            f"on this kind of host it is no faster than {above.name} ({rung.row_s * 1000:.3g} ms a row against "
            f"{above.row_s * 1000:.3g} ms), and is not used"
        )
    return ""


def _can_stand_in(own: Engine, other: Engine) -> bool:
    """It takes whatever the model takes, and gives what that gives."""
    if len(own.inputs) != len(other.inputs) or len(own.outputs) != len(other.outputs) or other.batches < own.batches:
        return False
    takes = all(_is_same(one, another) for one, another in zip(own.inputs, other.inputs, strict=True))
    return takes and all(_is_same(one, another, loosely=True) for one, another in zip(own.outputs, other.outputs, strict=True))


def _is_same(one: TensorSpec, another: TensorSpec, *, loosely: bool = False) -> bool:
    """An axis that the variant leaves open takes any length; where `loosely`, so does one that the model leaves open, for what
    engines know of their outputs differs."""
    if (one.name, one.datatype, len(one.shape)) != (another.name, another.datatype, len(another.shape)):
        return False
    return all(_fits(mine, its, loosely) for mine, its in zip(one.shape, another.shape, strict=True))


def _fits(mine: int, its: int, loosely: bool) -> bool:
    return its in (mine, -1) or (loosely and mine == -1)
