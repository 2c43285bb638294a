"""Predicting for a whole version of a dataset: decided and pinned here, done by a job, which writes piece by piece."""

from typing import Annotated, Final, Literal

from falaj.base.clock import Moment
from falaj.base.operation import Download, Group, Operation, Permission, Record, Scope
from falaj.base.values import Id, Items, Message, Name, Range, Text, value
from falaj.datasets.operations.words import ColumnName, DatasetRef
from falaj.registry.operations.words import AliasNameOrNone, ModelName
from falaj.serving.operations.words import VersionNumberOrNone

MOST_ROWS_OF_A_PIECE: Final = 1_000_000
PREDICTION: Final = "prediction"  # what the column of a model's only output is called


@value
class PlanBatch(Message):
    """What a model version says to every row of a dataset's version, for a new version of `into`, which is made where there is
    none. Both versions are decided now; the model's is named as for a deployment.

    The model's columns are looked for by their names. `keep` are columns that stand before the predictions. `append` adds the
    rows to those of `into` instead of taking their place. `rows` are those of one piece, which is in memory at once and is not
    made again after a kill; 0: what fits the columns.
    """

    project: Name
    model: ModelName
    version: VersionNumberOrNone = 0
    alias: AliasNameOrNone = ""
    on: DatasetRef
    into: Name
    keep: Annotated[tuple[ColumnName, ...], Items(most=1000)] = ()
    append: bool = False
    rows: Annotated[int, Range(least=0, most=MOST_ROWS_OF_A_PIECE)] = 0


@value
class BatchFile(Message):
    name: str
    size: int
    digest: str


@value
class BatchColumn(Message):
    """A column of the model's signature."""

    name: str
    type: str = ""
    required: bool = True


@value
class Batch(Message):
    """`key` is that of the write the job opens. `permissions` are what its token needs. `made` is the version of `into` that
    came out, once it is `done`; its files are gone then. `remarks` are for whoever asked."""

    id: Id
    model: ModelName
    version: int
    version_id: Id
    dataset: Name
    number: int
    into: Name
    keep: tuple[str, ...]
    append: bool
    rows: int
    runtime: str
    file: str
    columns: tuple[BatchColumn, ...]
    files: tuple[BatchFile, ...]
    key: str
    permissions: tuple[str, ...]
    state: Literal["open", "done"]
    made: int
    created: Moment
    remarks: tuple[str, ...] = ()


@value
class OneBatch(Message):
    project: Name
    batch: Id


@value
class ReadBatchFile(Message):
    """As the version's files were signed, or as they were converted when the batch was planned."""

    project: Name
    batch: Id
    file: Annotated[str, Text(shortest=1, longest=1000)]


PREDICT: Final = Permission(name="batch.predict", group=Group.WRITE)

PLAN_BATCH: Final = Operation(
    name="batch.plan",
    summary="Decide what a model version is to say about a version of a dataset, for a job to do.",
    method="POST",
    path="projects/{project}/batches",
    request=PlanBatch,
    result=Batch,
    permission=PREDICT,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
SHOW_BATCH: Final = Operation(
    name="batch.show",
    summary="Show a batch: which model, which rows, and what came out.",
    method="GET",
    path="projects/{project}/batches/{batch}",
    request=OneBatch,
    result=Batch,
    permission=PREDICT,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
READ_BATCH_FILE: Final = Operation(
    name="batch.file",
    summary="Fetch a file of the model that a batch predicts with.",
    method="GET",
    path="projects/{project}/batches/{batch}/file",
    request=ReadBatchFile,
    result=Download,
    permission=PREDICT,
    scope=Scope.PROJECT,
    record=Record.SENSITIVE_READ,
)
FINISH_BATCH: Final = Operation(
    name="batch.finish",
    summary="Record that a batch's write was committed: where its version came from; done again it answers the same.",
    method="POST",
    path="projects/{project}/batches/{batch}/finish",
    request=OneBatch,
    result=Batch,
    permission=PREDICT,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)

OPERATIONS: Final = (PLAN_BATCH, SHOW_BATCH, READ_BATCH_FILE, FINISH_BATCH)
