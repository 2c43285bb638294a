"""Why a model could not be converted: in one line, with the operator and the line of its own code that made it, where the
library tells them."""

import re
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from falaj.runtimes.sandboxed.originals import HERE

LONGEST = 600
_PLACE = re.compile(r'File "([^"]+)", line (\d+)')
_OURS = re.escape(str(Path(__file__).parent))
_LIBRARIES = re.compile(r"/(site|dist)-packages/|/lib(64)?/python3|^<(frozen|string|eval_with_key)|^" + _OURS)


def first_cause(error: BaseException) -> str:
    """What went wrong at first; what is raised at last may hold half of the model."""
    cause = _chain(error)[-1]
    return f"{type(cause).__name__}: {str(cause).strip().partition(chr(10))[0][:LONGEST].rstrip('.')}"


def of_torch(error: BaseException) -> str:
    """Where an operator is to blame, torch holds its node while it raises; where tracing failed, the module's own lines are
    among those that were running."""
    node = next(_nodes(error), None)
    if node is None:
        frames = (frame for one in _chain(error) for frame in traceback.extract_tb(one.__traceback__))
        place = own_line((frame.filename, frame.lineno) for frame in frames)
        return f"{first_cause(error)}{f' (at {place})' if place else ''}"
    place = own_line(_PLACE.findall(node.meta.get("stack_trace") or ""))
    made = f", made at {place}," if place else _part(node)
    return f"the operator {node.target}{made} cannot be exported: {first_cause(error)}"


def own_line(places: Iterable[tuple[str, Any]]) -> str:
    """The last of these places that is in no library: `train.py:12`."""
    own = [(file, line) for file, line in places if not _LIBRARIES.search(file)]
    return f"{own[-1][0].removeprefix(f'{HERE}/')}:{own[-1][1]}"[-LONGEST:] if own else ""


def _chain(error: BaseException) -> list[BaseException]:
    found = [error]
    while found[-1].__cause__ is not None:
        found.append(found[-1].__cause__)
    return found


def _nodes(error: BaseException) -> Iterator[Any]:
    """Operators of torch's graph that its exporter was at work on, the innermost first."""
    import torch

    for one in _chain(error):
        for frame, _ in reversed(list(traceback.walk_tb(one.__traceback__))):
            if str(frame.f_globals.get("__name__")).startswith("torch.onnx"):
                yield from (value for value in frame.f_locals.values() if isinstance(value, torch.fx.Node))


def _part(node: Any) -> str:
    """The part of the module that an operator is in, where no line of its own made it."""
    inside = list((node.meta.get("nn_module_stack") or {}).values())
    if not inside or not str(inside[-1][0]):
        return ""
    path, kind = map(str, inside[-1])
    return f", made by its part {path!r} ({kind.rpartition('.')[2]}),"
