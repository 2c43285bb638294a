"""Owners: whom to ask about an experiment, a run or a model."""

from typing import Any

from falaj.base.clock import Moment
from falaj.base.errors import Invalid
from falaj.base.pages import page_of, read_cursor
from falaj.collaboration.operations import owners as declared
from falaj.collaboration.people import persons, required_member
from falaj.collaboration.store import owners as store
from falaj.collaboration.things import Named, Things
from falaj.database.binding import Bound, bind
from falaj.database.work import Context


class OwnerService:
    def __init__(self, things: Things) -> None:
        self._things = things

    def bindings(self) -> list[Bound]:
        return [bind(declared.SET_OWNER, self.set), bind(declared.LIST_OWNERS, self.list)]

    def set(self, context: Context, request: declared.SetOwner) -> declared.Ownership:
        project = context.required_project.id
        thing = Named(self._things, context).required(request.kind, request.thing)
        if not request.owner:
            store.remove_owner(context.work, project=project, kind=thing.kind, thing=thing.id)
            return declared.Ownership(thing=thing, owner=None, since=context.now)
        owner = required_member(context, request.owner).id
        context.facts["principal"] = owner
        store.set_owner(context.work, project=project, kind=thing.kind, thing=thing.id, principal=owner, now=context.now)
        return declared.Ownership(thing=thing, owner=persons(context.work, [owner])[owner], since=context.now)

    def list(self, context: Context, request: declared.ListOwners) -> declared.Ownerships:
        if request.thing and not request.kind:
            raise Invalid("A thing is named by its kind and its id together: say the kind too.")
        after = ("", "")
        if request.cursor:
            kind, thing = read_cursor(request.cursor, str, str)
            after = (str(kind), str(thing))
        rows = store.owned(
            context.work,
            context.required_project.id,
            principal=required_member(context, request.owner).id if request.owner else "",
            kind=request.kind,
            thing=request.thing,
            after=after,
            limit=request.limit + 1,
        )
        page, following = page_of(rows, request.limit, lambda row: (row.kind, row.thing))
        known, named = persons(context.work, (row.principal for row in page)), Named(self._things, context)

        def shown(row: Any) -> declared.Ownership:
            thing = named.thing(row.kind, row.thing)
            return declared.Ownership(thing=thing, owner=known[row.principal], since=Moment(row.since))

        return declared.Ownerships(items=tuple(shown(row) for row in page), next=following)
