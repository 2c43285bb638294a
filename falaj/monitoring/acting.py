"""Does what alerts decided upon: each action in one transaction with its leaf, or not at all. `deeds` has how."""

import logging
from collections.abc import Mapping
from typing import Final

import msgspec

from falaj.base.clock import HOUR, SECOND, Moment
from falaj.base.errors import Conflict, FalajError, PermanentError
from falaj.base.failpoints import failpoint
from falaj.database.work import Database, UnitOfWork
from falaj.governance.gate import Gatekeeper
from falaj.governance.ledger import recording
from falaj.governance.projects.store import project_by_id
from falaj.jobs.submitting import SubmissionService
from falaj.monitoring import wishers
from falaj.monitoring.deeds import Deed, FallBack, PauseCanary, Retrain, RollBack, Task
from falaj.monitoring.operations.alerts import TAKE_ACTION, OneAlert
from falaj.monitoring.operations.words import Act, ActionKind, ActionState
from falaj.monitoring.retraining import Pipelines
from falaj.monitoring.store import alerts as store
from falaj.monitoring.store import monitors as monitor_store
from falaj.monitoring.store.tables import Found
from falaj.serving.deploying import DeploymentService
from falaj.serving.store import endpoints as endpoint_store

AT_ONCE: Final = 20
PATIENCE: Final = HOUR  # for what fails for a while, such as a key ring that does not answer
_AGAIN: Final = 10 * SECOND
_LONGEST: Final = 1000
log = logging.getLogger(__name__)


class Acting:
    """Under a lease; but two who act on one action do it once all the same."""

    def __init__(
        self,
        database: Database,
        gate: Gatekeeper,
        deployments: DeploymentService,
        submissions: SubmissionService,
        pipelines: Pipelines,
    ) -> None:
        self._database = database
        self._later: dict[str, int] = {}  # actions that failed, and until when they wait
        self._deeds: Mapping[ActionKind, Deed] = {
            "roll-back": RollBack(),
            "pause-canary": PauseCanary(),
            "fall-back": FallBack(database, gate, deployments),
            "retrain": Retrain(database, gate, submissions, pipelines),
        }

    def step(self, now: Moment) -> bool:
        """Whether there may be more to do at once."""
        self._later = {action: at for action, at in tuple(self._later.items()) if at > now}
        ready = self._database.read(lambda work: store.ready_actions(work, AT_ONCE, self._later))
        for row in ready:
            self._act(row, now)
        return len(ready) == AT_ONCE

    def _act(self, row: Found, now: Moment) -> None:
        """What fails for a while waits, and is given up in the end; it never keeps other actions from being done."""
        try:
            why = self._tried(row, now)
            if why:
                self._database.write(lambda work: _fail(work, row, why, now))
        except FalajError as error:
            log.warning("action %s waits: %s", row.id, error)
            self._later[row.id] = now + _AGAIN
        except Exception:  # what is odd about one action must not hold up those of other projects
            log.exception("action %s waits", row.id)
            self._later[row.id] = now + _AGAIN

    def _tried(self, row: Found, now: Moment) -> str:
        """Why it is given up; empty where it was done."""
        is_last = now - (row.decided or row.at) >= PATIENCE
        try:
            deed = self._deeds[row.kind]
            task = self._database.read(lambda work: _task(work, row, hold=False))
            foreseen = deed.foresee(task, now)
            self._database.write(lambda work: _done(work, row, deed, foreseen, now))
        except PermanentError as error:
            return str(error)
        except Exception as error:
            if not is_last:
                raise
            log.exception("action %s is given up", row.id)
            return str(error) if isinstance(error, FalajError) else f"It could not be done: {type(error).__name__}."
        return ""


def _task(work: UnitOfWork, row: Found, *, hold: bool) -> Task:
    """Raises `Conflict` where what it is about is not there any more."""
    monitor = monitor_store.by_id(work, row.monitor, hold=hold)
    alert, project = store.find(work, row.project, row.alert), project_by_id(work, row.project)
    if project is None or project.archived:
        raise Conflict("The project is archived or gone.")
    if monitor is None or alert is None:
        raise Conflict("The endpoint is not watched any more.")
    find = endpoint_store.hold_by_id if hold else endpoint_store.find_by_id
    endpoint = find(work, monitor.endpoint)
    if endpoint is None:
        raise Conflict("The endpoint is gone.")
    act = msgspec.json.decode(row.wanted, type=Act)
    wisher = wishers.decode(row.wisher)
    return Task(id=row.id, act=act, wisher=wisher, alert=alert, endpoint=endpoint, project=project)


def _done(work: UnitOfWork, row: Found, deed: Deed, foreseen: object, now: Moment) -> None:
    task = _task(work, row, hold=True)
    if _is_still_ready(work, row):
        _note(work, row, task.project.name, "done", deed.do(work, task, foreseen, now), now)
        failpoint("alerts.acted")


def _fail(work: UnitOfWork, row: Found, why: str, now: Moment) -> None:
    project = project_by_id(work, row.project)
    monitor_store.by_id(work, row.monitor, hold=True)
    if _is_still_ready(work, row):
        _note(work, row, "" if project is None else project.name, "failed", why, now)


def _is_still_ready(work: UnitOfWork, row: Found) -> bool:
    held = store.find_action(work, row.project, row.id, hold=True)
    return held is not None and held.state == "ready"


def _note(work: UnitOfWork, row: Found, project: str, state: ActionState, words: str, now: Moment) -> None:
    store.change_action(work, row.id, state=state, words=words[:_LONGEST])
    recording.append(
        work,
        operation=TAKE_ACTION,
        request=OneAlert(project=project, alert=row.alert),
        identity=None,
        project=row.project,
        now=now,
        request_id="",
        facts={"alert": row.alert, "action": row.id, "kind": row.kind, "state": state, "words": words[:_LONGEST]},
    )
