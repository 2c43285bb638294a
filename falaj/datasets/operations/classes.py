"""Which columns of a dataset are personal or sensitive: who may not see such is shown nothing of their values."""

from typing import Annotated, Final, Literal

from falaj.base.operation import Group, Operation, Permission, Record, Scope
from falaj.base.values import Items, Message, Name, value
from falaj.datasets.operations.datasets import OneDataset
from falaj.datasets.operations.versions import OneVersion
from falaj.datasets.operations.words import READ, ColumnName

# To see columns that are classified, and to say which are. No token has it with the power to write.
PERSONAL: Final = Permission(name="dataset.personal", group=Group.PERSONAL)

ColumnClass = Literal["personal", "sensitive"]


@value
class Classified(Message):
    column: ColumnName
    kind: ColumnClass


@value
class ClassifyColumns(Message):
    """`columns` get these classes, and `clear` lose theirs; those of neither keep what they have."""

    project: Name
    dataset: Name
    columns: Annotated[tuple[Classified, ...], Items(most=10_000)] = ()
    clear: Annotated[tuple[ColumnName, ...], Items(most=10_000)] = ()


@value
class Classes(Message):
    dataset: Name
    columns: tuple[Classified, ...]


@value
class Hint(Message):
    """`column` looks like it holds `what`; `share` of the values that were looked at do, or 0 where its name alone says so."""

    column: ColumnName
    what: str
    kind: ColumnClass
    share: float


@value
class Hints(Message):
    """Of columns that are not classified yet."""

    dataset: Name
    version: int
    hints: tuple[Hint, ...]


CLASSIFY_COLUMNS: Final = Operation(
    name="dataset.classify",
    summary="Say which columns of a dataset are personal or sensitive, in every version.",
    method="PUT",
    path="projects/{project}/datasets/{dataset}/classes",
    request=ClassifyColumns,
    result=Classes,
    permission=PERSONAL,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
SHOW_CLASSES: Final = Operation(
    name="dataset.classes",
    summary="Show which columns of a dataset are personal or sensitive.",
    method="GET",
    path="projects/{project}/datasets/{dataset}/classes",
    request=OneDataset,
    result=Classes,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
HINT_CLASSES: Final = Operation(
    name="dataset.hints",
    summary="Find columns that look personal or sensitive, and are not classified yet, from names and some values.",
    method="POST",
    path="projects/{project}/datasets/{dataset}/versions/{version}/hints",
    request=OneVersion,
    result=Hints,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.SENSITIVE_READ,
)

OPERATIONS: Final = (CLASSIFY_COLUMNS, SHOW_CLASSES, HINT_CLASSES)
