"""Where in a user's file something was written, so that whatever is wrong with it is told with its line."""

import sys
from pathlib import Path
from types import FrameType
from typing import Final

from falaj.base.errors import Invalid
from falaj.base.values import value

_OURS: Final = str(Path(__file__).parent)


@value
class Place:
    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        return f"{Path(self.file).name}, line {self.line}" if self.file else "The pipeline"


def here() -> Place:
    """The nearest line that is not ours."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith((_OURS, "<")) and not name.endswith("/contextlib.py"):
            return Place(file=name, line=frame.f_lineno)
        frame = frame.f_back
    return Place()


def wrong(words: str, place: Place | None = None) -> Invalid:
    """To be raised. With the line that is being run where no place is given."""
    return Invalid(f"{place or here()}: {words}")
