"""`falaj review`: a colleague's advice on a run or a version. Approving a promotion is `falaj model approve`."""

from typing import Annotated, Literal

import typer

from falaj.cli.choosing import InProject, OfThing, an_id, project_of, thing_of
from falaj.cli.command import Commands, Cursor, Limit
from falaj.cli.layout import Layout, sentence, tell_of_more
from falaj.cli.terminal import Terminal
from falaj.collaboration.operations.reviews import (
    ANSWER_REVIEW,
    LIST_REVIEWS,
    REQUEST_REVIEW,
    WITHDRAW_REVIEW,
    AnswerReview,
    ListReviews,
    OneReview,
    RequestReview,
    Review,
    ReviewedKind,
    Reviews,
    ReviewStateOrNone,
    Verdict,
    Whose,
)

commands = Commands("Reviews: a colleague's advice on a run or a version.")
OfReview = Annotated[str, typer.Argument(help="The review's id.", show_default=False, callback=an_id("review"))]
Note = Annotated[str, typer.Option(help="A word with it.", show_default=False)]


@commands.command("request")
def request(
    terminal: Terminal,
    kind: Annotated[ReviewedKind, typer.Argument(help="What is to be reviewed.", show_default=False)],
    thing: OfThing,
    whom: Annotated[str, typer.Argument(help="The member who is asked.", show_default=False)],
    note: Note = "",
    project: InProject = "",
) -> None:
    """Ask a member of the project to review a run or a version.

    Example: falaj review request version card-fraud/3 maryam --note "before the audit" --project fraud
    """
    chosen = project_of(terminal, project)
    about = thing_of(terminal, chosen, kind, thing)
    terminal.run(REQUEST_REVIEW, RequestReview(project=chosen, kind=kind, thing=about, whom=whom, note=note), _one)


@commands.command("answer")
def answer(
    terminal: Terminal,
    review: OfReview,
    verdict: Annotated[Verdict, typer.Argument(help="`approve`, or `changes` that should come first.", show_default=False)],
    note: Note = "",
    project: InProject = "",
) -> None:
    """Answer a review that you were asked for.

    Example: falaj review answer 0199a1b2c3d4e5f60718293a4b5c6d7e changes --note "no holdout" --project fraud
    """
    given = AnswerReview(project=project_of(terminal, project), review=review, verdict=verdict, note=note)
    terminal.run(ANSWER_REVIEW, given, _one)


@commands.command("withdraw")
def withdraw(terminal: Terminal, review: OfReview, project: InProject = "") -> None:
    """Withdraw a review that you asked for, while it is open.

    Example: falaj review withdraw 0199a1b2c3d4e5f60718293a4b5c6d7e --project fraud
    """
    terminal.run(WITHDRAW_REVIEW, OneReview(project=project_of(terminal, project), review=review), _one)


@commands.command("list")
def list_reviews(
    terminal: Terminal,
    whose: Annotated[Whose, typer.Option(help="All, those you are asked for, or those you asked for.")] = "all",
    state: Annotated[
        Literal["open", "approve", "changes", "withdrawn"] | None, typer.Option(help="Only those in this state.")
    ] = None,
    project: InProject = "",
    limit: Limit = 100,
    cursor: Cursor = "",
) -> None:
    """List reviews, newest first.

    Example: falaj review list --whose mine-to-answer --state open --project fraud
    """
    wish: ReviewStateOrNone = state or ""
    wanted = ListReviews(project=project_of(terminal, project), whose=whose, state=wish, limit=limit, cursor=cursor)
    terminal.run(LIST_REVIEWS, wanted, _reviews)


def _reviews(layout: Layout, page: Reviews) -> None:
    layout.table(
        ["id", "thing", "state", "asked by", "asked", "note", "answer", "created"],
        (
            [
                one.id,
                f"{one.thing.kind} {one.thing.label or one.thing.id}",
                one.state,
                one.asked_by.name or one.asked_by.id,
                one.asked.name or one.asked.id,
                one.note,
                one.answer,
                one.created,
            ]
            for one in page.items
        ),
    )
    tell_of_more(page)


def _told(it: Review) -> str:
    return f"Review {it.id} of {it.thing.kind} {it.thing.label or it.thing.id} by {it.asked.name or it.asked.id}: {it.state}."


_one = sentence(_told)
