"""`falaj policy`: rules beyond the roles, in a project or on the whole platform, and why a call is allowed or refused."""

from typing import Annotated

import typer

from falaj.base.errors import NotFound
from falaj.base.values import Nothing
from falaj.cli.command import Commands
from falaj.cli.layout import Layout, listing, sentence
from falaj.cli.terminal import Terminal, read_text
from falaj.governance.policies.operations import (
    DELETE_PLATFORM_POLICY,
    DELETE_POLICY,
    EXPLAIN,
    LIST_PLATFORM_POLICIES,
    LIST_POLICIES,
    PUT_PLATFORM_POLICY,
    PUT_POLICY,
    SHOW_POLICY,
    Explain,
    Explanation,
    ListPolicies,
    OnePlatformPolicy,
    OnePolicy,
    PolicyView,
    PutPlatformPolicy,
    PutPolicy,
)

commands = Commands("Rules beyond the roles, and why a call is allowed or refused.")
Policy = Annotated[str, typer.Argument(help="The policy's name.", show_default=False)]
Where = Annotated[str, typer.Option("--project", help="The project; without it, the platform itself.", show_default=False)]


@commands.command("list")
def list_policies(terminal: Terminal, project: Where = "") -> None:
    """List a project's policies, or those that hold everywhere.

    Example: falaj policy list --project fraud
    """
    columns = listing("name", "rule", "changed")
    if project:
        terminal.run(LIST_POLICIES, ListPolicies(project=project), columns)
    else:
        terminal.run(LIST_PLATFORM_POLICIES, Nothing(), columns)


@commands.command("show")
def show(terminal: Terminal, policy: Policy, project: Where = "") -> None:
    """Show a policy's text; policies that hold everywhere may also be named by their rule.

    Example: falaj policy show no-exports --project fraud
    """
    if project:
        terminal.run(SHOW_POLICY, OnePolicy(project=project, policy=policy), _text)
        return
    found = terminal.call(LIST_PLATFORM_POLICIES, Nothing()).items
    for item in found:
        if policy in (item.name, item.rule):
            terminal.show(item, _text)
            return
    raise NotFound(f"No policy that holds everywhere is called {policy}; `falaj policy list` has them all.")


@commands.command("put")
def put(
    terminal: Terminal,
    policy: Policy,
    file: Annotated[str, typer.Argument(help="A file with one Cedar policy; - reads standard input.", show_default=False)],
    project: Where = "",
) -> None:
    """Add or replace a policy.

    Example: falaj policy put no-exports no-exports.cedar --project fraud
    """
    text = read_text(file)
    said = sentence(lambda it: f"Policy {it.name} holds from now on; refusals call it {it.rule}.")
    if project:
        terminal.run(PUT_POLICY, PutPolicy(project=project, policy=policy, text=text), said)
    else:
        terminal.run(PUT_PLATFORM_POLICY, PutPlatformPolicy(policy=policy, text=text), said)


@commands.command("delete")
def delete(terminal: Terminal, policy: Policy, project: Where = "") -> None:
    """Remove a policy.

    Example: falaj policy delete no-exports --project fraud
    """
    said = sentence(lambda _: f"Policy {policy} is removed.")
    if project:
        terminal.run(DELETE_POLICY, OnePolicy(project=project, policy=policy), said)
    else:
        terminal.run(DELETE_PLATFORM_POLICY, OnePlatformPolicy(policy=policy), said)


@commands.command("explain")
def explain(
    terminal: Terminal,
    action: Annotated[str, typer.Argument(help="An operation or a permission, e.g. blob.put.", show_default=False)],
    project: Annotated[str, typer.Option(help="The project it would touch.", show_default=False)] = "",
    principal: Annotated[str, typer.Option(help="Somebody else, by name or id.", show_default=False)] = "",
    zone: Annotated[str, typer.Option(help="The zone it would write to.", show_default=False)] = "",
    caller_zone: Annotated[str, typer.Option(help="The zone the caller would run in.", show_default=False)] = "",
) -> None:
    """Say whether a call would be allowed, and which policies decide that.

    Example: falaj policy explain blob.put --project fraud --principal maryam
    """
    request = Explain(action=action, principal=principal, project=project, zone=zone, caller_zone=caller_zone)
    terminal.run(EXPLAIN, request, _explanation)


def _text(layout: Layout, policy: PolicyView) -> None:
    layout.line(policy.text.rstrip())


def _explanation(layout: Layout, found: Explanation) -> None:
    layout.line("allowed" if found.allowed else "refused", style="green" if found.allowed else "red")
    layout.pairs(
        [
            ("permission", f"{found.permission} ({found.group})"),
            ("roles", found.roles),
            ("platform roles", found.platform_roles),
            *([("trouble", found.trouble)] if found.trouble else []),
        ]
    )
    if not found.deciding:
        layout.line("No policy permits it.")
    for rule in found.deciding:
        layout.line()
        layout.line(f"decided by {rule.rule}:")
        layout.line(rule.text.rstrip())
