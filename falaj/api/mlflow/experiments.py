"""Experiments, as MLflow's clients ask for them."""

from typing import Final

from falaj.api.mlflow.adapters import Document, Visit, adapt, nothing, perform
from falaj.api.mlflow.bodies import body
from falaj.api.mlflow.failures import EXISTS
from falaj.api.mlflow.paging import gathered
from falaj.api.mlflow.words import Ids, experiment_of, milliseconds, some_experiments, state_of
from falaj.base.errors import Invalid
from falaj.base.pages import Cursor
from falaj.tracking.operations import experiments as ops
from falaj.tracking.operations.runs import FIND_DATASETS, DatasetSummaries, FindDatasets
from falaj.tracking.operations.words import Filter, Key, Order, Remark, Tags, Title

MOST_LISTED: Final = 50_000


@body
class Create:
    name: Title
    artifact_location: str = ""
    tags: Tags = ()


@body
class One:
    experiment_id: str = ""


@body
class ByName:
    experiment_name: Title


@body
class Search:
    max_results: int = 1000
    page_token: Cursor = ""
    filter: Filter = ""
    order_by: Order = ()
    view_type: str | int = "ACTIVE_ONLY"


@body
class Update:
    experiment_id: str = ""
    new_name: Title


@body
class SetTag:
    experiment_id: str = ""
    key: Key
    value: Remark = ""


@body
class DeleteTag:
    experiment_id: str = ""
    key: Key


@body
class SearchDatasets:
    experiment_ids: Ids = ()


def experiment(found: ops.Experiment, project: str) -> Document:
    return {
        "experiment_id": str(found.id),
        "name": found.name,
        "artifact_location": f"mlflow-artifacts:/{found.id}",
        "lifecycle_stage": "deleted" if found.deleted else "active",
        "last_update_time": milliseconds(found.changed),
        "creation_time": milliseconds(found.created),
        "tags": [{"key": tag.key, "value": tag.value} for tag in found.tags],
        "workspace": project,
    }


def _create(sent: Create, visit: Visit) -> ops.CreateExperiment:
    if sent.artifact_location and not sent.artifact_location.startswith("mlflow-artifacts:"):
        raise Invalid(
            f"Falaj keeps artifacts itself, sealed, and not in {sent.artifact_location[:200]!r}: leave artifact_location out."
        )
    return ops.CreateExperiment(project=visit.project, name=sent.name, tags=sent.tags)


def _one(sent: One, visit: Visit) -> ops.OneExperiment:
    return ops.OneExperiment(project=visit.project, experiment=experiment_of(sent.experiment_id))


def _show(visit: Visit, sent: One) -> Document:
    return {"experiment": experiment(visit.call(ops.SHOW_EXPERIMENT, _one(sent, visit)), visit.project)}


def _find(visit: Visit, sent: ByName) -> Document:
    wanted = ops.FindExperiment(project=visit.project, name=sent.experiment_name)
    return {"experiment": experiment(visit.call(ops.FIND_EXPERIMENT, wanted), visit.project)}


def _search(visit: Visit, sent: Search) -> Document:
    if not 0 < sent.max_results <= MOST_LISTED:
        raise Invalid(f"max_results must be from 1 to {MOST_LISTED}, not {sent.max_results}.")
    state = state_of(sent.view_type)
    found, following = gathered(
        sent.max_results,
        sent.page_token,
        lambda limit, cursor: visit.call(
            ops.SEARCH_EXPERIMENTS,
            ops.SearchExperiments(
                project=visit.project, filter=sent.filter, order=sent.order_by, state=state, limit=limit, cursor=cursor
            ),
        ),
    )
    document: Document = {"experiments": [experiment(one, visit.project) for one in found]}
    return document | ({"next_page_token": following} if following else {})


def _datasets(found: DatasetSummaries) -> Document:
    return {
        "dataset_summaries": [
            {"experiment_id": str(one.experiment), "name": one.name, "digest": one.digest}
            | ({"context": one.context} if one.context else {})
            for one in found.items
        ]
    }


_SEARCH: Final = perform(ops.SEARCH_EXPERIMENTS.name, Search, _search)
_FIND_DATASETS: Final = adapt(
    FIND_DATASETS,
    SearchDatasets,
    lambda sent, visit: FindDatasets(project=visit.project, experiments=some_experiments(sent.experiment_ids)),
    _datasets,
)


_AT: Final = "/api/2.0/mlflow/experiments"
ROUTES: Final = (
    (
        "POST",
        f"{_AT}/create",
        adapt(ops.CREATE_EXPERIMENT, Create, _create, lambda made: {"experiment_id": str(made.id)}, conflict=EXISTS),
    ),
    ("GET", f"{_AT}/get", perform(ops.SHOW_EXPERIMENT.name, One, _show)),
    ("GET", f"{_AT}/get-by-name", perform(ops.FIND_EXPERIMENT.name, ByName, _find)),
    ("POST", f"{_AT}/search", _SEARCH),
    ("GET", f"{_AT}/search", _SEARCH),
    ("POST", f"{_AT}/delete", adapt(ops.DELETE_EXPERIMENT, One, _one, nothing)),
    ("POST", f"{_AT}/restore", adapt(ops.RESTORE_EXPERIMENT, One, _one, nothing)),
    (
        "POST",
        f"{_AT}/update",
        adapt(
            ops.RENAME_EXPERIMENT,
            Update,
            lambda sent, visit: ops.RenameExperiment(
                project=visit.project, experiment=experiment_of(sent.experiment_id), name=sent.new_name
            ),
            nothing,
            conflict=EXISTS,
        ),
    ),
    (
        "POST",
        f"{_AT}/set-experiment-tag",
        adapt(
            ops.TAG_EXPERIMENT,
            SetTag,
            lambda sent, visit: ops.TagExperiment(
                project=visit.project, experiment=experiment_of(sent.experiment_id), key=sent.key, value=sent.value
            ),
            nothing,
        ),
    ),
    (
        "POST",
        f"{_AT}/delete-experiment-tag",
        adapt(
            ops.UNTAG_EXPERIMENT,
            DeleteTag,
            lambda sent, visit: ops.UntagExperiment(
                project=visit.project, experiment=experiment_of(sent.experiment_id), key=sent.key
            ),
            nothing,
        ),
    ),
    ("POST", f"{_AT}/search-datasets", _FIND_DATASETS),
    # MLflow's own declaration of this one lacks the slash.
    ("POST", "/api/2.0mlflow/experiments/search-datasets", _FIND_DATASETS),
)
