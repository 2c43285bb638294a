"""What happened lately in a project, told from the ledger to those who may read the project.

Only what changed something and was done; of what is administered, that it happened and nothing more.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final, TypeGuard, get_args

from falaj.base.clock import Moment
from falaj.base.operation import Group, Operation, Record, Scope
from falaj.base.pages import cursor_after, read_cursor
from falaj.base.values import ID_PATTERN, value
from falaj.collaboration.operations import activity as declared
from falaj.collaboration.operations.words import Kind, Person, Thing
from falaj.collaboration.people import persons
from falaj.collaboration.sentences import sentence
from falaj.collaboration.things import Named, Things
from falaj.database.binding import Bound, bind
from falaj.database.work import Context
from falaj.governance.ledger.leaves import Leaf
from falaj.governance.ledger.store import StoredLeaf, Wanted, list_leaves

BATCH: Final = 500
MOST_LOOKED_AT: Final = 10_000  # leaves for one page: a project may have been read a million times since its last change
_OPEN_TO_READERS: Final = (Group.DISCUSS, Group.WRITE, Group.PERSONAL, Group.DEPLOY, Group.OPERATE, Group.APPROVE)


@value
class _Deed:
    """What a leaf says, and how often in a row it was said. `thing` has a label only where it has no id to ask for one by.

    `waits`: it was asked for, and is not done before somebody approves.
    """

    id: str
    at: Moment
    operation: str
    principal: str
    thing: Thing | None
    waits: bool
    times: int = 1

    def is_like(self, other: "_Deed") -> bool:
        mine, others = ((it.operation, it.principal, it.thing, it.waits) for it in (self, other))
        return mine == others


class ActivityService:
    """`operations` are all that the platform has: they say which leaves changed something, and in which words."""

    def __init__(self, things: Things, operations: Iterable[Operation[Any, Any]]) -> None:
        self._things = things
        self._told = {
            operation.name: operation
            for operation in operations
            if operation.record is Record.CHANGE and operation.scope is Scope.PROJECT
        }

    def bindings(self) -> list[Bound]:
        return [bind(declared.LIST_ACTIVITY, self.list)]

    def list(self, context: Context, request: declared.ListActivity) -> declared.Activity:
        after = None
        if request.cursor:
            inserted, id = read_cursor(request.cursor, int, str)
            after = (int(inserted), str(id))
        deeds, last = self._deeds(context, after, request.limit)
        known = persons(context.work, (deed.principal for deed in deeds))
        named = Named(self._things, context)
        items = tuple(
            declared.Happening(
                id=deed.id,
                by=known.get(deed.principal, Person(id=deed.principal)),
                operation=deed.operation,
                did="asked for an approval" if deed.waits else sentence(self._told[deed.operation]),
                thing=named.thing(deed.thing.kind, deed.thing.id) if deed.thing and deed.thing.id else deed.thing,
                times=deed.times,
                at=deed.at,
            )
            for deed in deeds
        )
        return declared.Activity(items=items, next=cursor_after(*last) if last else "")

    def _deeds(
        self, context: Context, after: tuple[int, str] | None, limit: int
    ) -> tuple[Sequence[_Deed], tuple[int, str] | None]:
        """A page, newest first, and the last leaf that it covers; None where there are no older ones."""
        wanted = Wanted(project=context.required_project.id, outcome="done")
        deeds: list[_Deed] = []
        for _ in range(MOST_LOOKED_AT // BATCH):
            batch = list_leaves(context.work, wanted, newest_first=True, after=after, limit=BATCH)
            for stored in batch:
                deed = self._deed(stored)
                if deed is not None and deeds and deed.is_like(deeds[-1]):
                    deeds[-1] = replace(deeds[-1], times=deeds[-1].times + 1)
                elif deed is not None and len(deeds) == limit:
                    return deeds, after
                elif deed is not None:
                    deeds.append(deed)
                after = (stored.columns[1], stored.columns[0])
            if len(batch) < BATCH:
                return deeds, None
        return deeds, after

    def _deed(self, stored: StoredLeaf) -> _Deed | None:
        operation = self._told.get(stored.columns[2])
        if operation is None:
            return None
        leaf = stored.readable()
        return _Deed(
            id=leaf.id,
            at=leaf.inserted,
            operation=operation.name,
            principal=leaf.principal,
            thing=_thing_in(leaf) if operation.permission.group in _OPEN_TO_READERS else None,
            waits="waiting" in leaf.facts,
        )


def _thing_in(leaf: Leaf) -> Thing | None:
    """What the leaf is about, as far as it says so in the clear: personal values stand there as commitments."""
    said = leaf.request | leaf.facts
    if said.get("kind") in get_args(Kind) and isinstance(said.get("thing"), str):
        return Thing(kind=said["kind"], id=said["thing"])
    if _is_id(version := said.get("version")):
        return Thing(kind="version", id=version)
    if _is_id(model := said.get("model")):
        return Thing(kind="model", id=model)
    if isinstance(model, str) and leaf.operation.startswith(("model.", "version.")):
        named_version = isinstance(version, int) and version > 0
        return (
            Thing(kind="version", id="", label=f"{model} v{version}")
            if named_version
            else Thing(kind="model", id="", label=model)
        )
    if _is_id(run := said.get("run") or said.get("holder")):
        return Thing(kind="run", id=run)
    experiment = said.get("experiment")
    return Thing(kind="experiment", id=str(experiment)) if isinstance(experiment, int) else None


def _is_id(text: Any) -> TypeGuard[str]:
    return isinstance(text, str) and re.fullmatch(ID_PATTERN, text) is not None
