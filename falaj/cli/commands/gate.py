"""`falaj gate`: what a version has to show before it is promoted, defined by operators, run by everybody."""

from pathlib import Path
from typing import Annotated, Any

import typer

from falaj.base.errors import Invalid
from falaj.cli import gate_looks as looks
from falaj.cli.choosing import InProject, OfVersion, project_of, version_of
from falaj.cli.command import Commands, Cursor, Limit
from falaj.cli.commands.deploy import meant
from falaj.cli.gate_files import read_gate_file
from falaj.cli.gate_runs import begun, followed, gates_of
from falaj.cli.layout import Layout
from falaj.cli.terminal import Terminal, read_text
from falaj.lifecycle.operations.gates import (
    APPLY_GATES,
    KNOW_PACKAGES,
    LIST_GATES,
    READ_RESULTS,
    REQUIRE_GATES,
    SHOW_GATE,
    Gates,
    KnowPackages,
    ListGates,
    OneGate,
    PackagesKnown,
    ReadResults,
    Require,
)
from falaj.registry.operations.evidence import READ_EVIDENCE, ReadEvidence
from falaj.registry.operations.words import CHAMPION

commands = Commands("Gates: what a version has to show before it is promoted.")
OfModelVersion = Annotated[
    str, typer.Argument(metavar="MODEL", help="MODEL:VERSION or MODEL@ALIAS; MODEL alone is its champion.", show_default=False)
]
Chosen = Annotated[
    list[str] | None, typer.Option("--gates", help="Only these, separated by commas. Repeatable.", show_default="all")
]
Folder = Annotated[Path, typer.Option("--folder", help="The folder that tests and commands are run on.", metavar="DIR")]


@commands.command("apply")
def apply(
    terminal: Terminal,
    file: Annotated[str, typer.Argument(help="A TOML file with all gates; - is standard input.", show_default=False)],
    project: InProject = "",
) -> None:
    """Define all gates of a project, and which are required for which alias. What is not in the file any more is gone.

    A gate that stays as it is keeps the evidence it has; one that is changed has to be passed anew.

    Example: falaj gate apply gates.toml --project fraud
    """
    folder = Path(file).parent if file != "-" else Path.cwd()
    request = read_gate_file(read_text(file), project=project_of(terminal, project), folder=folder)
    terminal.run(APPLY_GATES, request, looks.gates)


@commands.command("list")
def list_gates(terminal: Terminal, project: InProject = "") -> None:
    """List the gates of a project, and what is required for which alias.

    Example: falaj gate list --project fraud
    """
    terminal.run(LIST_GATES, ListGates(project=project_of(terminal, project)), looks.gates)


@commands.command("show")
def show(
    terminal: Terminal,
    gate: Annotated[str, typer.Argument(help="The gate's name.", show_default=False)],
    project: InProject = "",
) -> None:
    """Show a gate as it is defined now.

    Example: falaj gate show quality --project fraud
    """
    terminal.run(SHOW_GATE, OneGate(project=project_of(terminal, project), gate=gate), looks.gate)


@commands.command("require")
def require(
    terminal: Terminal,
    model: Annotated[str, typer.Argument(help="The registered model's name; - is every model.", show_default=False)],
    gates: Annotated[
        list[str] | None, typer.Argument(help="The gates that are needed; none lets it free.", show_default=False)
    ] = None,
    alias: Annotated[str, typer.Option(help="The alias or stage.")] = CHAMPION,
    project: InProject = "",
) -> None:
    """Say which gates a version must have passed to get an alias, instead of those that were required before.

    Example: falaj gate require churn quality signature --alias champion --project fraud
    """
    named = "" if model == "-" else model
    request = Require(project=project_of(terminal, project), model=named, alias=alias, gates=tuple(gates or ()))
    terminal.run(REQUIRE_GATES, request, _required)


def _required(layout: Layout, found: Gates) -> None:
    for one in found.require:
        layout.line(f"For {one.alias} of {one.model or 'every model'}: {', '.join(one.gates)}.")
    if not found.require:
        layout.line("No gates are required any more.")


@commands.command("run")
def run(
    terminal: Terminal,
    model: OfModelVersion,
    gates: Chosen = None,
    folder: Folder = Path(),
    follow: Annotated[bool, typer.Option("--follow/--no-follow", help="Wait until all are over.")] = True,
    timeout: Annotated[float, typer.Option(help="How long to wait, in seconds.", min=1)] = 3600.0,
    project: InProject = "",
) -> None:
    """Run gates of a version. Ends with 1 where one is not passed.

    Example: falaj gate run churn:3 --gates quality,signature --project fraud
    """
    chosen = project_of(terminal, project)
    runs = begun(terminal, chosen, model, gates_of(gates), folder)
    if follow:
        runs = followed(terminal, chosen, runs, timeout)
    terminal.show(runs, looks.results)
    if follow and not runs.passed:
        raise typer.Exit(1)


@commands.command("results")
def results(terminal: Terminal, model: OfModelVersion, project: InProject = "") -> None:
    """Say how the last run of each gate of a version went, or how far it is.

    Example: falaj gate results churn:3 --project fraud
    """
    name, version, alias = meant(model)
    request = ReadResults(project=project_of(terminal, project), model=name, version=version, alias=alias)
    terminal.run(READ_RESULTS, request, looks.results)


@commands.command("evidence")
def evidence(
    terminal: Terminal,
    model: Annotated[str, typer.Argument(help="The registered model's name.", show_default=False)],
    version: OfVersion,
    gate: Annotated[str, typer.Option(help="Only of this gate.", show_default="every gate")] = "",
    project: InProject = "",
    limit: Limit = 100,
    cursor: Cursor = "",
) -> None:
    """Show all that gates ever found of a version, newest first, and what of it counts for a promotion.

    With --json the figures are there as well.

    Example: falaj gate evidence churn 3 --gate quality --project fraud
    """
    chosen = project_of(terminal, project)
    number = version_of(terminal, chosen, model, version)
    request = ReadEvidence(project=chosen, model=model, version=number, gate=gate, limit=limit, cursor=cursor)
    terminal.run(READ_EVIDENCE, request, looks.evidence)


@commands.command("advisories")
def advisories(
    terminal: Terminal,
    file: Annotated[Path, typer.Argument(help="Advisories by OSV or pip-audit, as JSON.", show_default=False)],
    licences: Annotated[
        bool, typer.Option("--licences", help="The file has licences, by pip-licenses or CycloneDX, as JSON.")
    ] = False,
    project: InProject = "",
) -> None:
    """Tell what is known of packages, instead of what was told before: the platform asks nobody on the network.

    Example: falaj gate advisories osv-pypi.json --project fraud
    """
    about: Any = "licence" if licences else "advisory"
    if not file.is_file():
        raise Invalid(f"There is no file {str(file)!r}.")
    request = KnowPackages(project=project_of(terminal, project), about=about)
    made = terminal.call(KNOW_PACKAGES, request, chunks=[file.read_bytes()], patience=600.0)
    terminal.show(made, _known)


def _known(layout: Layout, made: PackagesKnown) -> None:
    what = "Licences" if made.about == "licence" else "Advisories"
    layout.line(f"{what} of {made.packages:,} packages are known now ({made.digest[:12]}).")
