"""`falaj comment`: what members of a project say about experiments, runs, models and versions."""

from typing import Annotated

import typer

from falaj.cli.choosing import InProject, OfThing, an_id, project_of, thing_of
from falaj.cli.command import Commands, Cursor, Limit
from falaj.cli.layout import Layout, sentence, tell_of_more
from falaj.cli.terminal import Terminal
from falaj.collaboration.operations.comments import (
    ADD_COMMENT,
    DELETE_COMMENT,
    EDIT_COMMENT,
    LIST_COMMENTS,
    AddComment,
    Comments,
    EditComment,
    ListComments,
    OneComment,
)
from falaj.collaboration.operations.words import Kind

commands = Commands("Comments on experiments, runs, models and versions.")
OfKind = Annotated[Kind, typer.Argument(help="What is talked about.", show_default=False)]
OfComment = Annotated[str, typer.Argument(help="The comment's id.", show_default=False, callback=an_id("comment"))]
Words = Annotated[str, typer.Argument(help="Plain text; @name mentions a member of the project.", show_default=False)]


@commands.command("add")
def add(terminal: Terminal, kind: OfKind, thing: OfThing, text: Words, project: InProject = "") -> None:
    """Comment on an experiment, a run, a model or a version. Whom it mentions gets a notice.

    Example: falaj comment add version card-fraud/3 "@maryam the recall fell on small sums" --project fraud
    """
    chosen = project_of(terminal, project)
    request = AddComment(project=chosen, kind=kind, thing=thing_of(terminal, chosen, kind, thing), text=text)
    terminal.run(ADD_COMMENT, request, sentence(lambda it: f"Commented on {it.thing.label or it.thing.id} ({it.id})."))


@commands.command("list")
def list_comments(
    terminal: Terminal, kind: OfKind, thing: OfThing, project: InProject = "", limit: Limit = 100, cursor: Cursor = ""
) -> None:
    """List the comments on one thing, oldest first.

    Example: falaj comment list version card-fraud/3 --project fraud
    """
    chosen = project_of(terminal, project)
    about = thing_of(terminal, chosen, kind, thing)
    request = ListComments(project=chosen, kind=kind, thing=about, limit=limit, cursor=cursor)
    terminal.run(LIST_COMMENTS, request, _comments)


@commands.command("edit")
def edit(terminal: Terminal, comment: OfComment, text: Words, project: InProject = "") -> None:
    """Change your own comment.

    Example: falaj comment edit 0199a1b2c3d4e5f60718293a4b5c6d7e "on sums below 10" --project fraud
    """
    request = EditComment(project=project_of(terminal, project), comment=comment, text=text)
    terminal.run(EDIT_COMMENT, request, sentence(lambda _: "Changed."))


@commands.command("delete")
def delete(terminal: Terminal, comment: OfComment, project: InProject = "") -> None:
    """Delete your own comment.

    Example: falaj comment delete 0199a1b2c3d4e5f60718293a4b5c6d7e --project fraud
    """
    request = OneComment(project=project_of(terminal, project), comment=comment)
    terminal.run(DELETE_COMMENT, request, sentence(lambda _: "Deleted."))


def _comments(layout: Layout, page: Comments) -> None:
    rows = ([one.created, one.author.name or one.author.id, one.text, one.id] for one in page.items)
    layout.table(["at", "by", "text", "id"], rows)
    tell_of_more(page)
