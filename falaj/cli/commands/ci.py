"""`falaj ci`: the gates of a version in any CI system: a table, an exit status, and JUnit's XML."""

import re
from pathlib import Path
from typing import Annotated, Final

import typer

from falaj.base.errors import Conflict, Invalid
from falaj.cli import ci_files
from falaj.cli import gate_looks as looks
from falaj.cli.choosing import InProject, project_of
from falaj.cli.command import Commands
from falaj.cli.gate_runs import begun, followed, gates_of
from falaj.cli.terminal import Terminal

commands = Commands("Gates in CI systems.")
INIT: Final = "init"


@commands.command("ci")
def ci(
    terminal: Terminal,
    model: Annotated[
        str,
        typer.Argument(
            help="MODEL:VERSION or MODEL@ALIAS; MODEL alone is its champion. `init` writes a file for a CI system.",
            show_default=False,
        ),
    ],
    name: Annotated[str, typer.Argument(help="With init: the model to look at.", show_default=False)] = "",
    gates: Annotated[
        list[str] | None, typer.Option("--gates", help="Only these, separated by commas. Repeatable.", show_default="all")
    ] = None,
    junit: Annotated[
        Path | None, typer.Option(help="Where to write what came out, as JUnit's XML.", metavar="FILE", show_default=False)
    ] = None,
    folder: Annotated[
        Path, typer.Option("--folder", help="The folder that tests and commands are run on.", metavar="DIR")
    ] = Path(),
    timeout: Annotated[float, typer.Option(help="How long to wait for all of them, in seconds.", min=1)] = 3600.0,
    github: Annotated[bool, typer.Option("--github", help="With init: write a workflow of GitHub Actions.")] = False,
    gitlab: Annotated[bool, typer.Option("--gitlab", help="With init: write a pipeline of GitLab.")] = False,
    force: Annotated[bool, typer.Option("--force", help="With init: replace a file that is there.")] = False,
    project: InProject = "",
) -> None:
    """Run the gates of a version, and end with 1 where one is not passed. What is not over in time is not passed.

    Example: falaj ci churn:3 --gates tests,quality --junit gates.xml --project fraud

    Example: falaj ci init churn --github
    """
    systems = [system for system, chosen in (("github", github), ("gitlab", gitlab)) if chosen]
    if model == INIT or systems:
        _init(terminal, model, name, systems, project, force=force)
        return
    if name:
        raise Invalid(f"{name!r} is too much: name the version as MODEL:VERSION.")
    chosen = project_of(terminal, project)
    runs = followed(terminal, chosen, begun(terminal, chosen, model, gates_of(gates), folder), timeout)
    if junit is not None:
        junit.parent.mkdir(parents=True, exist_ok=True)
        junit.write_bytes(looks.junit(runs))
    terminal.show(runs, looks.results)
    if not runs.passed:
        raise typer.Exit(1)


def _init(terminal: Terminal, word: str, model: str, systems: list[str], project: str, *, force: bool) -> None:
    if word != INIT or not model or not systems:
        raise Invalid("Say what to write for which model: falaj ci init MODEL --github, or --gitlab.")
    if not re.fullmatch(r"[A-Za-z0-9 ._@:-]+", model):
        raise Invalid(
            f"{model!r} has letters that a CI file would read as something else; rename the model, or write it by hand."
        )
    chosen = project_of(terminal, project)
    files = {system: Path(ci_files.PLACES[system]) for system in systems}
    if there := [str(path) for path in files.values() if path.exists() and not force]:
        raise Conflict(f"There is a {there[0]} already; say --force to replace it.")
    for system, path in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(ci_files.written(system, model, chosen), encoding="utf-8")
    written = [str(path) for path in files.values()]
    trains = "" if Path(ci_files.PIPELINE).exists() else f" There is no {ci_files.PIPELINE} here, so it trains nothing."
    given = "FALAJ_URL, FALAJ_PACKAGE (such as the wheel's address), and FALAJ_TOKEN of a service account"
    words = f"Wrote {', '.join(written)}. Give it {given}.{trains}"
    terminal.told({"written": written}, words)
