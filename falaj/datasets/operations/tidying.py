"""Tidying up: few large parts instead of many small ones, and no more versions than are needed."""

from typing import Annotated, Final

from falaj.base.operation import Operation, Record, Scope
from falaj.base.values import Message, Name, Range, value
from falaj.datasets.operations.datasets import OneDataset
from falaj.datasets.operations.versions import Version
from falaj.datasets.operations.words import WRITE


@value
class PruneVersions(Message):
    """`keep` are the newest that stay in any case."""

    project: Name
    dataset: Name
    keep: Annotated[int, Range(least=1, most=1_000_000)] = 10


@value
class Pruned(Message):
    """`versions` are the numbers of those that cannot be read any more."""

    versions: tuple[int, ...]
    rows: int


COMPACT: Final = Operation(
    name="dataset.compact",
    summary="Make a version that has the same rows in fewer, larger parts.",
    method="POST",
    path="projects/{project}/datasets/{dataset}/compact",
    request=OneDataset,
    result=Version,
    permission=WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
PRUNE_VERSIONS: Final = Operation(
    name="dataset.prune",
    summary="Let go of old versions that nothing refers to: no tag, no run, no model, and not the current one.",
    method="POST",
    path="projects/{project}/datasets/{dataset}/prune",
    request=PruneVersions,
    result=Pruned,
    permission=WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)

OPERATIONS: Final = (COMPACT, PRUNE_VERSIONS)
