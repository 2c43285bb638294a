"""How results look to people: Rich tables on a terminal, plain aligned text in a pipe or where no colours are wanted."""

import dataclasses
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any

from falaj.base.clock import SECOND, Moment
from falaj.base.values import value
from falaj.cli.deferred import Deferred

if TYPE_CHECKING:
    from rich import console as rich_console
    from rich import table as rich_table
    from rich import text as rich_text
    from rich import tree as rich_tree
else:  # neither programs nor pipes need it
    rich_console, rich_table = Deferred("rich.console"), Deferred("rich.table")
    rich_text, rich_tree = Deferred("rich.text"), Deferred("rich.tree")


def shown(text: str) -> str:
    """Text that others wrote, made harmless: what a terminal would obey is replaced."""
    return "".join(letter if letter.isprintable() or letter == "\n" else "�" for letter in text)


def cell(item: Any) -> str:
    """A field in few words."""
    if item is None or item == () or item == {} or (isinstance(item, Moment) and item == 0):
        return "-"
    if isinstance(item, bool):
        return "yes" if item else "no"
    if isinstance(item, Moment):
        return str(item)[:19] + "Z"
    if isinstance(item, Enum):
        return str(item.value)
    if isinstance(item, tuple | list):
        return ", ".join(cell(part) for part in item)
    if isinstance(item, dict):
        return ", ".join(f"{name}={cell(part)}" for name, part in item.items())
    if dataclasses.is_dataclass(item):
        return " ".join(cell(getattr(item, field.name)) for field in dataclasses.fields(item))
    return shown(str(item)) or "-"


def brief(moment: Moment | None) -> str | None:
    """A moment for a list with many columns: the minute, in UTC, or the day where that was in another year."""
    if moment is None:
        return None
    text = str(moment)
    this_year = text[:4] == str(Moment(round(time.time() * SECOND)))[:4]
    return f"{text[5:10]} {text[11:16]}" if this_year else text[:10]


def rounded(measured: float | None) -> str | None:
    """A metric in as many digits as people compare."""
    return None if measured is None else f"{measured:.6g}"


@value
class Branch:
    """A line of a tree, and what hangs below it."""

    label: str
    below: tuple["Branch", ...] = ()


class Layout:
    """Prints on standard output."""

    def __init__(self) -> None:
        self._rich = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"

    @cached_property
    def _console(self) -> "rich_console.Console":
        return rich_console.Console(highlight=False, markup=False, emoji=False)

    def line(self, text: str = "", *, style: str = "") -> None:
        if self._rich:
            self._console.print(rich_text.Text(shown(text), style=style), soft_wrap=True)
        else:
            print(shown(text))

    def pairs(self, rows: Iterable[tuple[str, Any]]) -> None:
        """Names and their values, one to a line; further lines of a value stand below its first."""
        found = [(name, cell(item)) for name, item in rows]
        width = max((len(name) for name, _ in found), default=0)
        for name, lines in found:
            text = lines.replace("\n", f"\n{'':{width}}  ")
            if self._rich:
                self._console.print(rich_text.Text.assemble((name.ljust(width), "dim"), "  ", text), soft_wrap=True)
            else:
                print(f"{name.ljust(width)}  {text}")

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[Any]], *, named: Sequence[str] = ()) -> None:
        """`named` are further columns, called what people called something: that is shown as they wrote it."""
        cells = [[cell(item) for item in row] for row in rows]
        if self._rich:
            table = rich_table.Table(*columns, box=None, header_style="bold", pad_edge=False)
            for name in named:
                table.add_column(rich_text.Text(cell(name)))
            for row in cells:
                table.add_row(*(rich_text.Text(text) for text in row))
            self._console.print(table)
            return
        cells = [[" ".join(text.splitlines()) for text in row] for row in cells]
        heading = [*(column.upper() for column in columns), *(cell(name) for name in named)]
        widths = [max(len(row[place]) for row in [heading, *cells]) for place in range(len(heading))]
        for row in [heading, *cells]:
            print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())

    def tree(self, top: Branch) -> None:
        if self._rich:
            self._console.print(_grown(rich_tree.Tree(rich_text.Text(shown(top.label), style="bold")), top.below))
            return
        print(shown(top.label))
        self._below(top.below, "")

    def _below(self, branches: Sequence[Branch], margin: str) -> None:
        for branch in branches:
            last = branch is branches[-1]
            print(f"{margin}{'`-- ' if last else '|-- '}{shown(branch.label)}")
            self._below(branch.below, margin + ("    " if last else "|   "))


def _grown(tree: "rich_tree.Tree", branches: Sequence[Branch]) -> "rich_tree.Tree":
    for branch in branches:
        _grown(tree.add(rich_text.Text(shown(branch.label))), branch.below)
    return tree


def fields(layout: Layout, result: Any) -> None:
    """Every field of a value."""
    layout.pairs((field.name.replace("_", " "), getattr(result, field.name)) for field in dataclasses.fields(result))


def listing(*columns: str) -> Callable[[Layout, Any], None]:
    """These fields of a page's items, and how to go on where there are more."""

    def render(layout: Layout, page: Any) -> None:
        names = [column.replace("_", " ") for column in columns]
        layout.table(names, ([getattr(item, column) for column in columns] for item in page.items))
        tell_of_more(page)

    return render


def tell_of_more(page: Any) -> None:
    if getattr(page, "next", ""):
        print(f"There are more: add --cursor {shown(page.next)}", file=sys.stderr)


def sentence(words: Callable[[Any], str]) -> Callable[[Layout, Any], None]:
    """One line made of the result."""
    return lambda layout, result: layout.line(words(result))
