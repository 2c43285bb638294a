"""Objectives: what the calls of an endpoint are held to, how fast the budget of errors is spent, and what is left of it."""

from typing import Final, Literal, TypeAlias

from falaj.base.clock import Moment
from falaj.base.operation import Operation, Record, Scope
from falaj.base.values import Message, Name, Number, value
from falaj.monitoring.operations.words import SEE, Objective, Sentence

ObjectiveState: TypeAlias = Literal["quiet", "well", "slow burn", "fast burn", "spent"]


@value
class ReadObjectives(Message):
    project: Name
    endpoint: Name


@value
class Burnt(Message):
    """Calls that ended well and badly in the last `seconds`; `window` is the same as people write it. `rate` 1 spends just the
    budget, and 2 twice as much as there is."""

    window: str
    seconds: int
    good: int
    bad: int
    rate: Number


@value
class ByRevision(Message):
    """What one revision did within the last hour."""

    revision: int
    good: int
    bad: int


@value
class ObjectiveStanding(Message):
    """How one objective stands. `good` and `bad` calls are those of its days, as far as they are known. `left` is the share of
    the budget that is left, below 0 where it is overspent; at the rate of the last hour it lasts for `lasts` seconds, without
    end where that is nothing. `revisions` are those that did something within the last hour, the worst first."""

    objective: Objective
    state: ObjectiveState
    good: int
    bad: int
    left: Number
    lasts: int | None
    windows: tuple[Burnt, ...]
    revisions: tuple[ByRevision, ...]
    sentence: Sentence

    @property
    def budget_words(self) -> str:
        if self.left < 0:
            return f"The budget is spent {1 - self.left:.1f} times over."
        return f"{self.left * 100:.1f} % of the budget is left."


@value
class Objectives(Message):
    """Calls are known from `since` on. `traffic` says how the last whole hour compares with the same hour of other days, and
    `unusual` whether that is beyond what chance brings."""

    endpoint: str
    items: tuple[ObjectiveStanding, ...]
    since: Moment | None
    traffic: Sentence
    unusual: bool


READ_OBJECTIVES: Final = Operation(
    name="monitor.objectives",
    summary="How an endpoint's calls do against its objectives: what burns, and what is left of the budget of errors.",
    method="GET",
    path="projects/{project}/endpoints/{endpoint}/objectives",
    request=ReadObjectives,
    result=Objectives,
    permission=SEE,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
OPERATIONS: Final = (READ_OBJECTIVES,)
