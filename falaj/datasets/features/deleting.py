"""Deleting views. Nothing of one can be read from that moment on; its rows leave the online store a little later, and so does
what was logged of it."""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Final, Protocol

from falaj.base.caller import Identity
from falaj.base.clock import DAY, Moment
from falaj.base.errors import Conflict, Forbidden, NotFound
from falaj.base.ids import PrincipalId
from falaj.database.binding import Bound, bind
from falaj.database.work import Context, Database, UnitOfWork
from falaj.datasets.features import store
from falaj.datasets.features.definitions import columns_of, definition_of, required_view, view_of
from falaj.datasets.features.serving import Online
from falaj.datasets.online.views import OnlineView
from falaj.datasets.operations import features as declared
from falaj.datasets.store import kept_features
from falaj.datasets.store.tables import Found
from falaj.governance.gate import project_facts
from falaj.governance.projects.store import project_by_id
from falaj.keys.errors import KeyDestroyed, KeyNotFound

SERVED_KEPT: Final = 30 * DAY
AT_ONCE: Final = 20
LOGGED_AT_ONCE: Final = 1000
MOST_LOGGED: Final = 100_000  # calls of one version of a view: whoever asks without end does not fill the disk


class ViewUsers(Protocol):
    """Who needs versions of views, by their ids: in words such as `endpoint 'scores'`. Other rooms know."""

    def __call__(self, work: UnitOfWork, views: Sequence[str], /) -> Sequence[str]: ...


def nobody(_work: UnitOfWork, _views: Sequence[str]) -> Sequence[str]:
    """Of a platform without rooms that use views."""
    return ()


class DeleteService:
    def __init__(self, users: ViewUsers) -> None:
        self._users = users

    def bindings(self) -> list[Bound]:
        return [bind(declared.DELETE_VIEW, self.delete)]

    def delete(self, context: Context, request: declared.DeleteView) -> declared.DeletedViews:
        found = required_view(context, request.view)
        one = "@" in request.view
        rows = [found] if one else list(store.living(context.work, context.required_project.id, found.name))
        if users := tuple(self._users(context.work, [row.id for row in rows])):
            raise Conflict(
                f"Feature view {request.view!r} is needed by {', '.join(users[:5])}{' and others' if len(users) > 5 else ''}: "
                "deploy without it, or delete those first."
            )
        for row in rows:
            store.change(context.work, row.id, deleted=context.now)
        context.facts["views"] = [row.id for row in rows]
        return declared.DeletedViews(views=tuple(f"{row.name}@{row.version}" for row in rows))


class Forgetting:
    """Thread-safe. `kept` is how long it is kept what was served, in microseconds."""

    def __init__(self, database: Database, online: Online, kept: int) -> None:
        self._database = database
        self._online = online
        self._kept = kept

    def step(self, now: Moment) -> bool:
        """One round; whether there is more."""
        old = Moment(now - self._kept)
        gone = self._database.write(lambda work: kept_features.forget_served(work, old, LOGGED_AT_ONCE))
        for crowd in self._database.read(lambda work: kept_features.crowded(work, MOST_LOGGED)):
            more = min(crowd.calls - MOST_LOGGED, LOGGED_AT_ONCE)
            forgotten = self._database.write(partial(kept_features.forget_oldest, view=crowd.view, count=more))
            gone = max(gone, forgotten)
        places = self._database.read(lambda work: kept_features.places_of_deleted(work, AT_ONCE))
        for place in places:
            self._drop(place, now)
        return gone == LOGGED_AT_ONCE or len(places) == AT_ONCE

    def _drop(self, place: Found, now: Moment) -> None:
        """Of a dataset that was deleted no more than was made of it: one of the same name may be materialised by now. Rows that
        nothing can open any more, since their key or their zone is gone, stay as they are."""
        with suppress(KeyDestroyed, KeyNotFound, Forbidden, NotFound):
            online = self._database.read(lambda work: self._opened(work, place, now))
            last = Moment(max(place.of or 0, place.begun or 0) + 1)
            online.drop() if place.view_deleted is not None else online.drop(before=last)
        self._database.write(lambda work: kept_features.drop_place_as_it_was(work, place))

    def _opened(self, work: UnitOfWork, place: Found, now: Moment) -> OnlineView:
        project = project_by_id(work, place.project)
        if project is None:
            raise NotFound("The project of these rows is gone.")
        nobody = Identity(principal=PrincipalId(""), kind="process", name="features", token=None, zone="")
        context = Context(work=work, identity=nobody, project=project_facts(project), now=now, request_id="", facts={})
        view = view_of("", definition_of(place))
        return self._online.view(context, place.view, view, place.zone, columns_of(place.columns))
