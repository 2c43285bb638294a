"""What revisions look up, as the signed state tells it: drawn anew each time, for a view may be kept with other columns since.

A plane gets what opens the rows of just the views that its endpoints look up. It reads them by itself, so that predictions
need the control plane no more than others do.
"""

import json
from collections.abc import Collection, Mapping

from falaj.base.caller import Identity
from falaj.base.clock import Moment
from falaj.base.errors import FalajError
from falaj.base.ids import PrincipalId
from falaj.database.work import Context, UnitOfWork
from falaj.datasets.features.definitions import columns_of, definition_of, view_of
from falaj.datasets.features.lookups import LookupViews, counted
from falaj.datasets.store.classes import classes_of
from falaj.governance.gate import project_facts
from falaj.governance.projects.store import Project, project_by_id
from falaj.serving.states import Field, LookupView
from falaj.serving.store import lookups as store
from falaj.serving.store.tables import Found
from falaj.tables.joining.views import View


class LookupDrawing:
    """Thread-safe."""

    def __init__(self, views: LookupViews) -> None:
        self._views = views

    def of_zone(self, work: UnitOfWork, zone: str, now: Moment) -> dict[str, tuple[LookupView, ...]]:
        """By revision, of those that the zone's state names."""
        found = store.in_zone(work, zone)
        if not found:
            return {}
        rows = [row for some in found.values() for row in some]
        kept = store.kept(work, {row.view for row in rows})
        projects = {id: project_by_id(work, id) for id in {row.project for row in rows}}
        return {
            revision: tuple(self._drawn(work, zone, now, row, kept, projects[row.project]) for row in some)
            for revision, some in found.items()
        }

    def _drawn(
        self, work: UnitOfWork, zone: str, now: Moment, row: Found, kept: Mapping[str, Found], project: Project | None
    ) -> LookupView:
        reference, held = f"{row.name}@{row.version}", kept.get(row.view)
        if project is None or row.deleted is not None or held is None or held.zone != zone:
            return LookupView(reference=reference, problem=f"Nothing of the feature view {reference!r} is kept in {zone!r}.")
        identity = Identity(principal=PrincipalId(""), kind="process", name="serving", token=None, zone=zone)
        context = Context(work=work, identity=identity, project=project_facts(project), now=now, request_id="", facts={})
        columns, view = columns_of(held.columns), view_of(row.name, definition_of(row))
        try:
            _, secrets = self._views.secrets(context, row.view, zone, columns)
        except FalajError as error:  # its key was shredded, or the key ring does not answer: others go on
            return LookupView(reference=reference, problem=str(error))
        wanted, count = tuple(json.loads(row.features)), len(view.keys)
        return LookupView(
            reference=reference,
            keys=tuple(
                Field(name=key.in_labels, type=column.type) for key, column in zip(view.keys, columns[:count], strict=True)
            ),
            features=tuple(Field(name=column.name, type=column.type) for column in columns[count:]),
            wanted=wanted,
            counts=tuple(name for name in counted(view) if name in wanted),
            hidden=_hidden(view, classes_of(work, held.dataset)),
            time_to_live=view.time_to_live,
            place=secrets.place.hex(),
            entities=secrets.entities.hex(),
            seals={version: key.hex() for version, key in secrets.rows.items()},
        )


def _hidden(view: View, classified: Collection[str]) -> tuple[str, ...]:
    """Who may read an endpoint's log need not be allowed to see what is personal or sensitive."""
    keys = (key.in_labels for key in view.keys if key.column in classified)
    return (*keys, *(feature.name for feature in view.features if feature.column in classified))
