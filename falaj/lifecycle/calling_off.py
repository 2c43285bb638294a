"""What steps brought under way that goes on by itself, and how it is called off once the step is given up.

What answers, or is watched, is left as it is: whoever stops a run has not said that endpoints shall answer otherwise.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from falaj.base.operation import Operation
from falaj.base.values import value
from falaj.database.work import UnitOfWork
from falaj.jobs.operations.jobs import CANCEL_JOB, RETRY_JOB, SUBMIT_JOB, Cancel
from falaj.jobs.store import jobs as job_store
from falaj.lifecycle.operations.gates import RUN_GATES
from falaj.lifecycle.operations.pipelines import CANCEL_RUN, START_RUN
from falaj.lifecycle.operations.pipelines import Cancel as CancelRun
from falaj.lifecycle.operations.words import Step
from falaj.lifecycle.store import runs as run_store

_WHY: Final = "The step of a pipeline that it was for is given up."


@value
class Afoot:
    """Something that goes on by itself. `called_off` says whether somebody wants it to end."""

    id: str
    started: int | None
    ended: int | None
    called_off: bool


@value
class CallingOff:
    """`ids` finds what is afoot in what was answered; `seen` says how that stands."""

    operation: Operation[Any, Any]
    request: Callable[[str, str], Any]
    ids: Callable[[Any], Sequence[str]]
    seen: Callable[[UnitOfWork, Sequence[str]], tuple[Afoot, ...]]


def _jobs(work: UnitOfWork, ids: Sequence[str]) -> tuple[Afoot, ...]:
    found = job_store.with_ids(work, ids)
    return tuple(Afoot(id=row.id, started=row.started, ended=row.ended, called_off=bool(row.wanted)) for row in found)


def _runs(work: UnitOfWork, ids: Sequence[str]) -> tuple[Afoot, ...]:
    found = [row for id in ids if (row := run_store.by_id(work, id)) is not None]
    return tuple(Afoot(id=row.id, started=row.started, ended=row.ended, called_off=row.stopping) for row in found)


def _of_jobs(ids: Callable[[Any], Sequence[str]]) -> CallingOff:
    def request(project: str, job: str) -> Cancel:
        return Cancel(project=project, job=job, reason=_WHY)

    return CallingOff(operation=CANCEL_JOB, request=request, ids=ids, seen=_jobs)


OF_JOBS: Final = _of_jobs(lambda called: [called["job"]["id"]])
_OF_GATES: Final = _of_jobs(lambda called: [one["job"] for one in called["items"] if one["job"]])
_OF_RUNS: Final = CallingOff(
    operation=CANCEL_RUN,
    request=lambda project, run: CancelRun(project=project, run=run, reason=_WHY),
    ids=lambda called: [called["id"]],
    seen=_runs,
)
_BY_OPERATION: Final = {
    SUBMIT_JOB.name: OF_JOBS,
    RETRY_JOB.name: OF_JOBS,
    RUN_GATES.name: _OF_GATES,
    START_RUN.name: _OF_RUNS,
}


def calling_off(step: Step) -> CallingOff | None:
    """Of a step with an operation that is asked about until it is over; None where nothing goes on by itself."""
    return None if step.until is None else _BY_OPERATION.get(step.operation)


def time_began(afoot: Sequence[Afoot], begun: int) -> int | None:
    """From when on a step's time counts: once all that it waits for has started, however long that stood in line."""
    starts = [one.started or one.ended for one in afoot]
    return None if None in starts else max((begun, *(start for start in starts if start)))


def job_in(step: Step, called: Any) -> str:
    """The one job that such a step is about; empty where there is none, or there are several."""
    return str(called["job"]["id"]) if calling_off(step) is OF_JOBS else ""
