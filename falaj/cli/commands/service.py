"""`falaj service`: service accounts, which belong to a project."""

from typing import Annotated

import typer

from falaj.cli.command import Commands, Cursor, Limit, Project
from falaj.cli.layout import listing, sentence
from falaj.cli.terminal import Terminal
from falaj.governance.identity.operations import (
    CREATE_SERVICE,
    CREATE_SERVICE_TOKEN,
    DISABLE_SERVICE,
    ENABLE_SERVICE,
    LIST_SERVICE_TOKENS,
    LIST_SERVICES,
    REVOKE_SERVICE_TOKEN,
    SHOW_SERVICE,
    CreateService,
    CreateServiceToken,
    ListServices,
    ListServiceTokens,
    OneService,
    RevokeServiceToken,
)
from falaj.governance.roles import Role

commands = Commands("Service accounts of projects.")
tokens = commands.group("token", "A service account's tokens.")
Account = Annotated[str, typer.Argument(help="The account's name.", show_default=False)]


@commands.command("create")
def create(
    terminal: Terminal,
    project: Project,
    name: Account,
    role: Annotated[Role, typer.Option(help="Its first role in the project.", show_default=False)],
    description: Annotated[str, typer.Option(help="What it is for.", show_default=False)] = "",
) -> None:
    """Add a service account to a project.

    Example: falaj service create fraud nightly --role engineer
    """
    terminal.run(CREATE_SERVICE, CreateService(project=project, name=name, role=role, description=description))


@commands.command("list")
def list_services(terminal: Terminal, project: Project, limit: Limit = 100, cursor: Cursor = "") -> None:
    """List a project's service accounts.

    Example: falaj service list fraud
    """
    request = ListServices(project=project, limit=limit, cursor=cursor)
    terminal.run(LIST_SERVICES, request, listing("name", "roles", "description", "disabled", "created"))


@commands.command("show")
def show(terminal: Terminal, project: Project, service: Account) -> None:
    """Show one service account.

    Example: falaj service show fraud nightly
    """
    terminal.run(SHOW_SERVICE, OneService(project=project, service=service))


@commands.command("disable")
def disable(terminal: Terminal, project: Project, service: Account) -> None:
    """Shut a service account out; every token of it stops at once.

    Example: falaj service disable fraud nightly
    """
    said = sentence(lambda it: f"{it.name} is shut out.")
    terminal.run(DISABLE_SERVICE, OneService(project=project, service=service), said)


@commands.command("enable")
def enable(terminal: Terminal, project: Project, service: Account) -> None:
    """Let a disabled service account in again. Old tokens stay revoked.

    Example: falaj service enable fraud nightly
    """
    said = sentence(lambda it: f"{it.name} may come in again.")
    terminal.run(ENABLE_SERVICE, OneService(project=project, service=service), said)


@tokens.command("create")
def create_token(
    terminal: Terminal,
    project: Project,
    service: Account,
    label: Annotated[str, typer.Option(help="What it is for.", show_default=False)] = "",
    scope: Annotated[
        list[str] | None, typer.Option(help="A permission or a group it is narrowed to. Repeatable.", metavar="SCOPE")
    ] = None,
    zone: Annotated[str, typer.Option(help="The zone the account runs in.", show_default=False)] = "",
    days: Annotated[int, typer.Option(help="How long it lives; 0 is as long as the profile allows.", min=0)] = 0,
) -> None:
    """Make a token for a service account. It is shown this once.

    Example: falaj service token create fraud nightly --days 30
    """
    request = CreateServiceToken(project=project, service=service, label=label, scopes=tuple(scope or ()), zone=zone, days=days)
    terminal.run(CREATE_SERVICE_TOKEN, request)


@tokens.command("list")
def list_tokens(terminal: Terminal, project: Project, service: Account, limit: Limit = 100, cursor: Cursor = "") -> None:
    """List a service account's tokens.

    Example: falaj service token list fraud nightly
    """
    request = ListServiceTokens(project=project, service=service, limit=limit, cursor=cursor)
    terminal.run(LIST_SERVICE_TOKENS, request, listing("id", "label", "scopes", "zone", "expires", "revoked", "last_used"))


@tokens.command("revoke")
def revoke_token(
    terminal: Terminal,
    project: Project,
    service: Account,
    token: Annotated[str, typer.Argument(help="The token's id.", show_default=False)],
) -> None:
    """Revoke a service account's token; it fails from the next call on.

    Example: falaj service token revoke fraud nightly 0199...
    """
    request = RevokeServiceToken(project=project, service=service, token=token)
    terminal.run(REVOKE_SERVICE_TOKEN, request, sentence(lambda _: "Revoked."))
