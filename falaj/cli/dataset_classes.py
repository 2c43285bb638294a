"""Classes of columns at the terminal: which are personal or sensitive, and which look so."""

from typing import Literal, cast

from falaj.base.errors import Invalid
from falaj.cli.layout import Layout
from falaj.cli.terminal import Terminal
from falaj.datasets.operations import classes, versions

_NONE = "none"


def request_of(project: str, dataset: str, pairs: list[str]) -> classes.ClassifyColumns:
    """Of words such as `email=personal` and `town=none`."""
    found, clear = [], []
    for text in pairs:
        column, said, word = text.rpartition("=")
        if not said or not column or word not in ("personal", "sensitive", _NONE):
            raise Invalid(f"{text!r} says no class: write COLUMN=personal, COLUMN=sensitive or COLUMN=none.")
        if word == _NONE:
            clear.append(column)
        else:
            found.append(classes.Classified(column=column, kind=cast(Literal["personal", "sensitive"], word)))
    return classes.ClassifyColumns(project=project, dataset=dataset, columns=tuple(found), clear=tuple(clear))


def show(layout: Layout, found: classes.Classes) -> None:
    if found.columns:
        layout.table(["column", "class"], ([one.column, one.kind] for one in found.columns))
    else:
        layout.line("No column is classified.")


def tell_hints(terminal: Terminal, project: str, version: versions.Version) -> None:
    """What looks personal and is not classified."""
    request = versions.OneVersion(project=project, dataset=version.dataset, version=str(version.version))
    for one in terminal.call(classes.HINT_CLASSES, request, patience=120).hints:
        found = f"{one.share:.0%} of its values" if one.share else "its name"
        terminal.say(
            f"Column {one.column} looks like {one.what}, by {found}: "
            f"falaj dataset classify {version.dataset} {one.column}={one.kind}"
        )
