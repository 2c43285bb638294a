"""Runs that alerts start: implements `monitoring.retraining.Pipelines`. What watches alerts by itself is in `triggers`."""

from collections.abc import Iterable
from typing import Any

from falaj.base.clock import Moment
from falaj.base.operation import Operation
from falaj.database.work import Context, UnitOfWork
from falaj.governance.gate import Gatekeeper
from falaj.lifecycle.checking import catalogue_of
from falaj.lifecycle.operations.pipelines import START_RUN, StartRun
from falaj.lifecycle.rights import Rights, check_author, check_may, rights_of
from falaj.lifecycle.starting import Asked, definition_of, start
from falaj.lifecycle.store.tables import Found
from falaj.lifecycle.views import required_pipeline
from falaj.monitoring.store import alerts as alert_store
from falaj.monitoring.views import read_wishes

_TOLD = ("alert", "endpoint")  # parameters that a run is given where it has them
_TRIGGER = "alert"


class AlertedRuns:
    """Thread-safe. `operations` are all there are: steps may call some of them."""

    def __init__(self, gate: Gatekeeper, operations: Iterable[Operation[Any, Any]]) -> None:
        self._gate, self._catalogue = gate, catalogue_of(operations)

    def asked(self, project: str, pipeline: str) -> tuple[Operation[Any, Any], StartRun]:
        return START_RUN, StartRun(project=project, pipeline=pipeline)

    def check(self, context: Context, pipeline: str) -> None:
        check_may(context, self._gate, self._rights(context, required_pipeline(context, pipeline)))

    def start(self, context: Context, pipeline: str, told: dict[str, str], why: str, wished: Moment) -> str:
        found = required_pipeline(context, pipeline)
        if found.changed > wished and found.changed_by != context.identity.principal:
            rights, since = self._rights(context, found), " since the monitor was set"
            check_author(context, self._gate, found.changed_by, rights, since=since, then="sets the monitor again")
        known = {one.name for one in definition_of(context, found, found.version).parameters}
        parameters = {name: told[name] for name in _TOLD if name in told and name in known}
        asked = Asked(pipeline=found, version=found.version, parameters=parameters, why=why, trigger=_TRIGGER)
        return start(context, self._gate, self._catalogue, asked)

    def _rights(self, context: Context, pipeline: Found) -> Rights:
        definition = definition_of(context, pipeline, pipeline.version)
        return rights_of(definition, context.required_project.name, self._catalogue)


def is_started_by_alerts(work: UnitOfWork, project: str, pipeline: str) -> bool:
    """Whether a monitor of the project has an action that starts it."""
    wished = (read_wishes(text) for _, text in alert_store.watching_with(work, project))
    return any(act.pipeline == pipeline for wishes in wished for act in wishes.actions)
