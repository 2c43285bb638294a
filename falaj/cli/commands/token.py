"""`falaj token`: one's own API tokens."""

import shlex
from functools import partial
from typing import Annotated

import typer

from falaj.base.errors import Invalid
from falaj.cli.command import Commands, Cursor, Limit
from falaj.cli.layout import Layout, fields, listing, sentence
from falaj.cli.terminal import Terminal
from falaj.governance.identity.operations import (
    CREATE_TOKEN,
    EXCHANGE_TOKEN,
    LIST_TOKENS,
    REVOKE_TOKEN,
    CreateToken,
    ExchangeToken,
    ListTokens,
    NewToken,
    RevokeToken,
)

commands = Commands("Your API tokens.")
Scopes = Annotated[
    list[str] | None, typer.Option("--scope", help="A permission or a group it is narrowed to. Repeatable.", metavar="SCOPE")
]
Projects = Annotated[
    list[str] | None,
    typer.Option("--project", help="A project it reaches; none means all of yours. Repeatable.", metavar="PROJECT"),
]
Zone = Annotated[str, typer.Option(help="The zone it is used in.", show_default=False)]


@commands.command("create")
def create(
    terminal: Terminal,
    label: Annotated[str, typer.Argument(help="What it is for.", show_default=False)] = "",
    scopes: Scopes = None,
    projects: Projects = None,
    zone: Zone = "",
    days: Annotated[int, typer.Option(help="How long it lives; 0 is as long as the profile allows.", min=0)] = 0,
    export: Annotated[
        bool, typer.Option("--export", help="Print what a shell evaluates, so that mlflow finds the platform.")
    ] = False,
    bare: Annotated[bool, typer.Option("--bare", help="Print the token and nothing else.")] = False,
) -> None:
    """Make a token with at most the power of the one you use. It is shown this once.

    In a shell: eval "$(falaj token create notebook --export)"

    Example: falaj token create notebook --project fraud --scope read --days 30
    """
    if export and bare:
        raise Invalid("--export and --bare print the same in two ways; give one of them.")
    request = CreateToken(label=label, scopes=tuple(scopes or ()), projects=tuple(projects or ()), zone=zone, days=days)
    shown = sentence(lambda made: made.token) if bare else fields
    terminal.run(CREATE_TOKEN, request, partial(_exports, terminal.access.url) if export else shown)


@commands.command("list")
def list_tokens(terminal: Terminal, limit: Limit = 100, cursor: Cursor = "") -> None:
    """List your tokens and sessions.

    Example: falaj token list
    """
    columns = listing("id", "kind", "label", "scopes", "projects", "zone", "expires", "revoked", "last_used")
    terminal.run(LIST_TOKENS, ListTokens(limit=limit, cursor=cursor), columns)


@commands.command("revoke")
def revoke(
    terminal: Terminal,
    token: Annotated[str, typer.Argument(help="The token's id.", show_default=False)],
    alone: Annotated[bool, typer.Option("--alone", help="Leave the tokens that were made with it.")] = False,
) -> None:
    """Revoke one of your tokens, and those that were made with it; they fail from the next call on.

    Example: falaj token revoke 0199...
    """
    terminal.run(REVOKE_TOKEN, RevokeToken(token=token, descendants=not alone), sentence(lambda _: "Revoked."))


@commands.command("exchange")
def exchange(
    terminal: Terminal,
    scopes: Scopes = None,
    projects: Projects = None,
    zone: Zone = "",
    seconds: Annotated[int, typer.Option(help="How long it lives; 0 is as long as the profile allows.", min=0)] = 0,
) -> None:
    """Exchange your token for a short-lived signed one with at most its power, for a process.

    Example: falaj token exchange --project fraud --scope read --seconds 300 --json
    """
    request = ExchangeToken(scopes=tuple(scopes or ()), projects=tuple(projects or ()), zone=zone, seconds=seconds)
    terminal.run(EXCHANGE_TOKEN, request)


def _exports(url: str, layout: Layout, made: NewToken) -> None:
    layout.line(f"export MLFLOW_TRACKING_URI={shlex.quote(url)}")
    layout.line(f"export MLFLOW_TRACKING_TOKEN={shlex.quote(made.token)}")
