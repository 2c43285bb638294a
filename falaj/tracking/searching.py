"""Finding runs, and what runs can be found by."""

from typing import Final

from falaj.database.filters import Searchable, parse_filter, parse_order
from falaj.database.work import Context
from falaj.tracking.cursors import cursor_at, offset_of
from falaj.tracking.operations import runs as declared
from falaj.tracking.store import curves, inputs, runs
from falaj.tracking.store.digests import scope_of
from falaj.tracking.store.searches import Wanted, search_runs
from falaj.tracking.views import whole_runs

SEARCHABLE: Final = Searchable(
    texts=frozenset({"run_id", "run_name", "status", "user_id"}),
    numbers=frozenset({"start_time", "end_time"}),
    aliases={
        "created": "start_time",
        "Created": "start_time",
        "run name": "run_name",
        "Run name": "run_name",
        "Run Name": "run_name",
    },
    kinds=frozenset({"metric", "param", "tag", "dataset"}),
)
STATES: Final = {"active": False, "deleted": True, "all": None}
MOST_KEYS: Final = 1000
MOST_DATASETS: Final = 1000


def search(context: Context, request: declared.SearchRuns) -> declared.Runs:
    project = context.required_project.id
    this = (project, request.experiments, request.filter, request.order, request.state)
    offset = offset_of(request.cursor, *this)
    found = search_runs(
        context.work,
        Wanted(
            project=project,
            experiments=tuple(dict.fromkeys(request.experiments)),
            filters=parse_filter(request.filter, SEARCHABLE),
            order=parse_order(request.order, SEARCHABLE),
            deleted=STATES[request.state],
            offset=offset,
            limit=request.limit + 1,
        ),
    )
    page = found[: request.limit]
    following = cursor_at(offset + request.limit, *this) if len(found) > len(page) else ""
    return declared.Runs(items=whole_runs(context.work, project, page), next=following)


def keys(context: Context, request: declared.ListKeys) -> declared.Keys:
    project, work = context.required_project.id, context.work
    scopes = [scope_of(project, experiment) for experiment in dict.fromkeys(request.experiments)]
    # A name stands once for each experiment that has it, so more are read than are shown.
    names = curves.metric_names(work, scopes, 10 * MOST_KEYS)
    return declared.Keys(
        metrics=tuple(sorted(names)[:MOST_KEYS]),
        params=tuple(runs.keys_of(work, scopes, runs.PARAM, MOST_KEYS)),
        tags=tuple(runs.keys_of(work, scopes, runs.TAG, MOST_KEYS)),
    )


def datasets(context: Context, request: declared.FindDatasets) -> declared.DatasetSummaries:
    rows = inputs.datasets_used(context.work, context.required_project.id, list(request.experiments), MOST_DATASETS)
    return declared.DatasetSummaries(
        items=tuple(
            declared.DatasetSummary(experiment=row.experiment, name=row.name, digest=row.digest, context=row.context or "")
            for row in rows
        )
    )
