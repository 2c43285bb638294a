"""Runs: begun, changed, hidden, brought back. What they log: `metrics`; what they use: `inputs`; finding them: `searching`."""

from typing import Any, Final

from falaj.base.errors import Conflict, Invalid, NotFound
from falaj.base.ids import new_id
from falaj.base.values import Nothing
from falaj.database.binding import Bound, bind
from falaj.database.work import Context
from falaj.tracking import inputs, metrics, searching
from falaj.tracking.lookups import find_place, no_run, require_open_experiment, require_writable, run_to_write
from falaj.tracking.metrics import RUN_NAME
from falaj.tracking.naming import friendly_name
from falaj.tracking.operations import runs as declared
from falaj.tracking.operations.words import LONGEST_NAME, Tag
from falaj.tracking.store import runs as store
from falaj.tracking.store.digests import scope_of
from falaj.tracking.store.experiments import is_active
from falaj.tracking.views import info, whole_runs

NOTHING: Final = Nothing()


class RunService:
    def bindings(self) -> list[Bound]:
        return [
            bind(declared.CREATE_RUN, self.create),
            bind(declared.SHOW_RUN, self.show),
            bind(declared.UPDATE_RUN, self.update),
            bind(declared.LOG_TO_RUN, metrics.log),
            bind(declared.UNTAG_RUN, self.untag),
            bind(declared.LOG_INPUTS, inputs.log_inputs),
            bind(declared.LOG_OUTPUTS, inputs.log_outputs),
            bind(declared.DELETE_RUN, self.delete),
            bind(declared.RESTORE_RUN, self.restore),
            bind(declared.SEARCH_RUNS, searching.search),
            bind(declared.READ_HISTORY, metrics.history),
            bind(declared.READ_CURVES, metrics.curves),
            bind(declared.LIST_KEYS, searching.keys),
            bind(declared.FIND_DATASETS, searching.datasets),
            bind(declared.IMPORT_RUN, self.take_over),
        ]

    def create(self, context: Context, request: declared.CreateRun) -> declared.Run:
        project, run = context.required_project.id, new_id(context.now)
        require_open_experiment(context, request.experiment)
        tags = {tag.key: tag.value for tag in request.tags}
        name = _name(run, request.name, tags)
        row: dict[str, Any] = {
            "id": run,
            "experiment": request.experiment,
            "name": name,
            "user": request.user,
            "status": "RUNNING",
            "started": context.now // 1000 if request.started is None else request.started,
            "ended": None,
            "deleted": store.ACTIVE,
            "created": int(context.now),
            "created_by": context.identity.principal,
        }
        number = store.add_run(context.work, project, row)
        if number is None:
            raise Conflict(f"The project has a run {run} already.")
        store.set_tags(context.work, number, scope_of(project, request.experiment), tags)
        context.facts["run"] = run
        shown = tuple(Tag(key=key, value=tags[key]) for key in sorted(tags))
        return declared.Run(info=info(store.RunRow(number=number, **row)), params=(), tags=shown, metrics=())

    def show(self, context: Context, request: declared.OneRun) -> declared.Run:
        project = context.required_project.id
        row = store.find_run(context.work, project, request.run)
        if row is None:
            raise no_run(request.run)
        return whole_runs(context.work, project, [row])[0]

    def update(self, context: Context, request: declared.UpdateRun) -> declared.RunInfo:
        project = context.required_project.id
        row = store.change_run(
            context.work, project, request.run, status=request.status, ended=request.ended, name=request.name or None
        )
        if row is None:
            raise no_run(request.run)
        require_writable(request.run, row.deleted)
        if request.name:
            store.set_tags(context.work, row.number, scope_of(project, row.experiment), {RUN_NAME: request.name})
        return info(row)

    def untag(self, context: Context, request: declared.UntagRun) -> Nothing:
        if not store.drop_tag(context.work, run_to_write(context, request.run).number, request.key):
            raise NotFound(f"The run {request.run} has no tag {request.key!r}.")
        return NOTHING

    def delete(self, context: Context, request: declared.OneRun) -> Nothing:
        find_place(context, request.run)
        store.set_deleted(context.work, context.required_project.id, request.run, store.DELETED)
        return NOTHING

    def restore(self, context: Context, request: declared.OneRun) -> Nothing:
        place = find_place(context, request.run)
        if is_active(context.work, context.required_project.id, place.experiment) is False:
            raise Conflict(f"The run's experiment {place.experiment} is deleted; restore that first.")
        store.set_deleted(context.work, context.required_project.id, request.run, store.ACTIVE)
        return NOTHING

    def take_over(self, context: Context, request: declared.ImportRun) -> declared.RunInfo:
        """Whoever takes a run over twice, or at once, gets the first one's."""
        project = context.required_project.id
        known = store.find_run(context.work, project, request.run)
        if known is not None:
            return info(known)
        require_open_experiment(context, request.experiment)
        tags = {tag.key: tag.value for tag in request.tags}
        row: dict[str, Any] = {
            "id": request.run,
            "experiment": request.experiment,
            "name": _name(request.run, request.name, tags, both=True),
            "user": request.user,
            "status": request.status,
            "started": request.started,
            "ended": request.ended,
            "deleted": store.CAME_DELETED if request.deleted else store.ACTIVE,
            "created": int(context.now),
            "created_by": context.identity.principal,
        }
        number = store.add_run(context.work, project, row)
        if number is None:
            return self.take_over(context, request)
        scope = scope_of(project, request.experiment)
        store.set_tags(context.work, number, scope, tags)
        metrics.log_params(context, number, scope, request.params)
        taken = store.RunRow(number=number, **row)
        inputs.add_datasets(context, taken, request.datasets)
        return info(taken)


def _name(run: str, given: str, tags: dict[str, str], *, both: bool = False) -> str:
    """The run's name, which its tag gets too. `both` may differ where another system kept them."""
    tagged = tags.get(RUN_NAME, "")
    if given and tagged and given != tagged and not both:
        raise Invalid(f"The run is named {given[:100]!r}, and {tagged[:100]!r} by its tag {RUN_NAME}; give one name.")
    name = (given or tagged or friendly_name(run))[:LONGEST_NAME]
    if not tagged or both:
        tags[RUN_NAME] = name
    return name
