"""`falaj zone`: places under a jurisdiction."""

from typing import Annotated

import typer

from falaj.cli.command import Commands, Cursor, Limit
from falaj.cli.layout import listing, sentence
from falaj.cli.terminal import Terminal
from falaj.governance.zones.operations import (
    CREATE_ZONE,
    DELETE_ZONE,
    LIST_ZONES,
    SHOW_ZONE,
    UPDATE_ZONE,
    CreateZone,
    ListZones,
    OneZone,
    UpdateZone,
)

commands = Commands("Zones: places under a jurisdiction, with their storage and engines.")
Zone = Annotated[str, typer.Argument(help="The zone's name.", show_default=False)]
COUNTRY = "Its country, two capital letters."
STORAGE = "One of the storages in falaj.toml."
JURISDICTION = "A law it is under, e.g. uae or gdpr. Repeatable."
ENGINE = "An engine that runs work there. Repeatable."


@commands.command("create")
def create(
    terminal: Terminal,
    name: Zone,
    country: Annotated[str, typer.Option(help=COUNTRY, show_default=False)],
    storage: Annotated[str, typer.Option(help=STORAGE)] = "local",
    jurisdiction: Annotated[list[str] | None, typer.Option(help=JURISDICTION, metavar="TAG")] = None,
    engine: Annotated[list[str] | None, typer.Option(help=ENGINE, metavar="ENGINE")] = None,
) -> None:
    """Declare a zone.

    Example: falaj zone create frankfurt --country DE --jurisdiction gdpr
    """
    terminal.run(
        CREATE_ZONE,
        CreateZone(
            name=name, country=country, storage=storage, jurisdictions=tuple(jurisdiction or ()), engines=tuple(engine or ())
        ),
    )


@commands.command("list")
def list_zones(terminal: Terminal, limit: Limit = 100, cursor: Cursor = "") -> None:
    """List zones.

    Example: falaj zone list
    """
    columns = listing("name", "country", "jurisdictions", "storage", "engines", "created")
    terminal.run(LIST_ZONES, ListZones(limit=limit, cursor=cursor), columns)


@commands.command("show")
def show(terminal: Terminal, zone: Zone) -> None:
    """Show one zone.

    Example: falaj zone show frankfurt
    """
    terminal.run(SHOW_ZONE, OneZone(zone=zone))


@commands.command("update")
def update(
    terminal: Terminal,
    zone: Zone,
    country: Annotated[str | None, typer.Option(help=COUNTRY)] = None,
    storage: Annotated[str | None, typer.Option(help=STORAGE)] = None,
    jurisdiction: Annotated[list[str] | None, typer.Option(help=JURISDICTION, metavar="TAG")] = None,
    engine: Annotated[list[str] | None, typer.Option(help=ENGINE, metavar="ENGINE")] = None,
) -> None:
    """Change a zone; what is left out stays, and one that projects use cannot move.

    Example: falaj zone update frankfurt --jurisdiction gdpr --jurisdiction dora
    """
    terminal.run(
        UPDATE_ZONE,
        UpdateZone(
            zone=zone,
            country=country,
            storage=storage,
            jurisdictions=tuple(jurisdiction) if jurisdiction else None,
            engines=tuple(engine) if engine else None,
        ),
    )


@commands.command("delete")
def delete(terminal: Terminal, zone: Zone) -> None:
    """Remove a zone that no project uses.

    Example: falaj zone delete frankfurt
    """
    terminal.run(DELETE_ZONE, OneZone(zone=zone), sentence(lambda _: f"Zone {zone} is removed."))
