"""Experiments: named folders of runs, numbered within their project. The first, number 0, is there from the start."""

from typing import Any, Final

from falaj.base.clock import Moment
from falaj.base.errors import Conflict, Invalid, NotFound
from falaj.base.values import Nothing
from falaj.database.binding import Bound, bind
from falaj.database.filters import Comparison, Searchable, parse_filter, parse_order
from falaj.database.work import Context
from falaj.tracking.cursors import cursor_at, offset_of
from falaj.tracking.lookups import no_experiment, require_open_experiment
from falaj.tracking.operations import experiments as declared
from falaj.tracking.operations.words import Tag
from falaj.tracking.store import experiments as store
from falaj.tracking.store.runs import ACTIVE, WENT_WITH_EXPERIMENT, set_all_deleted

SEARCHABLE: Final = Searchable(
    texts=frozenset({"name", "experiment_id"}),
    numbers=frozenset({"creation_time", "last_update_time"}),
)
STATES: Final = {"active": False, "deleted": True, "all": None}


class ExperimentService:
    def bindings(self) -> list[Bound]:
        return [
            bind(declared.CREATE_EXPERIMENT, self.create),
            bind(declared.SHOW_EXPERIMENT, self.show),
            bind(declared.FIND_EXPERIMENT, self.find),
            bind(declared.SEARCH_EXPERIMENTS, self.search),
            bind(declared.RENAME_EXPERIMENT, self.rename),
            bind(declared.DELETE_EXPERIMENT, self.delete),
            bind(declared.RESTORE_EXPERIMENT, self.restore),
            bind(declared.TAG_EXPERIMENT, self.tag),
            bind(declared.UNTAG_EXPERIMENT, self.untag),
        ]

    def create(self, context: Context, request: declared.CreateExperiment) -> declared.Experiment:
        work, project = context.work, context.required_project.id
        store.hold_numbers(work, project)
        number = store.add_experiment(work, project, request.name, by=context.identity.principal, now=context.now)
        if number is None:
            raise _taken(context, request.name)
        for tag in request.tags:
            store.set_tag(work, project, number, tag.key, tag.value)
        context.facts["experiment"] = number
        return self._shown(context, [_found(context, number)])[0]

    def show(self, context: Context, request: declared.OneExperiment) -> declared.Experiment:
        return self._shown(context, [_found(context, request.experiment)])[0]

    def find(self, context: Context, request: declared.FindExperiment) -> declared.Experiment:
        row = store.find_named(context.work, context.required_project.id, request.name)
        if row is None:
            raise NotFound(f"The project has no experiment named {request.name!r}.")
        return self._shown(context, [row])[0]

    def search(self, context: Context, request: declared.SearchExperiments) -> declared.Experiments:
        this = (context.required_project.id, request.filter, request.order, request.state)
        offset = offset_of(request.cursor, *this)
        rows = store.search_experiments(
            context.work,
            context.required_project.id,
            filters=[_with_number(comparison) for comparison in parse_filter(request.filter, SEARCHABLE)],
            order=_attributes_only(request.order),
            deleted=STATES[request.state],
            offset=offset,
            limit=request.limit + 1,
        )
        more = len(rows) > request.limit
        return declared.Experiments(
            items=tuple(self._shown(context, rows[: request.limit])),
            next=cursor_at(offset + request.limit, *this) if more else "",
        )

    def rename(self, context: Context, request: declared.RenameExperiment) -> declared.Experiment:
        work, project = context.work, context.required_project.id
        store.hold_numbers(work, project)
        require_open_experiment(context, request.experiment)
        namesake = store.find_named(work, project, request.name)
        if namesake is not None and namesake.number != request.experiment:
            raise _taken(context, request.name)
        store.change_experiment(work, project, request.experiment, name=request.name, changed=context.now)
        return self._shown(context, [_found(context, request.experiment)])[0]

    def delete(self, context: Context, request: declared.OneExperiment) -> Nothing:
        return self._move(context, request.experiment, deleted=True)

    def restore(self, context: Context, request: declared.OneExperiment) -> Nothing:
        return self._move(context, request.experiment, deleted=False)

    def tag(self, context: Context, request: declared.TagExperiment) -> Nothing:
        require_open_experiment(context, request.experiment)
        store.set_tag(context.work, context.required_project.id, request.experiment, request.key, request.value)
        return Nothing()

    def untag(self, context: Context, request: declared.UntagExperiment) -> Nothing:
        require_open_experiment(context, request.experiment)
        if not store.drop_tag(context.work, context.required_project.id, request.experiment, request.key):
            raise NotFound(f"The experiment {request.experiment} has no tag {request.key!r}.")
        return Nothing()

    def _move(self, context: Context, number: int, *, deleted: bool) -> Nothing:
        """Hide an experiment with the runs that are not hidden yet, or bring it back with those that went with it."""
        work, project = context.work, context.required_project.id
        store.hold_numbers(work, project)
        if _found(context, number).deleted == deleted:
            state = "active" if deleted else "deleted"
            raise NotFound(f"The project has no {state} experiment {number}.")
        store.change_experiment(work, project, number, deleted=deleted, changed=context.now)
        here, gone = (ACTIVE, WENT_WITH_EXPERIMENT) if deleted else (WENT_WITH_EXPERIMENT, ACTIVE)
        context.facts["runs"] = set_all_deleted(work, project, number, before=here, after=gone)
        return Nothing()

    def _shown(self, context: Context, rows: Any) -> list[declared.Experiment]:
        tags: dict[int, list[Tag]] = {row.number: [] for row in rows}
        for row in store.tags_of(context.work, context.required_project.id, list(tags)):
            tags[row.experiment].append(Tag(key=row.key, value=row.value))
        return [
            declared.Experiment(
                id=row.number,
                name=row.name,
                deleted=bool(row.deleted),
                tags=tuple(tags[row.number]),
                created=Moment(row.created),
                changed=Moment(row.changed),
                created_by=row.created_by,
            )
            for row in rows
        ]


