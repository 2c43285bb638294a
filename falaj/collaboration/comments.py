"""Comments: written by anybody who may, changed by their author alone."""

from collections.abc import Sequence
from typing import Any

from falaj.base.clock import Moment
from falaj.base.errors import Forbidden, Invalid, NotFound
from falaj.base.ids import new_id
from falaj.base.pages import page_of, read_text_cursor
from falaj.base.values import Nothing
from falaj.collaboration.mentions import Mention, Spoken, cut, put_back
from falaj.collaboration.notices import notify
from falaj.collaboration.operations import comments as declared
from falaj.collaboration.operations.words import Person
from falaj.collaboration.people import find_member, persons
from falaj.collaboration.store import comments as store
from falaj.collaboration.store.notices import remove_notices
from falaj.collaboration.things import Named, Things
from falaj.database.binding import Bound, bind
from falaj.database.work import Context


class CommentService:
    def __init__(self, things: Things) -> None:
        self._things = things

    def bindings(self) -> list[Bound]:
        return [
            bind(declared.ADD_COMMENT, self.add),
            bind(declared.LIST_COMMENTS, self.list),
            bind(declared.EDIT_COMMENT, self.edit),
            bind(declared.DELETE_COMMENT, self.delete),
            bind(declared.REMOVE_COMMENT, self.remove),
        ]

    def add(self, context: Context, request: declared.AddComment) -> declared.Comment:
        thing = Named(self._things, context).required(request.kind, request.thing)
        spoken = _heard(context, request.text)
        id = new_id(context.now)
        row = {
            "id": id,
            "project": context.required_project.id,
            "kind": thing.kind,
            "thing": thing.id,
            "author": context.identity.principal,
            "text": spoken.text,
            "created": context.now,
            "edited": None,
        }
        store.add_comment(context.work, row, spoken.mentions)
        return self._said(context, id, spoken)

    def list(self, context: Context, request: declared.ListComments) -> declared.Comments:
        Named(self._things, context).required(request.kind, request.thing)
        after, project = read_text_cursor(request.cursor), context.required_project.id
        rows = store.comments_on(context.work, project, request.kind, request.thing, after=after, limit=request.limit + 1)
        page, following = page_of(rows, request.limit, lambda row: (row.id,))
        return declared.Comments(items=self._shown(context, page), next=following)

    def edit(self, context: Context, request: declared.EditComment) -> declared.Comment:
        _own(context, request.comment)
        spoken = _heard(context, request.text)
        store.change_comment(context.work, request.comment, text=spoken.text, mentioned=spoken.mentions, now=context.now)
        return self._said(context, request.comment, spoken)

    def delete(self, context: Context, request: declared.OneComment) -> Nothing:
        return self._remove(context, _own(context, request.comment))

    def remove(self, context: Context, request: declared.OneComment) -> Nothing:
        row = _required(context, request.comment)
        context.facts["principal"] = row.author
        return self._remove(context, row)

    def _remove(self, context: Context, row: Any) -> Nothing:
        context.facts.update(_place(row))
        store.remove_comment(context.work, row.id)
        remove_notices(context.work, row.id)
        return Nothing()

    def _said(self, context: Context, id: str, spoken: Spoken) -> declared.Comment:
        """What was just written, once those whom it mentions were told."""
        row = _required(context, id)
        mentioned = tuple(dict.fromkeys(mention.principal for mention in spoken.mentions))
        for principal in mentioned:
            notify(context, principal, "mention", kind=row.kind, thing=row.thing, about=id)
        context.facts.update(_place(row))
        context.facts["comment"] = id
        context.facts["mentions"] = list(mentioned)
        return self._shown(context, [row])[0]

    def _shown(self, context: Context, rows: Sequence[Any]) -> tuple[declared.Comment, ...]:
        mentioned = store.mentions_in(context.work, [row.id for row in rows])
        principals = {mention.principal for mentions in mentioned.values() for mention in mentions}
        known = persons(context.work, principals | {row.author for row in rows})
        named = Named(self._things, context)
        return tuple(
            declared.Comment(
                id=row.id,
                thing=named.thing(row.kind, row.thing),
                author=known[row.author],
                text=spoken_text(row.text, mentioned.get(row.id, ()), known),
                mentions=tuple({mention.principal: known[mention.principal] for mention in mentioned.get(row.id, ())}.values()),
                created=Moment(row.created),
                edited=None if row.edited is None else Moment(row.edited),
            )
            for row in rows
        )


def spoken_text(text: str, mentions: Sequence[Mention], known: dict[str, Person]) -> str:
    """The text as it reads today."""
    return put_back(text, mentions, {id: person.name for id, person in known.items()})


def _heard(context: Context, text: str) -> Spoken:
    if not text.strip():
        raise Invalid("A comment says something: this one is empty.")

    def find(name: str) -> str | None:
        found = find_member(context, name)
        return None if found is None else found.id

    return cut(text, find)


def _place(row: Any) -> dict[str, str]:
    """What the comment is on, for the record of calls that name the comment alone."""
    return {"kind": row.kind, "thing": row.thing}


def _required(context: Context, id: str) -> Any:
    row = store.comment_with_id(context.work, context.required_project.id, id, hold=True)
    if row is None:
        raise NotFound(f"This project has no comment {id!r}; it may have been deleted.")
    return row


def _own(context: Context, id: str) -> Any:
    row = _required(context, id)
    if row.author != context.identity.principal:
        raise Forbidden("Only its author changes or deletes a comment; an administrator can remove it.", rule="comment.author")
    return row
