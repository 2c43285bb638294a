"""`falaj init`: a project with a pipeline that works as it is."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from falaj.base.errors import Invalid
from falaj.cli.command import Commands
from falaj.cli.deferred import Deferred
from falaj.cli.layout import Layout
from falaj.cli.terminal import Terminal

if TYPE_CHECKING:
    from falaj.cli import project_files
else:
    project_files = Deferred("falaj.cli.project_files")

commands = Commands("Projects.")


@commands.command("init")
def init(
    terminal: Terminal,
    folder: Annotated[Path, typer.Argument(help="Where to make it; its name is the project's.", show_default="here")] = Path(),
    tabular: Annotated[bool, typer.Option("--tabular", help="Rows with columns.")] = False,
    image: Annotated[bool, typer.Option("--image", help="Small pictures.")] = False,
) -> None:
    """Make a project that trains continuously: a pipeline, its steps, tests, a CI file. It runs as it is.

    Example: falaj init flights --tabular
    """
    if tabular and image:
        raise Invalid("A project is --tabular or --image, and not both.")
    made, missing = project_files.written(folder, "image" if image else "tabular")
    if missing:
        terminal.say(f"Its steps need what is not installed here ({', '.join(missing)}): pip install 'falaj[convert,tune]'")
    if terminal.as_json:
        terminal.print_json({"folder": str(folder), "files": made})
        return
    layout = Layout()
    for name in made:
        layout.line(name)
    layout.line()
    layout.line(f"Run it with: falaj pipeline run {shlex.quote(str(folder / 'pipeline.py'))}")
