"""What artifacts belong to: a run, or a model that a run logged."""

from falaj.base.errors import NotFound
from falaj.database.work import UnitOfWork
from falaj.tracking.lookups import no_run, require_writable
from falaj.tracking.models.store import find_model
from falaj.tracking.store.runs import find_place


def require_holder(work: UnitOfWork, project: str, holder: str, *, takes_files: bool = False) -> None:
    """It exists in this project and, where that is asked, takes files.

    A deleted run still shows the files it has and takes no more; a deleted model is gone.
    """
    if holder.startswith("m-"):
        if find_model(work, project, holder) is None:
            raise NotFound(f"The project has no logged model {holder}.")
        return
    run = find_place(work, project, holder)
    if run is None:
        raise no_run(holder)
    if takes_files:
        require_writable(holder, run.deleted)
