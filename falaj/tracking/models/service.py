"""Logged models as callers see them: announced, finished, tagged, hidden and searched. Their files are artifacts."""

from collections.abc import Sequence
from typing import Final

from falaj.base.clock import Moment
from falaj.base.errors import Invalid, NotFound
from falaj.base.ids import new_id
from falaj.base.pages import cursor_after, read_cursor
from falaj.base.values import Nothing
from falaj.database.binding import Bound, bind
from falaj.database.filters import Ordering, Searchable, parse_filter
from falaj.database.work import Context
from falaj.lineage.graph import Node, link
from falaj.tracking.lookups import no_run, require_open_experiment, require_writable
from falaj.tracking.models import store
from falaj.tracking.naming import friendly_name
from falaj.tracking.operations import models as declared
from falaj.tracking.operations.words import Metric, Param, Tag
from falaj.tracking.store.metrics import ModelPoint, metrics_of_models
from falaj.tracking.store.runs import find_run

# As MLflow has it: these would mean something in the addresses that models are named by.
_NOT_IN_NAMES: Final = "/:.%\"'"
_SEARCHABLE: Final = Searchable(
    texts=frozenset({"name", "model_id", "model_type", "source_run_id", "status"}),
    numbers=frozenset({"creation_timestamp_ms", "last_updated_timestamp_ms"}),
    aliases={
        "creation_time": "creation_timestamp_ms",
        "creation_timestamp": "creation_timestamp_ms",
        "last_updated_timestamp": "last_updated_timestamp_ms",
    },
    kinds=frozenset({"metric", "param", "tag"}),
)


class LoggedModelService:
    def bindings(self) -> list[Bound]:
        return [
            bind(declared.CREATE_LOGGED_MODEL, self.create),
            bind(declared.SHOW_LOGGED_MODEL, self.show),
            bind(declared.FINISH_LOGGED_MODEL, self.finish),
            bind(declared.DELETE_LOGGED_MODEL, self.delete),
            bind(declared.SEARCH_LOGGED_MODELS, self.search),
            bind(declared.TAG_LOGGED_MODEL, self.tag),
            bind(declared.UNTAG_LOGGED_MODEL, self.untag),
            bind(declared.LOG_MODEL_PARAMS, self.log_params),
        ]

    def create(self, context: Context, request: declared.CreateLoggedModel) -> declared.LoggedModel:
        project, model = context.required_project.id, f"m-{new_id(context.now)}"
        if found := [character for character in _NOT_IN_NAMES if character in request.name]:
            raise Invalid(f"The model name {request.name!r} contains {found[0]!r}; leave out {' '.join(_NOT_IN_NAMES)}")
        params = _by_key(request.params)
        require_open_experiment(context, request.experiment)
        row = {
            "id": model,
            "project": project,
            "experiment": request.experiment,
            "name": request.name or friendly_name(model),
            "kind": request.kind,
            "run": request.run,
            "status": "PENDING",
            "created": context.now,
            "changed": context.now,
            "created_by": context.identity.principal,
        }
        store.add_model(context.work, row)
        store.add_params(context.work, model, params)
        store.set_tags(context.work, model, {tag.key: tag.value for tag in request.tags})
        if request.run:
            self._link_to_run(context, request.run, Node(kind="model", id=model, label=str(row["name"])))
        context.facts["model"] = model
        return self._shown(context, model)

    def show(self, context: Context, request: declared.OneLoggedModel) -> declared.LoggedModel:
        return self._shown(context, request.model)

    def finish(self, context: Context, request: declared.FinishLoggedModel) -> declared.LoggedModel:
        self._row(context, request.model, hold=True)
        store.set_status(context.work, request.model, request.status, context.now)
        return self._shown(context, request.model)

    def delete(self, context: Context, request: declared.OneLoggedModel) -> Nothing:
        self._row(context, request.model, hold=True)
        store.hide(context.work, request.model, context.now)
        return Nothing()

    def search(self, context: Context, request: declared.SearchLoggedModels) -> declared.LoggedModels:
        """Pages show what was there when the first one was asked for, so that a new model moves nothing to the next page."""
        offset, until = (int(part) for part in read_cursor(request.cursor, int, int)) if request.cursor else (0, context.now)
        if offset < 0:
            raise Invalid("This cursor was not given out by this listing; start again without one.")
        rows = store.search_models(
            context.work,
            context.required_project.id,
            request.experiments,
            filters=parse_filter(request.filter, _SEARCHABLE),
            datasets=request.datasets,
            order=[_sorting(order) for order in request.order],
            until=Moment(until),
            offset=offset,
            limit=request.limit + 1,
        )
        following = cursor_after(offset + request.limit, until) if len(rows) > request.limit else ""
        return declared.LoggedModels(items=_whole(context, rows[: request.limit]), next=following)

    def tag(self, context: Context, request: declared.TagLoggedModel) -> declared.LoggedModel:
        """Of a key given twice the last value counts."""
        self._row(context, request.model, hold=True)
        store.set_tags(context.work, request.model, {tag.key: tag.value for tag in request.tags})
        store.touch(context.work, request.model, context.now)
        return self._shown(context, request.model)

    def untag(self, context: Context, request: declared.UntagLoggedModel) -> Nothing:
        self._row(context, request.model, hold=True)
        if not store.remove_tag(context.work, request.model, request.key):
            raise NotFound(f"The logged model {request.model} has no tag {request.key!r}.")
        store.touch(context.work, request.model, context.now)
        return Nothing()

    def log_params(self, context: Context, request: declared.LogModelParams) -> Nothing:
        """What was logged before and is the same counts once; another value is refused."""
        self._row(context, request.model, hold=True)
        given = _by_key(request.params)
        known = {row.key: row.value for row in store.params_of(context.work, [request.model])}
        for key in given.keys() & known.keys():
            if given[key] != known[key]:
                raise Invalid(
                    f"The param {key!r} of {request.model} was logged before as {known[key][:100]!r} and cannot change to "
                    f"{given[key][:100]!r}; log it under another key or use a tag."
                )
        store.add_params(context.work, request.model, {key: given[key] for key in given.keys() - known.keys()})
        store.touch(context.work, request.model, context.now)
        return Nothing()

    # Steps

    def _link_to_run(self, context: Context, run: str, made: Node) -> None:
        project = context.required_project.id
        if (row := find_run(context.work, project, run)) is None:
            raise no_run(run)
        require_writable(run, row.deleted)
        source = Node(kind="run", id=run, label=row.name)
        link(context.work, project=project, source=source, target=made, relation="output", now=context.now)

    def _row(self, context: Context, model: str, *, hold: bool = False) -> store.Found:
        row = store.find_model(context.work, context.required_project.id, model, hold=hold)
        if row is None:
            raise NotFound(f"The project has no logged model {model}.")
        return row

    def _shown(self, context: Context, model: str) -> declared.LoggedModel:
        return _whole(context, [self._row(context, model)])[0]