def _found(context: Context, number: int) -> store.Found:
    row = store.find_experiment(context.work, context.required_project.id, number)
    if row is None:
        raise no_experiment(number)
    return row


def _taken(context: Context, name: str) -> Conflict:
    namesake = store.find_named(context.work, context.required_project.id, name)
    hint = "; it is deleted: restore it, or rename it first" if namesake is not None and namesake.deleted else ""
    return Conflict(f"An experiment named {name!r} already exists in this project{hint}.")


def _with_number(comparison: Comparison) -> Comparison:
    """Experiments are numbers here and texts in a filter."""
    if comparison.kind != "attribute" or comparison.key != "experiment_id":
        return comparison
    if comparison.comparator not in ("=", "!=", "IN", "NOT IN"):
        raise Invalid(f"An experiment_id is compared by =, !=, IN or NOT IN, not by {comparison.comparator}.")
    given = comparison.value if isinstance(comparison.value, tuple) else (str(comparison.value),)
    for text in given:
        if not (text.isascii() and text.isdigit() and len(text) <= 16):
            raise Invalid(f"{text[:100]!r} is no experiment_id; those are numbers, like '4'.")
    numbers: Any = tuple(int(text) for text in given)
    value = numbers if isinstance(comparison.value, tuple) else numbers[0]
    return Comparison(kind="attribute", key="experiment_id", comparator=comparison.comparator, value=value)


def _attributes_only(order: tuple[str, ...]) -> Any:
    parsed = parse_order(order, SEARCHABLE)
    for one in parsed:
        if one.kind != "attribute":
            possible = ", ".join(sorted(SEARCHABLE.texts | SEARCHABLE.numbers))
            raise Invalid(f"Experiments are ordered by {possible}, not by the {one.kind} {one.key[:100]!r}.")
    return parsed
