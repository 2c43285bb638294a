"""What alerts ask of the room above that has pipelines, to start one that trains anew."""

from typing import Any, Protocol

from falaj.base.clock import Moment
from falaj.base.operation import Operation
from falaj.base.values import Message
from falaj.database.work import Context


class Pipelines(Protocol):
    """Thread-safe; in the caller's transaction, and in the name of whoever's context it is."""

    def asked(self, project: str, pipeline: str) -> tuple[Operation[Any, Any], Message]:
        """By what somebody asks for a run."""
        ...

    def check(self, context: Context, pipeline: str) -> None:
        """Raises what is permanent where there is no such pipeline, or the caller may not do what it does."""
        ...

    def start(self, context: Context, pipeline: str, told: dict[str, str], why: str, wished: Moment) -> str:
        """The run's id. `told` are parameters that it may have; it was wished for at `wished`: who changed it since has to be
        allowed what it does, too. Raises as `check` does."""
        ...
