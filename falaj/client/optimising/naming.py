"""What a variant's files are called: an original's may lie in folders and be written in capitals, and some steps leave them."""

import re
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Final

from falaj.optimisation.making.values import CannotBeMade, Made

_PLAIN: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
_BY_ENDING: Final = frozenset({"openvino"})  # whose files are found by how they end, and not by name


def plainly_named(made: Made) -> Made:
    """The same under names that the platform takes."""
    if all(_PLAIN.fullmatch(name) for name in made.files):
        return made
    names = {name: f"model{PurePosixPath(name).suffix.lower()}" for name in made.files}
    refer = len(names) > 1 and made.runtime not in _BY_ENDING
    if refer or len({*names.values()}) < len(names) or not all(_PLAIN.fullmatch(name) for name in names.values()):
        raise CannotBeMade(f"its files may not be called {', '.join(made.files)}, and refer to each other by these names")
    return replace(made, file=names[made.file], files={names[name]: content for name, content in made.files.items()})
