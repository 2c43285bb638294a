"""`falaj user`: people, and their roles on the platform itself."""

from typing import Annotated

import typer

from falaj.cli.command import Commands, Cursor, Limit, Yes
from falaj.cli.layout import Layout, fields, listing, sentence
from falaj.cli.places import sign_in_link
from falaj.cli.terminal import Render, Terminal
from falaj.governance.identity.member_operations import (
    ADD_PLATFORM_MEMBER,
    LIST_PLATFORM_MEMBERS,
    REMOVE_PLATFORM_MEMBER,
    ListPlatformMembers,
    PlatformMember,
)
from falaj.governance.identity.operations import (
    CREATE_USER,
    DISABLE_USER,
    ENABLE_USER,
    ERASE_USER,
    INVITE_USER,
    LIST_USERS,
    SHOW_USER,
    CreateUser,
    Invited,
    InviteUser,
    ListUsers,
    OneUser,
)
from falaj.governance.roles import Role

commands = Commands("People.")
roles = commands.group("role", "Roles on the platform itself.")
Person = Annotated[str, typer.Argument(help="The person's name or id.", show_default=False)]
Held = Annotated[Role, typer.Argument(help="The role.", show_default=False)]
Zone = Annotated[str, typer.Option(help="The zone this person works in.", show_default=False)]


@commands.command("create")
def create(
    terminal: Terminal,
    name: Person,
    display: Annotated[str, typer.Option(help="The name as written.", show_default=False)] = "",
    email: Annotated[str, typer.Option(help="The address.", show_default=False)] = "",
    zone: Zone = "",
) -> None:
    """Add a person and make a link for the first sign-in.

    Example: falaj user create maryam --display "Maryam A." --email maryam@example.com
    """
    terminal.run(CREATE_USER, CreateUser(name=name, display=display, email=email, zone=zone), _invitation(terminal))


@commands.command("invite")
def invite(terminal: Terminal, user: Person, zone: Zone = "") -> None:
    """Make another one-time sign-in link for a person.

    Example: falaj user invite maryam
    """
    terminal.run(INVITE_USER, InviteUser(user=user, zone=zone), _invitation(terminal))


@commands.command("list")
def list_users(terminal: Terminal, limit: Limit = 100, cursor: Cursor = "") -> None:
    """List people.

    Example: falaj user list
    """
    columns = listing("name", "display", "email", "platform_roles", "disabled", "created")
    terminal.run(LIST_USERS, ListUsers(limit=limit, cursor=cursor), columns)


@commands.command("show")
def show(terminal: Terminal, user: Person) -> None:
    """Show one person.

    Example: falaj user show maryam
    """
    terminal.run(SHOW_USER, OneUser(user=user))


@commands.command("disable")
def disable(terminal: Terminal, user: Person) -> None:
    """Shut a person out; every token of theirs stops at once.

    Example: falaj user disable maryam
    """
    terminal.run(DISABLE_USER, OneUser(user=user), sentence(lambda it: f"{it.name} is shut out."))


@commands.command("enable")
def enable(terminal: Terminal, user: Person) -> None:
    """Let a disabled person in again; old tokens stay revoked.

    Example: falaj user enable maryam
    """
    terminal.run(ENABLE_USER, OneUser(user=user), sentence(lambda it: f"{it.name} may sign in again."))


@commands.command("erase")
def erase(terminal: Terminal, user: Person, yes: Yes = False) -> None:
    """Remove a person's name, address and tokens for good; the bare id stays in the records.

    What the ledger holds about the person can no longer be told or confirmed; every leaf and every proof stays valid.

    Example: falaj user erase maryam --yes
    """
    terminal.confirm(f"Erase {user}? Nothing brings the name, the address and the tokens back.", yes)
    terminal.run(ERASE_USER, OneUser(user=user), sentence(lambda it: f"Erased; the records go on calling this person {it.id}."))


@roles.command("add")
def add_role(terminal: Terminal, user: Person, role: Held) -> None:
    """Give somebody a role on the platform.

    Example: falaj user role add maryam auditor
    """
    terminal.run(ADD_PLATFORM_MEMBER, PlatformMember(member=user, role=role))


@roles.command("remove")
def remove_role(terminal: Terminal, user: Person, role: Held) -> None:
    """Take a role on the platform back.

    Example: falaj user role remove maryam auditor
    """
    said = sentence(lambda _: f"{user} is no longer {role} of the platform.")
    terminal.run(REMOVE_PLATFORM_MEMBER, PlatformMember(member=user, role=role), said)


@roles.command("list")
def list_roles(terminal: Terminal, limit: Limit = 100, cursor: Cursor = "") -> None:
    """List who holds which role on the platform.

    Example: falaj user role list
    """
    request = ListPlatformMembers(limit=limit, cursor=cursor)
    terminal.run(LIST_PLATFORM_MEMBERS, request, listing("name", "kind", "role", "group", "disabled"))


def _invitation(terminal: Terminal) -> Render:
    def render(layout: Layout, invited: Invited) -> None:
        fields(layout, invited)
        terminal.say(f"Hand this link to that person alone; it works once: {sign_in_link(terminal.access.url, invited.code)}")

    return render
