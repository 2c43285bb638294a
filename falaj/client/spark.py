"""Datasets in Spark, as a data source: `spark.read.format("falaj")` and `df.write.format("falaj")`.

Spark plans in processes beside the driver, which have FALAJ_URL and FALAJ_TOKEN; what its executors need is handed to them:
keys of the parts at hand, and a token for this reading or writing alone.
"""

import contextlib
import dataclasses
from collections.abc import Iterator, MutableMapping
from typing import Any, Final

from pyspark import TaskContext
from pyspark.sql import datasource
from pyspark.sql.datasource import InputPartition, WriterCommitMessage
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from falaj.base.clock import SystemClock
from falaj.base.errors import Conflict, Invalid
from falaj.base.values import value
from falaj.client.dataset_pieces import tables_library
from falaj.client.dataset_writes import send
from falaj.client.datasets import Dataset, published
from falaj.client.environments import client_of_environment
from falaj.client.handing_on import Way, handed_on, taken_back
from falaj.client.spark_options import Asked, asked_by
from falaj.client.spark_shares import Share, shares
from falaj.client.spark_types import ddl, refuse
from falaj.datasets.operations.reading import GRANT_READ, GrantRead, ReadGrant
from falaj.datasets.operations.versions import SHOW_VERSION, OneVersion
from falaj.datasets.operations.words import READ, WRITE, Mode
from falaj.datasets.operations.writing import (
    ABANDON_WRITE,
    COMMIT_WRITE,
    OPEN_WRITE,
    CommitWrite,
    OneWrite,
    OpenWrite,
    WritePart,
)
from falaj.tables.forms import Form
from falaj.tables.schemas import Schema

_CHUNKS: Final = 1 << 20  # pieces of a task, at most
_TASKS: Final = 1 << 32


