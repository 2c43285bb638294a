"""`falaj project`: projects and their members."""

from typing import Annotated

import typer

from falaj.cli.command import Commands, Cursor, Limit, Project, Yes
from falaj.cli.layout import listing, sentence
from falaj.cli.terminal import Terminal
from falaj.governance.identity.member_operations import (
    ADD_MEMBER,
    LIST_MEMBERS,
    REMOVE_MEMBER,
    AddMember,
    ListMembers,
    RemoveMember,
)
from falaj.governance.projects.operations import (
    CREATE_PROJECT,
    DELETE_PROJECT,
    LIST_PROJECTS,
    RESTORE_PROJECT,
    SHOW_PROJECT,
    UPDATE_PROJECT,
    CreateProject,
    ListProjects,
    OneProject,
    UpdateProject,
)
from falaj.governance.roles import Role

commands = Commands("Projects: who works on what, in which zones.")
members = commands.group("member", "Who holds which role in a project.")
Who = Annotated[str, typer.Argument(help="A person, or a service account of the project.", show_default=False)]
Held = Annotated[Role, typer.Argument(help="The role.", show_default=False)]


@commands.command("create")
def create(
    terminal: Terminal,
    name: Project,
    zone: Annotated[
        list[str],
        typer.Option(help="A zone it may use; the first is its default. Repeatable.", metavar="ZONE", show_default=False),
    ],
    description: Annotated[str, typer.Option(help="What it is for.", show_default=False)] = "",
) -> None:
    """Create a project, with a key of its own; you become its admin.

    Example: falaj project create fraud --zone home
    """
    terminal.run(CREATE_PROJECT, CreateProject(name=name, zones=tuple(zone), description=description))


@commands.command("list")
def list_projects(
    terminal: Terminal,
    archived: Annotated[bool, typer.Option("--archived", help="Archived ones too.")] = False,
    limit: Limit = 100,
    cursor: Cursor = "",
) -> None:
    """List the projects you have a role in.

    Example: falaj project list
    """
    request = ListProjects(archived=archived, limit=limit, cursor=cursor)
    terminal.run(LIST_PROJECTS, request, listing("name", "zones", "roles", "archived", "created"))


@commands.command("show")
def show(terminal: Terminal, project: Project) -> None:
    """Show one project.

    Example: falaj project show fraud
    """
    terminal.run(SHOW_PROJECT, OneProject(project=project))


@commands.command("update")
def update(
    terminal: Terminal,
    project: Project,
    zone: Annotated[
        list[str] | None, typer.Option(help="All the zones it may use from now on. Repeatable.", metavar="ZONE")
    ] = None,
    description: Annotated[str | None, typer.Option(help="What it is for.")] = None,
) -> None:
    """Change a project's zones or description; what is left out stays.

    Example: falaj project update fraud --zone home --zone frankfurt
    """
    zones = tuple(zone) if zone else None
    terminal.run(UPDATE_PROJECT, UpdateProject(project=project, zones=zones, description=description))


@commands.command("delete")
def delete(terminal: Terminal, project: Project, yes: Yes = False) -> None:
    """Archive a project: nothing new happens in it, and its data stays until it is shredded.

    Example: falaj project delete fraud --yes
    """
    terminal.confirm(f"Archive project {project}?", yes)
    terminal.run(DELETE_PROJECT, OneProject(project=project), sentence(lambda it: f"Project {it.name} is archived."))


@commands.command("restore")
def restore(terminal: Terminal, project: Project) -> None:
    """Bring an archived project back.

    Example: falaj project restore fraud
    """
    terminal.run(RESTORE_PROJECT, OneProject(project=project))


@members.command("add")
def add_member(terminal: Terminal, project: Project, member: Who, role: Held) -> None:
    """Give somebody a role in a project.

    Example: falaj project member add fraud maryam scientist
    """
    terminal.run(ADD_MEMBER, AddMember(project=project, member=member, role=role))


@members.command("remove")
def remove_member(terminal: Terminal, project: Project, member: Who, role: Held) -> None:
    """Take a role in a project back.

    Example: falaj project member remove fraud maryam scientist
    """
    said = sentence(lambda _: f"{member} is no longer {role} in {project}.")
    terminal.run(REMOVE_MEMBER, RemoveMember(project=project, member=member, role=role), said)


@members.command("list")
def list_members(terminal: Terminal, project: Project, limit: Limit = 100, cursor: Cursor = "") -> None:
    """List who holds which role in a project.

    Example: falaj project member list fraud
    """
    request = ListMembers(project=project, limit=limit, cursor=cursor)
    terminal.run(LIST_MEMBERS, request, listing("name", "kind", "role", "group", "disabled"))
