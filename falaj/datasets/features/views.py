"""Feature views as such: defined, listed and shown. That one can be computed is found out before it counts."""

import dataclasses

from falaj.base.errors import Conflict, Invalid
from falaj.base.ids import new_id
from falaj.base.pages import page_of, read_text_cursor
from falaj.database.binding import Bound, bind, bind_prepared
from falaj.database.work import Context, Database
from falaj.datasets.features import store
from falaj.datasets.features.definitions import columns_text, defined, definition_text, required_view, view_of
from falaj.datasets.features.derived import DerivedViews
from falaj.datasets.features.showing import MILLION, views_shown
from falaj.datasets.features.working import FeatureWorkers
from falaj.datasets.mentions import split
from falaj.datasets.operations import features as declared
from falaj.datasets.views import required_dataset, required_version, schema_of
from falaj.tables.joining.views import checked
from falaj.tables.schemas import Schema


class ViewService:
    def __init__(self, database: Database, workers: FeatureWorkers, derived: DerivedViews) -> None:
        self._database = database
        self._derived = derived
        self._workers = workers

    def bindings(self) -> list[Bound]:
        return [
            bind_prepared(declared.APPLY_VIEW, self.check, self.apply),
            bind(declared.LIST_VIEWS, self.list),
            bind(declared.SHOW_VIEW, self.show),
        ]

    def check(self, context: Context, request: declared.ApplyView) -> Schema:
        """The columns it will have."""
        view = checked(view_of(request.view, defined(request)))
        definition = defined(request)
        if definition.derived:
            found = self._workers.check(view, self._derived.columns(context, request.view, definition))
            self._derived.rows_of(context, request.view, definition)
            return found
        if not request.dataset or request.inputs:
            raise Invalid(f"View {request.view!r} is over nothing: name a dataset, or SQL or a function of some.")
        schema = self._database.read(lambda work: _schema(dataclasses.replace(context, work=work), request.dataset))
        return self._workers.check(view, schema)

    def apply(self, context: Context, request: declared.ApplyView, found: Schema) -> declared.FeatureView:
        project, definition = context.required_project.id, definition_text(defined(request))
        before, columns = store.find(context.work, project, request.view), columns_text(found.columns)
        logged = round(request.log * MILLION)
        if before is not None and before.definition == definition:
            store.change(context.work, before.id, description=request.description, columns=columns, logged=logged)
        else:
            row = {
                "id": new_id(context.now),
                "project": project,
                "name": request.view,
                "version": store.last_version(context.work, project, request.view) + 1,
                "definition": definition,
                "description": request.description,
                "columns": columns,
                "created": context.now,
                "created_by": context.identity.principal,
                "logged": logged,
            }
            if not store.add(context.work, row):
                raise Conflict(f"View {request.view!r} was changed by somebody else at the same moment; look, and apply again.")
        made = required_view(context, request.view)
        context.facts.update(view=made.id, number=made.version)
        return views_shown(context, [made])[0]

    def list(self, context: Context, request: declared.ListViews) -> declared.FeatureViews:
        after = read_text_cursor(request.cursor)
        rows = store.list_after(context.work, context.required_project.id, after, request.limit + 1)
        page, following = page_of(rows, request.limit, lambda row: (row.name,))
        return declared.FeatureViews(items=views_shown(context, page), next=following)

    def show(self, context: Context, request: declared.OneView) -> declared.FeatureView:
        return views_shown(context, [required_view(context, request.view)])[0]


def _schema(context: Context, reference: str) -> Schema:
    name, word = split(reference)
    return schema_of(required_version(context, required_dataset(context, name), word))
