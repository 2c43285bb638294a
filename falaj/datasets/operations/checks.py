"""What must hold of a dataset's rows before a version is published, and what becomes of one of which it does not."""

from typing import Annotated, Any, Final

from falaj.base.operation import Group, Operation, Permission, Record, Scope
from falaj.base.values import Items, Message, Name, NameOrNone, Nothing, Personal, Range, Text, value
from falaj.datasets.operations.datasets import OneDataset
from falaj.datasets.operations.versions import Finding, OneVersion, Version
from falaj.datasets.operations.words import READ, WRITE, CheckKind, CheckName, ColumnName, Severity, VersionWord
from falaj.tables.schemas import Column

RELEASE: Final = Permission(name="dataset.release", group=Group.DEPLOY)
MOST_EXAMPLES: Final = 100

Plain = bool | int | float | Annotated[str, Text(longest=1000)]


@value
class Check(Message):
    """One rule, by its kind:

    `range`: values of `columns` lie between `least` and `most`, of which one may be left out; `set`: they are among `values`;
    `unique`: no two rows have the same `columns`; `nulls`: at most the `share` of rows has no value in one of them; `fresh`:
    the newest of the column is at most `seconds` old; `refers`: there is a row with the same values in the columns
    `references` of the current version of `dataset`; `sql`: a SELECT that finds rows which should not be, and names the
    dataset by its name. Where there is no value, only `nulls` and `unique` look.

    With the severity `warn` it is told and stops nothing.
    """

    name: CheckName
    kind: CheckKind
    severity: Severity = "fail"
    columns: Annotated[tuple[ColumnName, ...], Items(most=100)] = ()
    least: Annotated[Plain | None, Personal()] = None
    most: Annotated[Plain | None, Personal()] = None
    values: Annotated[tuple[Plain, ...], Items(most=10_000), Personal()] = ()
    share: float = 0.0
    seconds: Annotated[int, Range(least=0, most=10**10)] = 0
    dataset: NameOrNone = ""
    references: Annotated[tuple[ColumnName, ...], Items(most=100)] = ()
    sql: Annotated[str, Text(longest=20_000), Personal()] = ""


@value
class SetChecks(Message):
    """All of them: those that are not named any more are gone."""

    project: Name
    dataset: Name
    checks: Annotated[tuple[Check, ...], Items(most=200)]


@value
class Checks(Message):
    dataset: Name
    checks: tuple[Check, ...]


@value
class CheckVersion(Message):
    """`examples` is how many of the rows that break a check are shown."""

    project: Name
    dataset: Name
    version: VersionWord
    examples: Annotated[int, Range(least=0, most=MOST_EXAMPLES)] = 5


@value
class Outcome(Message):
    """Of one check: what it found, with some of the rows. `detail` is why it could not be run, where it could not."""

    finding: Finding
    broken: bool
    detail: str = ""
    columns: tuple[Column, ...] = ()
    examples: tuple[tuple[Any, ...], ...] = ()


@value
class Checked(Message):
    """`passed`: no check that stops a version is broken. `against` are the versions of other datasets that were looked at."""

    dataset: Name
    version: int
    passed: bool
    outcomes: tuple[Outcome, ...]
    against: tuple[str, ...] = ()


SET_CHECKS: Final = Operation(
    name="dataset.set-checks",
    summary="Declare what must hold of a dataset's rows; versions from now on are held against it before they are published.",
    method="PUT",
    path="projects/{project}/datasets/{dataset}/checks",
    request=SetChecks,
    result=Checks,
    permission=WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
SHOW_CHECKS: Final = Operation(
    name="dataset.show-checks",
    summary="Show what must hold of a dataset's rows.",
    method="GET",
    path="projects/{project}/datasets/{dataset}/checks",
    request=OneDataset,
    result=Checks,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
CHECK_VERSION: Final = Operation(
    name="dataset.check",
    summary="Hold a version against the checks that are declared now; nothing is changed.",
    method="POST",
    path="projects/{project}/datasets/{dataset}/versions/{version}/check",
    request=CheckVersion,
    result=Checked,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.SENSITIVE_READ,
)
SHOW_FINDINGS: Final = Operation(
    name="dataset.findings",
    summary="Show why a version is in quarantine, with examples of the rows that broke its checks.",
    method="GET",
    path="projects/{project}/datasets/{dataset}/versions/{version}/findings",
    request=OneVersion,
    result=Checked,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.SENSITIVE_READ,
)
RELEASE_VERSION: Final = Operation(
    name="dataset.release",
    summary="Publish a version that is in quarantine, in spite of its findings.",
    method="POST",
    path="projects/{project}/datasets/{dataset}/versions/{version}/release",
    request=OneVersion,
    result=Version,
    permission=RELEASE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
DROP_VERSION: Final = Operation(
    name="dataset.drop-quarantined",
    summary="Drop a version that is in quarantine; the rows that only it has are shredded.",
    method="DELETE",
    path="projects/{project}/datasets/{dataset}/versions/{version}/quarantine",
    request=OneVersion,
    result=Nothing,
    permission=WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)

OPERATIONS: Final = (SET_CHECKS, SHOW_CHECKS, CHECK_VERSION, SHOW_FINDINGS, RELEASE_VERSION, DROP_VERSION)
