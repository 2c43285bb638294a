"""What travels in a training's source, below `.falaj`: the starter, and the rooms of Falaj that a script may import."""

from functools import cache
from pathlib import Path
from typing import Final

import falaj

FOLDER: Final = ".falaj"
# No more than a bare machine with torch needs; `keys` and `statistics` as far as training has to do with them.
_ROOMS: Final = (
    *("__init__.py", "base/**/*.py", "statistics/**/*.py", "training/**/*.py"),
    *("keys/__init__.py", "keys/errors.py", "keys/sealing.py"),
)
_STARTER: Final = """\
import sys

from falaj.training.launchers.starting.main import main

sys.exit(main())
"""


@cache
def companions() -> dict[str, bytes]:
    """By their names in the source."""
    root = Path(falaj.__file__).parent
    files = sorted({file for pattern in _ROOMS for file in root.glob(pattern)})
    found = {f"{FOLDER}/falaj/{file.relative_to(root).as_posix()}": file.read_bytes() for file in files}
    return {f"{FOLDER}/start.py": _STARTER.encode()} | found
