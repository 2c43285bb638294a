"""Variants of a version, and the certificates that say how fit they are.

What a variant is and does is told by the job that made it, and believed of the platform's own program alone; whether it is fit
is decided here, from the counts that the job brings.
"""

from typing import Annotated, Any, Final, Literal

from falaj.base.clock import Moment
from falaj.base.operation import Download, Operation, Record, Scope
from falaj.base.pages import Cursor, Limit
from falaj.base.values import Id, Items, Message, Name, Nothing, Number, Range, Text, value
from falaj.optimisation.operations.words import (
    MOST_FILES,
    MOST_GROUPS,
    OPTIMISE,
    SEE,
    FileSeen,
    Host,
    Measures,
    ScoreKind,
    Sentence,
    Sentences,
    Setting,
    Settings,
    TaskKind,
    VariantName,
    VariantState,
    Word,
)
from falaj.registry.operations.words import ModelName, VersionNumber

Count = Annotated[int, Range(least=0, most=2**53)]
FARTHEST: Final = 10**12
CalibrationError = Annotated[float, Range(least=-1, most=1)]
FileName = Annotated[str, Text(pattern=r"^[a-z0-9][a-z0-9._-]{0,99}$", longest=100)]


@value
class Variant(Message):
    """`reason` says why it was skipped, dropped or refused. `certificate` is the digest of its certificate, where it has one
    that says it is fit; `best` marks the fastest of those of its optimisation, and in a list of variants that of its
    version, however often that was searched. `max_drop` is what it may lose over all to be certified."""

    id: Id
    name: VariantName
    optimisation: Id
    model: ModelName
    version: int
    steps: tuple[str, ...]
    why: str
    state: VariantState
    reason: str
    runtime: str
    file: str
    files: tuple[FileSeen, ...]
    settings: tuple[Setting, ...]
    notes: tuple[str, ...]
    measures: Measures | None
    max_drop: Number
    certificate: str
    on_front: bool
    best: bool
    settled: Moment | None


@value
class ListVariants(Message):
    """Of one version, or of all versions of the model: those of the newest search first, in the order they were planned in."""

    project: Name
    model: ModelName
    version: Annotated[int, Range(least=0, most=2**31 - 1)] = 0
    cursor: Cursor = ""
    limit: Limit = 50


@value
class Variants(Message):
    items: tuple[Variant, ...]
    next: str


@value
class OneVariant(Message):
    """By its id, or by the version and a name: then the newest of that name that is certified to lose at most 1 %, or else the
    newest that is certified, or else the newest."""

    project: Name
    model: ModelName
    version: VersionNumber
    variant: VariantName


@value
class ReadVariantFile(Message):
    project: Name
    model: ModelName
    version: VersionNumber
    variant: VariantName
    file: FileName


@value
class BeginVariant(Message):
    """Take a candidate. One that an earlier job of the search had begun is made anew."""

    project: Name
    optimisation: Id
    job: Id
    variant: VariantName


@value
class Begun(Message):
    """`granted` is false where it is settled."""

    granted: bool
    state: VariantState


@value
class PutVariantFile(Message):
    project: Name
    optimisation: Id
    job: Id
    variant: VariantName
    file: FileName


@value
class RecordVariant(Message):
    """What became of a candidate: `made`, and then how it measures; or `dropped`, and then why."""

    project: Name
    optimisation: Id
    job: Id
    variant: VariantName
    outcome: Literal["made", "dropped"]
    reason: Sentence = ""
    runtime: Word = ""
    file: Annotated[str, Text(longest=100)] = ""
    files: Annotated[tuple[FileName, ...], Items(most=MOST_FILES)] = ()
    settings: Settings = ()
    notes: Sentences = ()
    measures: Measures | None = None


@value
class Charged(Message):
    """Of the probabilities on some rows: what the original and the variant are charged by a score, summed, and the sum of the
    squares of the differences. Half the Brier score, or the log score, clipped and scaled: 0 is sure and right, 1 sure and
    wrong."""

    by: ScoreKind
    original: Number
    variant: Number
    squares: Number


@value
class Group(Message):
    """Counts of one slice of the held-out rows, or of all of them, whose name is empty.

    Of classes: how many rows both answered rightly, only the original, only the variant, neither. Of numbers: sums over the
    rows of the two absolute errors, of their squares and of their products, which are all that the test needs. `scores` are
    of the probabilities, where there are any.
    """

    name: Annotated[str, Text(longest=500)] = ""
    rows: Count
    both: Count = 0
    original: Count = 0
    variant: Count = 0
    neither: Count = 0
    original_error: Number = 0.0
    variant_error: Number = 0.0
    original_squares: Number = 0.0
    variant_squares: Number = 0.0
    products: Number = 0.0
    scores: Annotated[tuple[Charged, ...], Items(most=2)] = ()


