"""What runs used and made: datasets as clients describe them, and logged models."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import BigInteger, Column, String, Table, Text, and_, select

from falaj.database.work import UnitOfWork, metadata
from falaj.tracking.store.bulk import Bulk
from falaj.tracking.store.columns import ORDERED
from falaj.tracking.store.runs import ACTIVE, runs
from falaj.tracking.store.sets import prepared_among, set_given

USED: Final = "used"
MADE: Final = "made"

datasets = Table(
    "tracking_datasets",
    metadata,
    Column("project", String(32), primary_key=True),
    Column("id", String(32), primary_key=True),
    Column("name", ORDERED, nullable=False),
    Column("digest", String(36), nullable=False),
    Column("source_type", String(100), nullable=False),
    Column("source", Text, nullable=False),
    Column("schema", Text, nullable=False),
    Column("profile", Text, nullable=False),
)

# `tags` are JSON: they are written and read with the input only. `context` is the one among them that runs are searched by.
inputs = Table(
    "tracking_inputs",
    metadata,
    Column("run", BigInteger, primary_key=True, autoincrement=False),
    Column("dataset", String(32), primary_key=True),
    Column("context", Text),
    Column("tags", Text, nullable=False),
    sqlite_with_rowid=False,
)

models = Table(
    "tracking_run_models",
    metadata,
    Column("run", BigInteger, primary_key=True, autoincrement=False),
    Column("role", String(4), primary_key=True),
    Column("model", String(34), primary_key=True),
    Column("step", BigInteger, primary_key=True, autoincrement=False),
    sqlite_with_rowid=False,
)


class DatasetRow(NamedTuple):
    id: str
    name: str
    digest: str
    source_type: str
    source: str
    schema: str
    profile: str


_ADD_DATASETS: Final = Bulk(datasets, lambda insert: insert.on_conflict_do_nothing())
_ADD_INPUTS: Final = Bulk(inputs, lambda insert: insert.on_conflict_do_nothing())
_ADD_MODELS: Final = Bulk(models, lambda insert: insert.on_conflict_do_nothing())
_INPUTS: Final = prepared_among(
    inputs.c.run,
    lambda wanted: select(inputs.c.run, inputs.c.dataset, inputs.c.tags).where(wanted).order_by(inputs.c.run, inputs.c.dataset),
)
_MODELS: Final = prepared_among(
    models.c.run, lambda wanted: select(models).where(wanted).order_by(models.c.run, models.c.step, models.c.model)
)


def add_datasets(work: UnitOfWork, project: str, rows: Sequence[DatasetRow]) -> None:
    """Those that the project knows already stay as they were described first."""
    _ADD_DATASETS.insert(work, sorted((project, *row) for row in rows))


def add_inputs(work: UnitOfWork, run: int, given: Mapping[str, tuple[str | None, str]]) -> None:
    """Datasets that the run used, by id, with their context and their tags as JSON; said again nothing changes."""
    _ADD_INPUTS.insert(work, [(run, dataset, *given[dataset]) for dataset in sorted(given)])


def add_models(work: UnitOfWork, run: int, role: str, given: Mapping[tuple[str, int], None]) -> None:
    """Logged models, each with a step."""
    _ADD_MODELS.insert(work, [(run, role, model, step) for model, step in sorted(given)])


def inputs_of(work: UnitOfWork, numbers: Sequence[int]) -> list[tuple[int, str, str]]:
    return _INPUTS.all(work, among=set_given(work, numbers))


def models_of(work: UnitOfWork, numbers: Sequence[int]) -> list[tuple[int, str, str, int]]:
    return _MODELS.all(work, among=set_given(work, numbers))


def find_datasets(work: UnitOfWork, project: str, ids: Sequence[str]) -> dict[str, DatasetRow]:
    found: dict[str, DatasetRow] = {}
    for start in range(0, len(ids), 1000):
        query = select(*(datasets.c[name] for name in DatasetRow._fields)).where(datasets.c.project == project)
        for row in work.execute(query.where(datasets.c.id.in_(ids[start : start + 1000]))):
            found[row.id] = DatasetRow._make(row)
    return found


def datasets_used(work: UnitOfWork, project: str, experiments: Sequence[int], limit: int) -> Sequence[Any]:
    """What the runs of these experiments used: experiment, name, digest and context."""
    its = and_(runs.c.project == project, runs.c.experiment.in_(experiments), runs.c.deleted == ACTIVE)
    query = (
        select(runs.c.experiment, datasets.c.name, datasets.c.digest, inputs.c.context)
        .join(inputs, inputs.c.run == runs.c.number)
        .join(datasets, and_(datasets.c.project == runs.c.project, datasets.c.id == inputs.c.dataset))
        .where(its)
        .distinct()
    )
    return work.execute(query.order_by(runs.c.experiment, datasets.c.name, datasets.c.digest).limit(limit)).all()
