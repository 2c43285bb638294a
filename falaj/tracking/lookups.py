"""Finding what a call is about: in the project that was asked for, and in a state that takes what comes."""

from falaj.base.errors import Invalid, NotFound
from falaj.database.work import Context
from falaj.tracking.store import experiments, runs
from falaj.tracking.store.runs import Place


def find_place(context: Context, run: str) -> Place:
    place = runs.find_place(context.work, context.required_project.id, run)
    if place is None:
        raise no_run(run)
    return place


def run_to_write(context: Context, run: str) -> Place:
    place = find_place(context, run)
    if place.deleted:
        require_writable(run, place.deleted)
    return place


def require_writable(run: str, deleted: int) -> None:
    if deleted not in (runs.ACTIVE, runs.CAME_DELETED):
        raise Invalid(f"The run {run} is deleted and must be in the 'active' state to be written to; restore it first.")


def require_open_experiment(context: Context, number: int) -> None:
    """It exists in this project and takes runs; held so until the transaction ends."""
    active = experiments.is_active(context.work, context.required_project.id, number)
    if active is None:
        raise no_experiment(number)
    if not active:
        raise Invalid(
            f"The experiment {number} is deleted and must be in the 'active' state to be written to; restore it first."
        )


def no_run(run: str) -> NotFound:
    return NotFound(f"The project has no run {run}.")


def no_experiment(number: int) -> NotFound:
    return NotFound(f"The project has no experiment {number}.")
