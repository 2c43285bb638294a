"""The room as a whole: every service of it, built from what it stands on.

The executor calls operations like anybody else, so it is made last, once there is a dispatcher: `attend`.
"""

from collections.abc import Iterable
from typing import Any

from falaj.base.clock import Clock, Moment
from falaj.base.operation import Operation
from falaj.database.binding import Bound
from falaj.database.work import Database
from falaj.governance.gate import Gatekeeper
from falaj.governance.passes import Passes
from falaj.jobs.secrets import ProjectSecrets
from falaj.lifecycle.checking import catalogue_of
from falaj.lifecycle.doing import Doing
from falaj.lifecycle.executor import Executor
from falaj.lifecycle.service import PipelineService
from falaj.lifecycle.triggers import Triggering, TriggerService
from falaj.operations.dispatcher import Dispatcher


class Lifecycle:
    """`step` wants to be called a few times a second by one process, `trigger` about every second."""

    def __init__(
        self,
        *,
        database: Database,
        clock: Clock,
        gate: Gatekeeper,
        passes: Passes,
        secrets: ProjectSecrets,
        operations: Iterable[Operation[Any, Any]],
    ) -> None:
        """`operations` are all there are: steps may call some of them."""
        self._database, self._clock, self._passes = database, clock, passes
        self._catalogue = catalogue_of(operations)
        self._triggering = Triggering(database, gate, self._catalogue)
        self._services = (PipelineService(gate, self._catalogue), TriggerService(database, secrets))
        self._executor: Executor | None = None

    def bindings(self) -> list[Bound]:
        return [bound for service in self._services for bound in service.bindings()]

    def attend(self, dispatcher: Dispatcher) -> None:
        doing = Doing(self._database, self._clock, self._passes, dispatcher, self._catalogue)
        self._executor = Executor(self._database, self._clock, doing)

    def step(self) -> bool:
        """Move runs on; whether there is more to do at once."""
        return self._executor is not None and self._executor.step()

    def trigger(self, now: Moment) -> bool:
        return self._triggering.step(now)

    def close(self) -> None:
        """After the loops."""
        if self._executor is not None:
            self._executor.close()