@value
class CertifyVariant(Message):
    """What was seen on the held-out rows. `agreement` is the share of rows on which both give the same answer; the
    calibration errors are of the probabilities, and -1 where there are none; `calibration` is the digest of the rows that the
    variant was calibrated with; `read_as` says how answers were read. `guessed` is what whoever always says the same would
    have: rows that are right by saying the commonest class, or the sum of the errors of saying the middle; -1 where nobody
    knows the truth. `classes` are the rows of each class, by what is true."""

    project: Name
    optimisation: Id
    job: Id
    variant: VariantName
    groups: Annotated[tuple[Group, ...], Items(least=1, most=MOST_GROUPS)]
    agreement: Annotated[float, Range(least=0, most=1)]
    guessed: Number = -1.0
    classes: Annotated[tuple[Group, ...], Items(most=MOST_GROUPS)] = ()
    apart: Annotated[float, Range(least=0, most=FARTHEST)]
    calibration_error: CalibrationError = -1.0
    original_calibration_error: CalibrationError = -1.0
    measures: Measures
    original_measures: Measures
    host: Host | None = None
    calibration: Annotated[str, Text(pattern=r"^([0-9a-f]{64})?$", longest=64)] = ""
    calibration_rows: Count = 0
    read_as: Sentence = ""


@value
class Certificate(Message):
    """`document` is what was signed, `bundle` the signature with it (DSSE), `key` the public key that verifies it. `valid` is
    whether signature, files and versions still go together, and `problems` say what does not."""

    variant: Variant
    fit: bool
    task: TaskKind
    reasons: tuple[str, ...]
    document: dict[str, Any]
    bundle: str
    digest: str
    key: str
    valid: bool
    problems: tuple[str, ...]
    issued: Moment


LIST_VARIANTS: Final = Operation(
    name="variant.list",
    summary="List the variants of a model's version.",
    method="GET",
    path="projects/{project}/variants",
    request=ListVariants,
    result=Variants,
    permission=SEE,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
SHOW_CERTIFICATE: Final = Operation(
    name="variant.certificate",
    summary="Show the certificate of a variant, and whether it holds.",
    method="GET",
    path="projects/{project}/variants/certificate",
    request=OneVariant,
    result=Certificate,
    permission=SEE,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
READ_VARIANT_FILE: Final = Operation(
    name="variant.file",
    summary="Fetch a file of a variant.",
    method="GET",
    path="projects/{project}/variants/file",
    request=ReadVariantFile,
    result=Download,
    permission=SEE,
    scope=Scope.PROJECT,
    record=Record.SENSITIVE_READ,
)
DELETE_VARIANT: Final = Operation(
    name="variant.delete",
    summary="Delete a variant and its files; what is deployed of it stays so.",
    method="DELETE",
    path="projects/{project}/variants",
    request=OneVariant,
    result=Nothing,
    permission=OPTIMISE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
BEGIN_VARIANT: Final = Operation(
    name="variant.begin",
    summary="The job takes a candidate.",
    method="POST",
    path="projects/{project}/optimisations/{optimisation}/variants/{variant}/begin",
    request=BeginVariant,
    result=Begun,
    permission=OPTIMISE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
PUT_VARIANT_FILE: Final = Operation(
    name="variant.put-file",
    summary="The job brings a file of a candidate it has taken.",
    method="PUT",
    path="projects/{project}/optimisations/{optimisation}/variants/{variant}/files/{file}",
    request=PutVariantFile,
    result=FileSeen,
    permission=OPTIMISE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
    takes_bytes=True,
)
RECORD_VARIANT: Final = Operation(
    name="variant.record",
    summary="The job tells what became of a candidate.",
    method="POST",
    path="projects/{project}/optimisations/{optimisation}/variants/{variant}/record",
    request=RecordVariant,
    result=Variant,
    permission=OPTIMISE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
CERTIFY_VARIANT: Final = Operation(
    name="variant.certify",
    summary="Judge a variant by what was counted on the held-out rows, and sign what comes out.",
    method="POST",
    path="projects/{project}/optimisations/{optimisation}/variants/{variant}/certify",
    request=CertifyVariant,
    result=Variant,
    permission=OPTIMISE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)

OPERATIONS: Final = (
    LIST_VARIANTS,
    SHOW_CERTIFICATE,
    READ_VARIANT_FILE,
    DELETE_VARIANT,
    BEGIN_VARIANT,
    PUT_VARIANT_FILE,
    RECORD_VARIANT,
    CERTIFY_VARIANT,
)
