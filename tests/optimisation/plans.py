"""Plans and candidates as a job is told them, for tests that need no platform."""

from dataclasses import replace
from typing import Any

from falaj.base.clock import Moment
from falaj.optimisation.operations.optimisations import Limits, Optimisation
from falaj.optimisation.operations.variants import Variant
from falaj.optimisation.operations.words import DataSeen
from tests.web.optimised import measures

ID = "a" * 32
_DATA = DataSeen(dataset="rows", version=1, digest="0123456789abcdef" * 4)
_PLAN = Optimisation(
    id=ID,
    model="churn",
    version=1,
    version_id=ID,
    on=_DATA,
    held_out=_DATA,
    label="",
    slices=(),
    target="cpu",
    limits=Limits(),
    only=(),
    certify=3,
    seconds=900,
    runtime="onnx",
    file="model.onnx",
    columns=(),
    files=(),
    student=(),
    student_file="",
    price=0.0,
    permissions=(),
    spent=0.0,
    state="open",
    created=Moment(0),
    created_by=ID,
    ended=None,
)
_VARIANT = Variant(
    id=ID,
    name="int8",
    optimisation=ID,
    model="churn",
    version=1,
    steps=("int8",),
    why="",
    state="made",
    reason="",
    runtime="onnx",
    file="model.onnx",
    files=(),
    settings=(),
    notes=(),
    measures=measures(2.0),
    max_drop=0.005,
    certificate="",
    on_front=False,
    best=False,
    settled=None,
)


def plan(**other: Any) -> Optimisation:
    return replace(_PLAN, **other)


def made(*names: str) -> tuple[Variant, ...]:
    """The first the most promising."""
    return tuple(replace(_VARIANT, name=name, measures=measures(2.0 - 0.1 * at)) for at, name in enumerate(names))
