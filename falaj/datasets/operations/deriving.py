"""Deriving: a version that is what SQL, or a function, makes of other versions. What was made before is not made again."""

from typing import Annotated, Final

from falaj.base.operation import Operation, Record, Scope
from falaj.base.values import Items, Message, Name, Personal, Text, value
from falaj.datasets.operations.derivations import MOST_INPUTS, CodeDigest, Inputs
from falaj.datasets.operations.versions import Version
from falaj.datasets.operations.words import READ, WRITE, DatasetRef, Description

Sql = Annotated[str, Text(shortest=1, longest=100_000), Personal()]


@value
class Derive(Message):
    """A version of `dataset`, made where there is none, that is what one SELECT finds. It reads the current versions of the
    datasets it names, or those of `inputs` (`users@3`).

    Where the same SELECT was made of the same rows before, that version is answered, and is current again. `anew`: it is made
    all the same.
    """

    project: Name
    dataset: Name
    sql: Sql
    inputs: Inputs = ()
    description: Description = ""
    anew: bool = False


@value
class Derived(Message):
    """`inputs` are the versions that were read, such as `users@3`. `cached`: it had been made before."""

    version: Version
    inputs: tuple[str, ...]
    cached: bool


@value
class FindDerived(Message):
    """`code` is the digest of a function and of what it runs with, `inputs` what it reads: current versions, or others."""

    project: Name
    dataset: Name
    code: CodeDigest
    inputs: Annotated[tuple[DatasetRef, ...], Items(least=1, most=MOST_INPUTS)]


@value
class FoundDerived(Message):
    """`inputs` are the versions that are meant now, by their numbers, and `zone` is where they are kept. `classified`: some
    have columns that only those see who have the permission dataset.personal. `version` is what the function made of them,
    where it did."""

    inputs: tuple[str, ...]
    zone: str
    classified: bool
    version: Version | None = None


DERIVE: Final = Operation(
    name="dataset.derive",
    summary="Make a version of what one SELECT finds in others; what was made of the same before is not made again.",
    method="POST",
    path="projects/{project}/datasets/{dataset}/derive",
    request=Derive,
    result=Derived,
    permission=WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
FIND_DERIVED: Final = Operation(
    name="dataset.find-derived",
    summary="Find the version that a function made of these versions of datasets.",
    method="POST",
    path="projects/{project}/datasets/{dataset}/derived",
    request=FindDerived,
    result=FoundDerived,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)

OPERATIONS: Final = (DERIVE, FIND_DERIVED)
