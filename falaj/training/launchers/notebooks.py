"""A notebook as a script: its code cells in order, or those that were named, without what only a notebook understands."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from falaj.base.values import value
from falaj.training.launchers.errors import Unreadable
from falaj.training.launchers.reading import parsed

_MAGIC: Final = re.compile(r"^\s*([%!?]|\w[\w.]*\?{1,2}\s*$)")
_AS_CODE: Final = ("%%time", "%%timeit", "%%capture", "%%prun")  # what follows the first line is code all the same


@value
class Script:
    """`dropped` counts lines that a notebook alone understands."""

    text: str
    cells: int
    dropped: int


def script_of(notebook: Path, cells: Sequence[int] = ()) -> Script:
    """`cells` are counted from 1, code cells alone; none for all. Raises `Unreadable` where a cell is no Python."""
    codes = _code_cells(notebook)
    if odd := [number for number in cells if not 1 <= number <= len(codes)]:
        raise Unreadable(f"{notebook.name} has {len(codes)} code cells, and no cell {odd[0]}; they are counted from 1.")
    chosen = [(number, codes[number - 1]) for number in sorted(set(cells))] if cells else list(enumerate(codes, start=1))
    parts, dropped = [], 0
    for number, code in chosen:
        kept, gone = _without_magics(code)
        parsed(kept, f"Cell {number} of {notebook.name}")
        parts.append(f"# cell {number}\n{kept.strip()}\n")
        dropped += gone
    return Script(text="\n\n".join(parts), cells=len(chosen), dropped=dropped)


def _code_cells(notebook: Path) -> list[str]:
    try:
        document: Any = json.loads(notebook.read_text(encoding="utf-8"))
        cells = [cell for cell in document["cells"] if cell["cell_type"] == "code"]
        return [cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"]) for cell in cells]
    except OSError as error:
        raise Unreadable(f"{notebook} cannot be read: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise Unreadable(f"{notebook.name} is no notebook of format 4; save it again with Jupyter. Nothing was sent.") from None


def _without_magics(code: str) -> tuple[str, int]:
    """Dropped lines stay as empty ones, so that lines are counted as in the notebook."""
    lines = code.splitlines()
    first = next((line.strip() for line in lines if line.strip()), "")
    if first.startswith("%%") and not first.startswith(_AS_CODE):
        return "", len(lines)
    kept = ["" if _MAGIC.match(line) else line for line in lines]
    return "\n".join(kept) + "\n", sum(was != now for was, now in zip(lines, kept, strict=True))
