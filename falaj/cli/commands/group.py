"""`falaj group`: roles that groups of the identity provider bring, in a project or on the platform."""

from typing import Annotated

import typer

from falaj.base.values import Nothing
from falaj.cli.command import Commands
from falaj.cli.layout import listing, sentence
from falaj.cli.terminal import Terminal
from falaj.governance.identity.member_operations import (
    LIST_GROUPS,
    LIST_PLATFORM_GROUPS,
    MAP_GROUP,
    MAP_PLATFORM_GROUP,
    UNMAP_GROUP,
    UNMAP_PLATFORM_GROUP,
    GroupRole,
    OfProject,
    ProjectGroupRole,
)
from falaj.governance.roles import Role

commands = Commands("Roles that groups of the identity provider bring.")
Named = Annotated[str, typer.Argument(help="The group, as the identity provider names it.", show_default=False)]
Held = Annotated[Role, typer.Argument(help="The role.", show_default=False)]
Where = Annotated[str, typer.Option("--project", help="The project; without it, the platform itself.", show_default=False)]


@commands.command("map")
def map_group(terminal: Terminal, group: Named, role: Held, project: Where = "") -> None:
    """Give everybody in a group a role, from their next sign-in.

    Example: falaj group map risk-team scientist --project fraud
    """
    if project:
        terminal.run(MAP_GROUP, ProjectGroupRole(project=project, group=group, role=role))
    else:
        terminal.run(MAP_PLATFORM_GROUP, GroupRole(group=group, role=role))


@commands.command("unmap")
def unmap_group(terminal: Terminal, group: Named, role: Held, project: Where = "") -> None:
    """Take back the role that a group brings; it goes at once.

    Example: falaj group unmap risk-team scientist --project fraud
    """
    said = sentence(lambda _: f"{group} no longer brings {role}.")
    if project:
        terminal.run(UNMAP_GROUP, ProjectGroupRole(project=project, group=group, role=role), said)
    else:
        terminal.run(UNMAP_PLATFORM_GROUP, GroupRole(group=group, role=role), said)


@commands.command("list")
def list_groups(terminal: Terminal, project: Where = "") -> None:
    """List the groups that bring roles.

    Example: falaj group list --project fraud
    """
    columns = listing("group", "role")
    if project:
        terminal.run(LIST_GROUPS, OfProject(project=project), columns)
    else:
        terminal.run(LIST_PLATFORM_GROUPS, Nothing(), columns)
