"""How a command is declared: a function that is given a `Terminal` and its own options.

`--json` and `--home` come by themselves.
"""

import functools
import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

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
        """Register a function whose first argument is the terminal. Its docstring is the help, with an example.
        Where an argument is a value, the fields of it are options: so several commands have the same ones."""

        def register(function: F) -> F:
            signature = inspect.signature(function, eval_str=True)
            asked = list(signature.parameters.values())[1:]
            shared: dict[str, Any] = {one.name: one.annotation for one in asked if is_dataclass(one.annotation)}
            own = [
                one.replace(kind=inspect.Parameter.KEYWORD_ONLY)
                for parameter in asked
                for one in (_options_of(shared[parameter.name]) if parameter.name in shared else [parameter])
            ]

            @functools.wraps(function)
            def run(*, as_json: bool, home: Path | None, **options: Any) -> None:
                for name, kind in shared.items():
                    options[name] = kind(**{field.name: options.pop(field.name) for field in fields(kind)})
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


def _options_of(kind: type[Any]) -> list[inspect.Parameter]:
    hints = get_type_hints(kind, include_extras=True)
    return [
        inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name])
        for field in fields(kind)
    ]


# Options that many commands share.
Limit = Annotated[int, typer.Option(help="How many to list.", min=1, max=1000)]
Cursor = Annotated[str, typer.Option(help="Go on where a listing ended.", show_default=False)]
Project = Annotated[str, typer.Argument(help="The project's name.", show_default=False)]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