def _whole(context: Context, rows: Sequence[store.Found]) -> tuple[declared.LoggedModel, ...]:
    """The models with all that hangs on them, in four queries however many they are."""
    ids = [row.id for row in rows]
    params: dict[str, list[Param]] = {model: [] for model in ids}
    tags: dict[str, list[Tag]] = {model: [] for model in ids}
    metrics: dict[str, list[declared.ModelMetric]] = {model: [] for model in ids}
    for row in store.params_of(context.work, ids):
        params[row.model].append(Param(key=row.key, value=row.value))
    for row in store.tags_of(context.work, ids):
        tags[row.model].append(Tag(key=row.key, value=row.value))
    for point in metrics_of_models(context.work, context.required_project.id, ids):
        metrics[point.model].append(_measured(point))
    return tuple(
        declared.LoggedModel(
            id=row.id,
            experiment=row.experiment,
            name=row.name,
            kind=row.kind,
            run=row.run,
            status=row.status,
            created=Moment(row.created),
            changed=Moment(row.changed),
            created_by=row.created_by,
            params=tuple(params[row.id]),
            tags=tuple(tags[row.id]),
            metrics=tuple(metrics[row.id]),
        )
        for row in rows
    )


def _measured(point: ModelPoint) -> declared.ModelMetric:
    number = float("nan") if point.nan else point.value
    return declared.ModelMetric(
        metric=Metric(key=point.name, value=number, timestamp=point.at, step=point.step),
        run=point.run,
        dataset_name=point.dataset_name,
        dataset_digest=point.dataset_digest,
    )


def _sorting(order: declared.ModelOrder) -> store.Sorting:
    prefix, dot, metric = order.field.partition(".")
    if dot and prefix != "metrics":
        raise Invalid(f"Models cannot be ordered by {order.field[:100]!r}; give an attribute, or a metric like metrics.auc.")
    if dot:
        ordering = Ordering(kind="metric", key=metric, descending=not order.ascending)
        return store.Sorting(ordering=ordering, dataset=order.dataset)
    attribute = _SEARCHABLE.aliases.get(order.field, order.field)
    if attribute not in store.ATTRIBUTES:
        known = ", ".join(sorted(store.ATTRIBUTES))
        raise Invalid(f"Models have no attribute {order.field[:100]!r} to be ordered by; they have {known}.")
    return store.Sorting(ordering=Ordering(kind="attribute", key=attribute, descending=not order.ascending))


def _by_key(params: Sequence[Param]) -> dict[str, str]:
    found: dict[str, str] = {}
    for param in params:
        if found.setdefault(param.key, param.value) != param.value:
            raise Invalid(f"The param {param.key!r} is given twice in one request, with two values; give it once.")
    return found
