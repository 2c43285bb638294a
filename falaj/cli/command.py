"""How a command is declared: a function that is given a `Terminal` and its own options.

`--json` and `--home` come by themselves.
"""

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperGroup

from falaj.cli.terminal import Terminal

F = TypeVar("F", bound=Callable[..., None])
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
InHome = Annotated[
    Path | None, typer.Option("--home", help="The platform's home.", metavar="DIR", show_default="$FALAJ_HOME or ~/.falaj")
]
COMMON = [
    inspect.Parameter("as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=AsJson),
    inspect.Parameter("home", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=InHome),
]


class Commands:
    """A group of commands."""

    def __init__(self, help: str) -> None:
        self._typer = typer.Typer(
            help=help, rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False, no_args_is_help=True
        )
        self._typer.callback()(_nothing)  # so that it stays a group even with a single command

    def command(self, name: str) -> Callable[[F], F]:
        """Register a function whose first argument is the terminal. Its docstring is the help, with an example."""

        def register(function: F) -> F:
            signature = inspect.signature(function, eval_str=True)
            own = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in signature.parameters.values()][1:]

            @functools.wraps(function)
            def run(*, as_json: bool, home: Path | None, **options: Any) -> None:
                with Terminal(home=home, as_json=as_json) as terminal:
                    function(terminal, **options)

            run.__signature__ = signature.replace(parameters=[*own, *COMMON])  # type: ignore[attr-defined]
            run.__annotations__ = {parameter.name: parameter.annotation for parameter in [*own, *COMMON]}
            self._typer.command(name)(run)
            return function

        return register

    def group(self, name: str, help: str) -> "Commands":
        inner = Commands(help)
        self._typer.add_typer(inner._typer, name=name)
        return inner

    def built(self) -> TyperGroup:
        return typer.main.get_group(self._typer)


def _nothing() -> None: ...


# Options that many commands share.
Limit = Annotated[int, typer.Option(help="How many to list.", min=1, max=1000)]
Cursor = Annotated[str, typer.Option(help="Go on where a listing ended.", show_default=False)]
Project = Annotated[str, typer.Argument(help="The project's name.", show_default=False)]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
