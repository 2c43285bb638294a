"""`falaj activity`: what was done lately in a project."""

from falaj.cli.choosing import InProject, project_of
from falaj.cli.command import Commands, Cursor, Limit
from falaj.cli.layout import Layout, tell_of_more
from falaj.cli.terminal import Terminal
from falaj.collaboration.operations.activity import LIST_ACTIVITY, Activity, ListActivity

commands = Commands("What was done lately in a project.")


@commands.command("activity")
def activity(terminal: Terminal, project: InProject = "", limit: Limit = 50, cursor: Cursor = "") -> None:
    """List what was changed in a project, newest first.

    Example: falaj activity --project fraud
    """
    request = ListActivity(project=project_of(terminal, project), limit=limit, cursor=cursor)
    terminal.run(LIST_ACTIVITY, request, _happenings)


def _happenings(layout: Layout, page: Activity) -> None:
    rows = []
    for one in page.items:
        thing = f"{one.thing.kind} {one.thing.label or one.thing.id}" if one.thing else ""
        often = f" ({one.times} times)" if one.times > 1 else ""
        rows.append([one.at, one.by.name or one.by.id, one.did + often, thing])
    layout.table(["at", "who", "did", "what"], rows)
    tell_of_more(page)
