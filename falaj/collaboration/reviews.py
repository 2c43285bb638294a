"""Reviews: asked of one member, answered by that member alone. They are advice, and decide nothing."""

from collections.abc import Sequence
from typing import Any

from falaj.base.clock import Moment
from falaj.base.errors import Conflict, Forbidden, Invalid, NotFound
from falaj.base.ids import new_id
from falaj.base.pages import page_of, read_text_cursor
from falaj.collaboration.notices import notify
from falaj.collaboration.operations import reviews as declared
from falaj.collaboration.people import persons, required_member
from falaj.collaboration.store import reviews as store
from falaj.collaboration.store.notices import mark_read, remove_notices
from falaj.collaboration.things import Named, Things
from falaj.database.binding import Bound, bind
from falaj.database.work import Context


class ReviewService:
    def __init__(self, things: Things) -> None:
        self._things = things

    def bindings(self) -> list[Bound]:
        return [
            bind(declared.REQUEST_REVIEW, self.request),
            bind(declared.ANSWER_REVIEW, self.answer),
            bind(declared.WITHDRAW_REVIEW, self.withdraw),
            bind(declared.LIST_REVIEWS, self.list),
        ]

    def request(self, context: Context, request: declared.RequestReview) -> declared.Review:
        thing = Named(self._things, context).required(request.kind, request.thing)
        asked = required_member(context, request.whom).id
        if asked == context.identity.principal:
            raise Invalid("A review is somebody else's view: ask another member of the project.")
        id = new_id(context.now)
        row = {
            "id": id,
            "project": context.required_project.id,
            "kind": thing.kind,
            "thing": thing.id,
            "asked_by": context.identity.principal,
            "asked": asked,
            "note": request.note,
            "state": store.OPEN,
            "answer": "",
            "created": context.now,
            "answered": None,
        }
        if not store.add_review(context.work, row):
            raise Conflict(f"{request.whom!r} has an open review of this {thing.kind} already; withdraw it to ask anew.")
        notify(context, asked, "review-request", kind=thing.kind, thing=thing.id, about=id)
        context.facts.update(review=id, principal=asked)
        return self._show(context, id)

    def answer(self, context: Context, request: declared.AnswerReview) -> declared.Review:
        row = _required(context, request.review)
        if row.asked != context.identity.principal:
            raise Forbidden("Only who was asked answers a review; you can comment.", rule="review.asked")
        self._close(context, row, request.verdict, request.note)
        mark_read(context.work, context.required_project.id, row.asked, about=row.id)
        notify(context, row.asked_by, "review-answer", kind=row.kind, thing=row.thing, about=row.id)
        return self._show(context, row.id)

    def withdraw(self, context: Context, request: declared.OneReview) -> declared.Review:
        row = _required(context, request.review)
        if row.asked_by != context.identity.principal:
            raise Forbidden("Only who asked for a review withdraws it.", rule="review.asked-by")
        self._close(context, row, "withdrawn", "")
        remove_notices(context.work, row.id)
        return self._show(context, row.id)

    def list(self, context: Context, request: declared.ListReviews) -> declared.Reviews:
        if bool(request.thing) != bool(request.kind):
            raise Invalid("A thing is named by its kind and its id together: say both, or neither.")
        me = context.identity.principal
        rows = store.list_reviews(
            context.work,
            context.required_project.id,
            asked=me if request.whose == "mine-to-answer" else "",
            asked_by=me if request.whose == "mine-asked" else "",
            state=request.state,
            kind=request.kind,
            thing=request.thing,
            before=read_text_cursor(request.cursor),
            limit=request.limit + 1,
        )
        page, following = page_of(rows, request.limit, lambda row: (row.id,))
        return declared.Reviews(items=self._shown(context, page), next=following)

    def _close(self, context: Context, row: Any, state: declared.ReviewState, answer: str) -> None:
        if not store.close_review(context.work, row.id, state=state, answer=answer, now=context.now):
            raise Conflict("This review is closed: it was answered or withdrawn before.")
        context.facts.update(kind=row.kind, thing=row.thing)

    def _show(self, context: Context, id: str) -> declared.Review:
        return self._shown(context, [_required(context, id)])[0]

    def _shown(self, context: Context, rows: Sequence[Any]) -> tuple[declared.Review, ...]:
        known = persons(context.work, (id for row in rows for id in (row.asked, row.asked_by)))
        named = Named(self._things, context)
        return tuple(
            declared.Review(
                id=row.id,
                thing=named.thing(row.kind, row.thing),
                asked_by=known[row.asked_by],
                asked=known[row.asked],
                note=row.note,
                state=row.state,
                answer=row.answer,
                created=Moment(row.created),
                answered=None if row.answered is None else Moment(row.answered),
            )
            for row in rows
        )


def _required(context: Context, id: str) -> Any:
    row = store.review_with_id(context.work, context.required_project.id, id)
    if row is None:
        raise NotFound(f"This project has no review {id!r}.")
    return row
