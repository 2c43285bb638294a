"""The part of `falaj model` that brings a version into another project: from dev to staging, from staging to production."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Final

import typer

from falaj.base.errors import FalajError, Invalid
from falaj.cli.choosing import InProject, project_of
from falaj.cli.commands.promotions import WAITS, promotion_shown
from falaj.cli.deferred import Deferred
from falaj.cli.layout import Layout
from falaj.cli.terminal import Terminal, as_document, checked
from falaj.cli.transfers import watched
from falaj.governance.projects.operations import SHOW_PROJECT, OneProject
from falaj.registry.operations.models import OneModel
from falaj.registry.operations.promotions import PROMOTE, Promote, Promotion

if TYPE_CHECKING:
    from falaj.client import copying
else:
    copying = Deferred("falaj.client.copying")

PATIENCE: Final = 600.0


def copy(
    terminal: Terminal,
    version: Annotated[
        str, typer.Argument(help="MODEL:VERSION or MODEL@ALIAS; MODEL alone is its champion.", show_default=False)
    ],
    to: Annotated[str, typer.Option(help="The project to bring it to.", metavar="PROJECT", show_default=False)],
    name: Annotated[str, typer.Option("--as", help="What it is called there; as here by default.", show_default=False)] = "",
    promote: Annotated[
        str, typer.Option(help="Then point this alias at it, by the rules there.", metavar="ALIAS", show_default=False)
    ] = "",
    reason: Annotated[str, typer.Option(help="Why it is promoted; it stays on record.", show_default=False)] = "",
    project: InProject = "",
) -> None:
    """Bring a version into another project, with all its files; whoever was interrupted says the same again.

    Each project decides for itself, and has it on record. The exit status is 3 while --promote waits for approval.

    Example: falaj model copy card-fraud@champion --project dev --to production --promote champion
    """
    if reason and not promote:
        raise Invalid("--reason says why a version is promoted: name the alias with --promote, too.")
    chosen = project_of(terminal, project)
    terminal.call(SHOW_PROJECT, OneProject(project=to))  # a name that is misspelled is told before anything is read
    client = terminal.client_at(terminal.access, patience=PATIENCE)
    model, number = copying.named(client, chosen, version)
    checked(OneModel, OneModel(project=to, model=name or model))
    wish = copying.Wish(project=chosen, model=model, version=number, to=to, name=name or model)
    made = copying.copied(client, client, wish, watched)
    if not promote:
        _show(terminal, chosen, made, None)
        return
    try:
        moved = terminal.call(
            PROMOTE, Promote(project=to, model=made.model, alias=promote, version=made.version, reason=reason)
        )
    except FalajError:
        _show(terminal, chosen, made, None)  # it is there, whatever became of the alias
        raise
    _show(terminal, chosen, made, moved)
    if moved.state == "waiting":
        raise typer.Exit(WAITS)


def _show(terminal: Terminal, origin: str, made: "copying.Copied", moved: Promotion | None) -> None:
    if terminal.as_json:
        terminal.print_json(as_document(made) | {"promotion": None if moved is None else as_document(moved)})
        return
    layout, what = Layout(), f"{made.project} has it as {made.model}:{made.version}"
    if made.new:
        layout.line(f"{what}: {made.files} files, {made.size:,} bytes, the same as in {origin}.")
    else:
        layout.line(f"{what} already.")
    if moved is not None:
        promotion_shown(made.project, layout, moved)
    sys.stdout.flush()


COMMANDS: Final[dict[str, Callable[..., None]]] = {"copy": copy}
