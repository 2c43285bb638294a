"""`falaj secret`: what jobs need to know and nobody should read."""

import sys
from typing import Annotated

import typer

from falaj.base.errors import Invalid
from falaj.cli.choosing import InProject, project_of
from falaj.cli.command import Commands, Yes
from falaj.cli.layout import listing
from falaj.cli.terminal import Terminal
from falaj.jobs.operations import secrets as declared

commands = Commands("Secrets that jobs see as variables.")
OfSecret = Annotated[str, typer.Argument(help="Its name, such as LAKE_PASSWORD.", show_default=False)]


@commands.command("set")
def set_secret(terminal: Terminal, name: OfSecret, project: InProject = "") -> None:
    """Keep a secret, which is asked for or read from standard input: a command line is seen by others.

    Example: falaj secret set LAKE_PASSWORD --project fraud
    """
    chosen = project_of(terminal, project)
    value = typer.prompt(name, hide_input=True, err=True) if sys.stdin.isatty() else sys.stdin.read().removesuffix("\n")
    if not value:
        raise Invalid("Nothing was given; write the secret to standard input.")
    done = terminal.call(declared.SET_SECRET, declared.SetSecret(project=chosen, name=name, value=value))
    terminal.told({"name": done.name}, f"{done.name} is kept; a job sees it with --secret {done.name}.")


@commands.command("list")
def list_secrets(terminal: Terminal, project: InProject = "") -> None:
    """List the names of a project's secrets.

    Example: falaj secret list --project fraud
    """
    request = declared.ListSecrets(project=project_of(terminal, project))
    terminal.run(declared.LIST_SECRETS, request, listing("name", "set", "set_by"))


@commands.command("delete")
def delete_secret(terminal: Terminal, name: OfSecret, yes: Yes = False, project: InProject = "") -> None:
    """Forget a secret. Jobs that name it and have not started will fail.

    Example: falaj secret delete LAKE_PASSWORD --yes --project fraud
    """
    chosen = project_of(terminal, project)
    terminal.confirm(f"Delete the secret {name}?", yes)
    terminal.call(declared.DELETE_SECRET, declared.OneSecret(project=chosen, name=name))
    terminal.told({"deleted": name}, f"{name} is deleted.")
