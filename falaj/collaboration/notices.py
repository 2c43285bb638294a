"""Notices: what others addressed to somebody. Everybody reads their own."""

from typing import Any, Final

from falaj.base.clock import Moment
from falaj.base.ids import new_id
from falaj.base.pages import page_of, read_text_cursor
from falaj.collaboration.mentions import put_back
from falaj.collaboration.operations import notices as declared
from falaj.collaboration.people import persons
from falaj.collaboration.store import comments, reviews
from falaj.collaboration.store import notices as store
from falaj.collaboration.things import Named, Things
from falaj.database.binding import Bound, bind
from falaj.database.work import Context

LONGEST_EXCERPT: Final = 200


def notify(context: Context, principal: str, notice: declared.NoticeKind, *, kind: str, thing: str, about: str) -> None:
    """Tell somebody, unless it is the caller; about the same comment or review only once."""
    if principal == context.identity.principal:
        return
    row = {
        "id": new_id(context.now),
        "project": context.required_project.id,
        "principal": principal,
        "kind": notice,
        "thing_kind": kind,
        "thing": thing,
        "by": context.identity.principal,
        "about": about,
        "at": context.now,
        "read": False,
    }
    store.add_notice(context.work, row)


class NoticeService:
    def __init__(self, things: Things) -> None:
        self._things = things

    def bindings(self) -> list[Bound]:
        return [bind(declared.LIST_NOTICES, self.list), bind(declared.MARK_READ, self.mark_read)]

    def list(self, context: Context, request: declared.ListNotices) -> declared.Notices:
        project, me, before = context.required_project.id, context.identity.principal, read_text_cursor(request.cursor)
        rows = store.list_notices(context.work, project, me, unread=request.unread, before=before, limit=request.limit + 1)
        page, following = page_of(rows, request.limit, lambda row: (row.id,))
        known, named = persons(context.work, (row.by for row in page)), Named(self._things, context)
        excerpts = _excerpts(context, {row.about for row in page})
        items = tuple(
            declared.Notice(
                id=row.id,
                kind=row.kind,
                thing=named.thing(row.thing_kind, row.thing),
                by=known[row.by],
                about=row.about,
                excerpt=excerpts.get((row.about, row.kind), ""),
                at=Moment(row.at),
                read=bool(row.read),
            )
            for row in page
        )
        return declared.Notices(items=items, unread=store.count_unread(context.work, project, me), next=following)

    def mark_read(self, context: Context, request: declared.MarkRead) -> declared.Marked:
        project, me = context.required_project.id, context.identity.principal
        store.mark_read(context.work, project, me, ids=request.notices)
        return declared.Marked(unread=store.count_unread(context.work, project, me))


def _excerpts(context: Context, about: set[str]) -> dict[tuple[str, str], str]:
    """How what the notices are about begins, by id and kind of notice."""
    if not about:
        return {}
    work, project = context.work, context.required_project.id
    found: dict[tuple[str, str], str] = {}
    mentioned = comments.mentions_in(work, about)
    names = persons(work, (mention.principal for mentions in mentioned.values() for mention in mentions))
    spoken = {id: person.name for id, person in names.items()}
    for row in comments.comments_with(work, project, about).values():
        found[row.id, "mention"] = _beginning(put_back(row.text, mentioned.get(row.id, ()), spoken))
    for review in reviews.reviews_with(work, project, about).values():
        found[review.id, "review-request"] = _beginning(review.note)
        found[review.id, "review-answer"] = _beginning(review.answer)
    return found


def _beginning(text: Any) -> str:
    return str(text) if len(text) <= LONGEST_EXCERPT else f"{text[: LONGEST_EXCERPT - 1]}…"