class DataSource(datasource.DataSource):  # type: ignore[misc]
    """Options: `dataset` (`sales`, `sales@7`), `project` where FALAJ_PROJECT is not meant; for reading `columns`; for writing
    `keys`, by which rows are replaced, `evolve`, `timeZone` and `origin`."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._asked = asked_by(options)
        self._way: Way | None = None

    @classmethod
    def name(cls) -> str:
        return "falaj"

    def schema(self) -> str:
        """Asked once, for `load()`: which version that is, is decided now."""
        asked = self._asked
        with client_of_environment() as caller:
            found = caller.call(SHOW_VERSION, OneVersion(project=asked.project, dataset=asked.dataset, version=asked.version))
        self._asked = dataclasses.replace(asked, version=str(found.version))
        self._way = _reading(asked)
        every = Schema(columns=found.columns)
        wanted = tuple(every.column(name) for name in asked.columns)
        return ddl(Schema(columns=wanted) if wanted else every)

    def reader(self, schema: StructType) -> "Reader":
        way = self._way if self._way is not None and self._way.lasts(SystemClock().now()) else _reading(self._asked)
        return Reader(self._asked, way, schema)

    def writer(self, schema: StructType, overwrite: bool) -> "Writer":
        return Writer(self._asked, schema, overwrite)


class Task(InputPartition):  # type: ignore[misc]
    """What one task reads: keys of its own parts, and no others."""

    def __init__(self, grant: ReadGrant, share: Share) -> None:
        self.grant, self.number, self.of = dataclasses.replace(grant, parts=tuple(share.parts)), share.number, share.of

    def __repr__(self) -> str:
        return f"<{len(self.grant.parts)} parts of {self.grant.dataset}@{self.grant.version}, share {self.number} of {self.of}>"


class Reader(datasource.DataSourceReader):  # type: ignore[misc]
    def __init__(self, asked: Asked, way: Way, schema: StructType) -> None:
        self._asked, self._way, self._schema = asked, way, schema

    def partitions(self) -> list[Task]:
        """The grant is made here, on record, each time that rows are asked for."""
        asked = self._asked
        with client_of_environment() as caller:
            request = GrantRead(project=asked.project, dataset=asked.dataset, version=asked.version)
            grant = caller.call(GRANT_READ, request)
        return [Task(grant, share) for share in shares(grant.parts)] or [Task(grant, Share(parts=()))]

    def read(self, partition: Task) -> Iterator[Any]:
        target = to_arrow_schema(self._schema, timezone="UTC")
        with self._way.client() as caller:
            granted = Dataset(caller, self._asked.project, partition.grant)
            for batch in granted.share(partition.number, partition.of, target.names):
                yield batch.cast(target)


@value
class Sent(WriterCommitMessage):  # type: ignore[misc]
    """The pieces that a task brought."""

    pieces: tuple[int, ...]


class Writer(datasource.DataSourceArrowWriter):  # type: ignore[misc]
    """One write of many tasks. Each try of a task numbers its pieces for itself, and the commit takes those of the tries that
    Spark counts: what others brought is shredded."""

    def __init__(self, asked: Asked, schema: StructType, overwrite: bool) -> None:
        if asked.version != "current":
            raise Invalid(f"A new version is written, so {asked.dataset}@{asked.version} cannot be: say {asked.dataset} alone.")
        refuse(schema.fields, time_zone=asked.time_zone)
        mode: Mode = "overwrite" if overwrite else "merge" if asked.keys else "append"
        request = OpenWrite(
            project=asked.project,
            dataset=asked.dataset,
            mode=mode,
            form=Form(format="arrow", time_zone=asked.time_zone),
            keys=asked.keys,
            evolve=asked.evolve,
            create=True,
            origin=asked.origin,
        )
        (columns,) = tables_library("falaj.tables.outgoing").streams(to_arrow_schema(schema, timezone="UTC").empty_table())
        with client_of_environment() as caller:
            self._write = OneWrite(project=asked.project, dataset=asked.dataset, write=caller.call(OPEN_WRITE, request).id)
            try:
                send(caller, self._piece(1), columns)  # before the others, because it decides the columns
                self._way = handed_on(WRITE.name, project=asked.project, label=f"spark writes {asked.dataset}"[:100])
            except BaseException:
                caller.call(ABANDON_WRITE, self._write)
                raise

    def write(self, iterator: Iterator[Any]) -> Sent:
        rows = (batch for batch in iterator if batch.num_rows)
        if (first := next(rows, None)) is None:
            return Sent(pieces=())
        task = TaskContext.get()
        start = 2 + task.taskAttemptId() % _TASKS * _CHUNKS
        sent = []
        with self._way.client() as caller:
            for number, content in enumerate(tables_library("falaj.tables.outgoing").streams(_chained(first, rows)), start):
                send(caller, self._piece(number), content)
                sent.append(number)
        return Sent(pieces=tuple(sent))

    def commit(self, messages: list[Sent | None]) -> None:
        pieces = tuple(number for message in messages if message is not None for number in message.pieces) or (1,)
        with client_of_environment() as caller:
            version = caller.call(COMMIT_WRITE, self._committed(pieces))
        taken_back(self._way)
        published(version)

    def abort(self, messages: list[Sent | None]) -> None:
        del messages
        with client_of_environment() as caller, contextlib.suppress(Conflict):  # one that is a version stays one
            caller.call(ABANDON_WRITE, self._write)
        taken_back(self._way)

    def _piece(self, number: int) -> WritePart:
        one = self._write
        return WritePart(project=one.project, dataset=one.dataset, write=one.write, piece=number)

    def _committed(self, pieces: tuple[int, ...]) -> CommitWrite:
        one = self._write
        return CommitWrite(project=one.project, dataset=one.dataset, write=one.write, pieces=len(pieces), only=pieces)


def _reading(asked: Asked) -> Way:
    return handed_on(READ.name, project=asked.project, label=f"spark reads {asked.dataset}"[:100])


def _chained(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from rest
