"""Whom to believe: only the platform's own program, in a job that has nothing of anybody else's, says what a variant is worth.

The job's token is inside its walls alone. A job with files, packages, variables or secrets of its owner's could have been made
to say anything, and so could a person.
"""

import json

from falaj.base.errors import Conflict, Forbidden
from falaj.database.work import Context
from falaj.jobs.operations.jobs import Spec
from falaj.jobs.store import attempts
from falaj.jobs.views import read_spec, required_job
from falaj.optimisation.jobs import command_of
from falaj.optimisation.store import optimisations as store
from falaj.optimisation.store.tables import Found
from falaj.optimisation.views import required_optimisation


def told_by_job(context: Context, optimisation: str, job: str, *, hold: bool = True) -> Found:
    """The optimisation that the caller, who is its job, tells something of. Held, so that nobody abandons it meanwhile, and
    from now on known to have this job: what jobs that were submitted before it say counts no more. Raises `Forbidden` for
    everybody else, and `Conflict` for those, and where it was abandoned."""
    found = required_optimisation(context, optimisation, hold=hold)
    check(context, job, found.id)
    if found.state == store.ABANDONED:
        raise Conflict(f"Optimisation {found.id} was abandoned: nothing more is made, measured or certified for it.")
    known = json.loads(found.found)
    jobs = known.get("jobs", [])
    if (newest := max(jobs, default="")) > job:  # ids are in the order of time
        raise Conflict(
            f"Job {newest}, which was submitted later, has taken optimisation {found.id} over: what job {job} says of it "
            "counts no more. Let that one end it."
        )
    if not hold or job in jobs:
        return found
    store.describe(context.work, found.id, json.dumps(known | {"jobs": [*jobs, job]}))
    return required_optimisation(context, optimisation)


def check(context: Context, job: str, optimisation: str) -> None:
    """Raises `Forbidden` unless the caller is the present try of such a job."""
    found = required_job(context, job)
    tries = attempts.of_job(context.work, found.project, found.id)
    present = tries[0] if tries else None
    speaks = present is not None and present.id == found.attempt and present.token == context.identity.token
    if not speaks or not is_own(read_spec(found.spec), optimisation):
        raise Forbidden(
            "What a variant is worth is told by the platform's own program, in a job of `falaj optimise`, and by nobody else.",
            rule="optimisation.own-program",
        )


def is_own(spec: Spec, optimisation: str) -> bool:
    brought = (spec.source, spec.lock, spec.image, spec.variables, spec.secrets, spec.hosts)
    return spec.command == command_of(optimisation) and not any(brought) and spec.tasks == 1
