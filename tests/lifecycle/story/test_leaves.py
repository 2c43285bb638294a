"""Which leaves are looked for: the lists of operations are held against the code that does what they tell of.

The handlers of every operation of a whole platform are read, and followed as far as they call Falaj's own functions, or methods
of what their services were built from.
"""

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from functools import cache
from types import FunctionType, MethodType
from typing import Any

import pytest

from falaj.database.binding import Bound
from falaj.datasets.publishing import publish, quarantine
from falaj.jobs.submitting import SubmissionService
from falaj.lifecycle.store import runs as pipeline_store
from falaj.lifecycle.story import happenings
from falaj.registry import approvals
from falaj.registry.approvals import ApprovalService
from falaj.registry.store import versions as version_store
from falaj.serving.changing import change_split
from falaj.tracking.store import runs as run_store
from tests.lifecycle.story.told import Told

DERIVING = ("feature.apply", "feature.materialise")  # they leave a leaf of `dataset.derive` along with their own
JUDGING = ("gate.run",)  # its jobs are given no run


@pytest.mark.parametrize(
    ("listed", "others", "writers"),
    [
        (happenings.PUBLISHING, DERIVING, (publish, quarantine)),
        ((*happenings.SUBMITTING, *happenings.JUDGING), (), (SubmissionService._enter,)),
        (happenings.RUNNING, JUDGING, (run_store.add_run,)),
        (happenings.REGISTERING, (), (version_store.add,)),
        (happenings.ASKING, (), (approvals.request_approval,)),
        (happenings.VOTING, (), (ApprovalService._vote,)),
        (happenings.SPLITTING, (), (change_split,)),
        (happenings.STARTING, (), (pipeline_store.add,)),
    ],
    ids=("publishing", "submitting", "running", "registering", "asking", "voting", "splitting", "starting"),
)
def test_a_leaf_is_looked_for_among_those_of_every_operation_that_can_leave_it(
    small: Told, listed: tuple[str, ...], others: tuple[str, ...], writers: tuple[Callable[..., Any], ...]
) -> None:
    bound: dict[str, Bound] = small.platform.app.dispatcher._bound
    assert sorted(name for name, one in bound.items() if reached(one) & {*writers}) == sorted((*listed, *others))


def reached(bound: Bound) -> set[Callable[..., Any]]:
    waiting: list[Any] = [one for one in (bound.handle, bound.receive, bound.prepare) if one is not None]
    seen: set[tuple[Any, int]] = set()
    while waiting:
        function, owner = parted(waiting.pop())
        if (
            (function, id(owner)) not in seen
            and isinstance(function, FunctionType)
            and function.__module__.startswith("falaj.")
        ):
            seen.add((function, id(owner)))
            waiting += called(function, owner)
    return {function for function, _ in seen}


def called(function: FunctionType, owner: Any) -> Iterator[Any]:
    for first, *rest in names_in(function):
        found = owner if first == "self" else function.__globals__.get(first)
        for name in rest:
            found = getattr(found, name, None)
        if isinstance(found, FunctionType | MethodType):
            yield found


def parted(one: Any) -> tuple[Any, Any]:
    return inspect.unwrap(getattr(one, "__func__", one)), getattr(one, "__self__", None)


@cache
def names_in(function: FunctionType) -> list[tuple[str, ...]]:
    """What it mentions, `self._services.make` as three names."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    return [names for node in ast.walk(tree) if (names := dotted(node))]


def dotted(node: ast.AST) -> tuple[str, ...]:
    if isinstance(node, ast.Name):
        return (node.id,)
    before = dotted(node.value) if isinstance(node, ast.Attribute) else ()
    return (*before, node.attr) if before and isinstance(node, ast.Attribute) else ()
