"""What the platform does to jobs by itself: recorded like any change, and reachable by no route."""

from typing import Final

from falaj.base.operation import Group, Operation, Permission, Record, Scope
from falaj.base.values import Nothing

TURN: Final = Operation(
    name="job.schedule",
    summary="A turn of the controller: what ended, what was started and what was stopped.",
    method="POST",
    path="platform/job-turns",
    request=Nothing,
    result=Nothing,
    permission=Permission(name="job.schedule", group=Group.OPERATE),
    scope=Scope.PLATFORM,
    record=Record.CHANGE,
)
KEEP_LOG: Final = Operation(
    name="job.keep-log",
    summary="What a try at a job wrote is put away, sealed, in the job's zone.",
    method="POST",
    path="platform/job-logs",
    request=Nothing,
    result=Nothing,
    permission=Permission(name="job.keep-log", group=Group.OPERATE),
    scope=Scope.PLATFORM,
    record=Record.CHANGE,
)
SCALE: Final = Operation(
    name="pool.scale",
    summary="A host of a pool is added or given back, or that failed.",
    method="POST",
    path="platform/pool-turns",
    request=Nothing,
    result=Nothing,
    permission=Permission(name="pool.scale", group=Group.OPERATE),
    scope=Scope.PLATFORM,
    record=Record.CHANGE,
)
