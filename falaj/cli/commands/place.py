"""`falaj place`: where data is that stays there."""

import sys
from typing import Annotated, Literal

import typer

from falaj.base.errors import Invalid
from falaj.cli.command import Commands, Cursor, Limit, Yes
from falaj.cli.layout import Layout, brief, sentence, tell_of_more
from falaj.cli.terminal import Terminal
from falaj.datasets.operations import places as declared

commands = Commands("Places: where data is that stays there. An operator declares them.")
Place = Annotated[str, typer.Argument(help="The place's name.", show_default=False)]


@commands.command("set")
def set_place(
    terminal: Terminal,
    place: Place,
    kind: Annotated[Literal["s3", "postgres", "folder"], typer.Option(help="What it is.", show_default=False)],
    zone: Annotated[str, typer.Option(help="The zone that it is in.", show_default=False)],
    project: Annotated[
        list[str], typer.Option(help="A project that may use it. Repeatable.", metavar="PROJECT", show_default=False)
    ],
    bucket: Annotated[str, typer.Option(help="Of s3: the bucket.", show_default=False)] = "",
    prefix: Annotated[str, typer.Option(help="Of s3: nothing outside of it is read.", show_default=False)] = "",
    region: Annotated[str, typer.Option(help="Of s3: its region.", show_default=False)] = "",
    endpoint: Annotated[str, typer.Option(help="Of s3: a service that is not AWS.", show_default=False)] = "",
    host: Annotated[str, typer.Option(help="Of postgres: its host.", show_default=False)] = "",
    port: Annotated[int, typer.Option(help="Of postgres: its port.", min=1, max=65_535)] = 5432,
    database: Annotated[str, typer.Option(help="Of postgres: the database.", show_default=False)] = "",
    tls: Annotated[
        Literal["verify-full", "verify-ca", "require", "prefer", "disable"],
        typer.Option(help="Of postgres: how its certificate is checked."),
    ] = "prefer",
    folder: Annotated[
        str, typer.Option(help="Of folder: its path on the server, below one of data.folders.", show_default=False)
    ] = "",
    user: Annotated[str, typer.Option(help="The user's name, or the access key; without one, none.", show_default=False)] = "",
) -> None:
    """Declare a place, or declare it anew. With --user the password or secret key is asked for, or read from standard input.

    Example: falaj place set lake --kind s3 --bucket company-lake --prefix gold --user AKIA... --zone home --project fraud
    """
    secret = _asked_for() if user else ""
    address = declared.Address(
        bucket=bucket,
        prefix=prefix,
        region=region,
        endpoint=endpoint,
        host=host,
        port=port,
        database=database,
        tls=tls,
        folder=folder,
    )
    request = declared.SetPlace(
        place=place, kind=kind, zone=zone, projects=tuple(project), address=address, user=user, secret=secret
    )
    terminal.run(declared.SET_PLACE, request, sentence(lambda it: f"{it.name} is declared, for {', '.join(it.projects)}."))


def _asked_for() -> str:
    given = typer.prompt("Secret", hide_input=True, err=True) if sys.stdin.isatty() else sys.stdin.read().removesuffix("\n")
    if not given:
        raise Invalid("Nothing was given; write the password or the secret key to standard input.")
    return str(given)


@commands.command("list")
def list_places(terminal: Terminal, limit: Limit = 100, cursor: Cursor = "") -> None:
    """List the places, without what opens them.

    Example: falaj place list
    """
    terminal.run(declared.LIST_PLACES, declared.ListPlaces(limit=limit, cursor=cursor), _listed)


@commands.command("remove")
def remove(terminal: Terminal, place: Place, yes: Yes = False) -> None:
    """Forget a place that no dataset has its rows in. Nothing is touched there.

    Example: falaj place remove lake --yes
    """
    terminal.confirm(f"Forget the place {place}, and what opens it?", yes)
    terminal.run(declared.REMOVE_PLACE, declared.OnePlace(place=place), sentence(lambda _: f"{place} is forgotten."))


def _listed(layout: Layout, page: declared.Places) -> None:
    rows = ([one.name, one.kind, where(one.address), one.zone, one.projects, brief(one.changed)] for one in page.items)
    layout.table(["name", "kind", "where", "zone", "projects", "changed"], rows)
    tell_of_more(page)


def where(address: declared.Address) -> str:
    if address.bucket:
        return f"{address.bucket}/{address.prefix}"
    return address.folder or f"{address.host}:{address.port}/{address.database}"
