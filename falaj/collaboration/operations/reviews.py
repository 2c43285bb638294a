"""What can be done with reviews: a colleague's advice on a run or a version. Approving a promotion is the registry's."""

from typing import Final, Literal

from falaj.base.clock import Moment
from falaj.base.operation import Operation, Record, Scope
from falaj.base.pages import Cursor, Limit
from falaj.base.values import Id, Message, Name, value
from falaj.collaboration.operations.words import READ, WRITE, Person, Remark, Thing, ThingId, ThingOrNone, Whom

ReviewedKind = Literal["run", "version"]
ReviewedKindOrNone = Literal["", "run", "version"]
Verdict = Literal["approve", "changes"]
ReviewState = Literal["open", "approve", "changes", "withdrawn"]
ReviewStateOrNone = Literal["", "open", "approve", "changes", "withdrawn"]
Whose = Literal["all", "mine-to-answer", "mine-asked"]


@value
class RequestReview(Message):
    """`whom` is a member of the project, by name or id, and not oneself."""

    project: Name
    kind: ReviewedKind
    thing: ThingId
    whom: Whom
    note: Remark = ""


@value
class Review(Message):
    """`answered` is when it was answered or withdrawn."""

    id: Id
    thing: Thing
    asked_by: Person
    asked: Person
    note: Remark
    state: ReviewState
    answer: Remark
    created: Moment
    answered: Moment | None


@value
class AnswerReview(Message):
    """`approve`, or `changes` that should come first."""

    project: Name
    review: Id
    verdict: Verdict
    note: Remark = ""


@value
class OneReview(Message):
    project: Name
    review: Id


@value
class ListReviews(Message):
    """`mine-to-answer` are those that others asked me for, `mine-asked` those that I asked for. Kind and thing go together."""

    project: Name
    whose: Whose = "all"
    state: ReviewStateOrNone = ""
    kind: ReviewedKindOrNone = ""
    thing: ThingOrNone = ""
    limit: Limit = 100
    cursor: Cursor = ""


@value
class Reviews(Message):
    items: tuple[Review, ...]
    next: str = ""


REQUEST_REVIEW: Final = Operation(
    name="review.request",
    summary="Ask a member of the project to review a run or a version.",
    method="POST",
    path="projects/{project}/reviews",
    request=RequestReview,
    result=Review,
    permission=WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
ANSWER_REVIEW: Final = Operation(
    name="review.answer",
    summary="Answer a review that you were asked for.",
    method="POST",
    path="projects/{project}/reviews/{review}/answer",
    request=AnswerReview,
    result=Review,
    permission=WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
WITHDRAW_REVIEW: Final = Operation(
    name="review.withdraw",
    summary="Withdraw a review that you asked for, while it is open.",
    method="POST",
    path="projects/{project}/reviews/{review}/withdraw",
    request=OneReview,
    result=Review,
    permission=WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
LIST_REVIEWS: Final = Operation(
    name="review.list",
    summary="List reviews, newest first.",
    method="GET",
    path="projects/{project}/reviews",
    request=ListReviews,
    result=Reviews,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)

OPERATIONS: Final = (REQUEST_REVIEW, ANSWER_REVIEW, WITHDRAW_REVIEW, LIST_REVIEWS)
