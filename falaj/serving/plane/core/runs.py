"""A batch on its way through an engine, and what its answers will say about the model."""

from typing import NamedTuple

from falaj.base.values import value
from falaj.runtimes.engine import Array, UnderWay
from falaj.serving.plane.core.gathering import Item


class Run(NamedTuple):
    batch: list[Item]
    rows: int
    arrays: list[Array]
    under_way: UnderWay | None  # none where the engine is to be asked when it is waited for
    started: float
    beside: int  # how many were under way then, itself among them


@value
class Face:
    """`number` stands for the revision before the supervisor; `variant` is the form that answers, empty where there is but
    one."""

    endpoint: str
    revision: int
    model: str
    version: int
    number: int
    variant: str = ""
