"""What the ids of principals are called today, as far as the reader may know.

Whether he may is asked first: a lookup that is refused would itself be recorded, each time somebody reads the ledger.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from falaj.base.errors import FalajError
from falaj.base.values import Nothing
from falaj.cli.terminal import Terminal
from falaj.governance.identity.member_operations import LIST_MEMBERS, ListMembers, Member
from falaj.governance.identity.operations import SHOW_USER, WHOAMI, OneUser
from falaj.governance.ledger.operations import Entry
from falaj.governance.policies.operations import EXPLAIN, Explain
from falaj.governance.projects.operations import LIST_PROJECTS, ListProjects

AT_ONCE = 1000


def names_of(terminal: Terminal, entries: Sequence[Entry], project: str = "") -> dict[str, str]:
    """Id -> name of who is found: oneself, people, and members of the projects that the entries are about.

    `project` is the name of the one they are all about. Service accounts are known as members of theirs.
    """
    names: dict[str, str] = {}
    with suppress(FalajError):  # the entries themselves are told all the same
        _find(terminal, entries, project, names)
    return names


def name_of(terminal: Terminal, project: str, principal: str) -> str:
    """What somebody who did something in a project is called; the id where that cannot be known."""
    with suppress(FalajError):
        me = terminal.call(WHOAMI, Nothing())
        if me.id == principal:
            return me.name
        known = not me.scopes or {EXPLAIN.permission.name, EXPLAIN.permission.group} & set(me.scopes)
        if known and _may(terminal, LIST_MEMBERS.name, project):
            return next((member.name for member in _members(terminal, project) if member.id == principal), principal)
    return principal


def _find(terminal: Terminal, entries: Sequence[Entry], project: str, names: dict[str, str]) -> None:
    me = terminal.call(WHOAMI, Nothing())
    names[me.id] = me.name
    if me.scopes and not {EXPLAIN.permission.name, EXPLAIN.permission.group} & set(me.scopes):
        return  # this token may not even ask what it may
    unknown = {entry.principal for entry in entries if entry.principal} - names.keys()
    if unknown and _may(terminal, SHOW_USER.name):
        for principal in unknown:
            with suppress(FalajError):  # a service account, or gone
                names[principal] = terminal.call(SHOW_USER, OneUser(user=principal)).name
    touched = {entry.project for entry in entries if entry.principal in unknown - names.keys() and entry.project}
    for name in [project] if project and touched else _named(terminal, touched):
        if _may(terminal, LIST_MEMBERS.name, name):
            names |= {member.id: member.name for member in _members(terminal, name)}


def _may(terminal: Terminal, operation: str, project: str = "") -> bool:
    return terminal.call(EXPLAIN, Explain(action=operation, project=project)).allowed


def _named(terminal: Terminal, projects: set[str]) -> list[str]:
    """What the projects with these ids are called."""
    if not projects:
        return []
    there = every(lambda cursor: terminal.call(LIST_PROJECTS, ListProjects(limit=AT_ONCE, cursor=cursor)))
    return [project.name for project in there if project.id in projects]


def _members(terminal: Terminal, project: str) -> Iterator[Member]:
    return every(lambda cursor: terminal.call(LIST_MEMBERS, ListMembers(project=project, limit=AT_ONCE, cursor=cursor)))


def every(read: Callable[[str], Any]) -> Iterator[Any]:
    """The items of all pages."""
    page = read("")
    yield from page.items
    while page.next:
        page = read(page.next)
        yield from page.items
