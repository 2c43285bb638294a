"""`falaj import`: bring everything over from an existing MLflow."""

from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from falaj.cli.choosing import InProject, project_of
from falaj.cli.command import Commands
from falaj.cli.deferred import Deferred
from falaj.cli.layout import Layout
from falaj.cli.terminal import Terminal

if TYPE_CHECKING:
    from falaj.cli.importing import counting, journal, steps, target
else:
    counting, journal, steps, target = (
        Deferred(f"falaj.cli.importing.{name}") for name in ("counting", "journal", "steps", "target")
    )

commands = Commands("Bring everything over from another system.")
PATIENCE = 600.0
STOPPED = "Stopped; run the same command again and it goes on where it was."
MOST_TOLD = 20
FROM = "A running server (http://HOST:5000) or its database (sqlite:///FILE, postgresql://USER:PASSWORD@HOST/NAME)."
ARTIFACTS = "For a database: the directory its artifacts lie below; beside a SQLite file by default."
WITHOUT = "For a database: bring no artifacts. Versions of models that are registered so stay without their files."
EXPERIMENTS = "Only this experiment, by name, and the model versions made in it. Repeatable."
STATE = "The file that remembers what is done; one of its own for each source and project by default."


@commands.command("mlflow")
def mlflow(
    terminal: Terminal,
    uri: Annotated[str, typer.Option("--from", help=FROM, metavar="URI", show_default=False)],
    project: InProject = "",
    artifacts: Annotated[Path | None, typer.Option(help=ARTIFACTS, metavar="DIR")] = None,
    without_artifacts: Annotated[bool, typer.Option("--without-artifacts", help=WITHOUT)] = False,
    experiments: Annotated[list[str] | None, typer.Option("--experiment", help=EXPERIMENTS, metavar="NAME")] = None,
    workspace: Annotated[str, typer.Option(help="The workspace there, where it has several.", show_default=False)] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what is there.")] = False,
    state: Annotated[Path | None, typer.Option(help=STATE, metavar="FILE")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Look at everything again, whatever the state says.")] = False,
) -> None:
    """Bring experiments, runs, metrics, artifacts and models over from an existing MLflow.

    It can be cut off at any time: run it again and it goes on, and nothing comes twice. At the end both sides are counted;
    the exit status is 1 when they differ. A server's credentials are read from MLFLOW_TRACKING_TOKEN, or from
    MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD.

    Example: falaj import mlflow --from http://mlflow.example.com:5000 --project fraud
    """
    wanted = experiments or []
    with closing(steps.opened(uri, artifacts=artifacts, workspace=workspace, files=not without_artifacts)) as source:
        if dry_run:
            rows = steps.seen(source, wanted)
            terminal.show(counting.Seen(source=source.label, rows=rows), _seen)
            return
        chosen = project_of(terminal, project)
        steps.check(source, wanted, files=not without_artifacts)
        about = {"source": source.label, "target": terminal.access.url, "project": chosen}
        client = terminal.client_at(terminal.access, patience=PATIENCE)
        try:
            with closing(journal.Journal(state or journal.default_file(about), about, fresh=fresh)) as done:
                report = steps.bring(source, target.Target(client, chosen, source.label), done, wanted)
        except KeyboardInterrupt:
            terminal.say(STOPPED)
            raise typer.Exit(130) from None
    terminal.show(report, partial(_report, chosen))
    if not report.ok:
        raise typer.Exit(1)


def _seen(layout: Layout, seen: "counting.Seen") -> None:
    layout.table(["kind", "there"], ([row.kind, row.there] for row in seen.rows))


def _report(project: str, layout: Layout, report: "counting.Report") -> None:
    layout.table(
        ["kind", "there", "here", ""],
        ([row.kind, row.there, row.here, "same" if row.there == row.here else "differs"] for row in report.rows),
    )
    for failure in report.failures[:MOST_TOLD]:
        layout.line(f"{failure.kind} {failure.id}: {failure.why}", style="red")
    if len(report.failures) > MOST_TOLD:
        layout.line(f"and {len(report.failures) - MOST_TOLD} more failures; --json has them all.")
    for remark in report.remarks:
        layout.line(f"Note: {remark}")
    if report.ok:
        layout.line(f"Everything is in project {project}.", style="green")
    else:
        layout.line("Not everything came over. Mend what is named above and run the same again.", style="bold red")
