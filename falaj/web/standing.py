"""What is worth showing to whom.

The console asks only what the caller's roles promise, because every refusal leaves a leaf and a page should not accuse its
reader. Nothing is decided here: the gatekeeper decides, on every call.
"""

from typing import Final

from falaj.base.operation import Group
from falaj.base.values import value
from falaj.governance.identity.operations import Me
from falaj.governance.roles import Role

_READ: Final = frozenset({Group.READ})
_TALK: Final = frozenset({Group.READ, Group.DISCUSS})
BRINGS: Final = {
    Role.VIEWER: _READ,
    Role.SCIENTIST: _TALK | {Group.WRITE, Group.PERSONAL},
    Role.ENGINEER: _TALK | {Group.WRITE, Group.PERSONAL, Group.DEPLOY},
    Role.OPERATOR: _TALK | {Group.OPERATE},
    Role.VALIDATOR: _TALK | {Group.APPROVE},
    Role.AUDITOR: _TALK | {Group.AUDIT},
    Role.ADMIN: _TALK | {Group.WRITE, Group.PERSONAL, Group.DEPLOY, Group.OPERATE, Group.AUDIT, Group.ADMINISTER},
}


@value
class Standing:
    """The reader of a page."""

    me: Me

    def may(self, group: Group, project: str = "") -> bool:
        """Whether a role promises this, on the platform or in a project."""
        roles = [held.role for held in self.me.roles if held.project == project] if project else self.me.platform_roles
        return any(group in BRINGS[role] for role in roles) or self._by_platform_role(group, project)

    def _by_platform_role(self, group: Group, project: str) -> bool:
        held = set(self.me.platform_roles)
        administers = group == Group.ADMINISTER and Role.ADMIN in held
        audits = group == Group.AUDIT and Role.AUDITOR in held
        return bool(project) and (administers or audits)

    @property
    def audited_projects(self) -> tuple[str, ...]:
        return tuple(sorted({held.project for held in self.me.roles if Group.AUDIT in BRINGS[held.role]}))
