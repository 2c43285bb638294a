"""The program of a batch's job: `python -m falaj.client.batches.job BATCH`.

1. Ask what was decided, and fetch the model. 2. Open the write under the batch's key: what an earlier try wrote is there.
3. From the first piece that is not: read, predict, send. 4. Commit, and have recorded where the version came from. Killed
anywhere, it does no more than a piece or two again.
"""

import hashlib
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

from falaj.base.errors import Conflict, Corrupt, FalajError
from falaj.client.batches.predicting import Predictor
from falaj.client.dataset_pieces import tables_library
from falaj.client.datasets import Dataset, dataset
from falaj.client.environments import client_of_environment, project_of_environment
from falaj.client.http import Client
from falaj.client.loaded_models import joined
from falaj.client.patience import patiently
from falaj.datasets.operations.versions import SHOW_VERSION, OneVersion, Version
from falaj.datasets.operations.writing import (
    ABANDON_WRITE,
    COMMIT_WRITE,
    OPEN_WRITE,
    WRITE_PART,
    CommitWrite,
    OneWrite,
    OpenWrite,
    Write,
    WritePart,
)
from falaj.jobs.operations.jobs import REPORT_JOB, Report
from falaj.serving.operations.batches import FINISH_BATCH, READ_BATCH_FILE, SHOW_BATCH, Batch, OneBatch, ReadBatchFile
from falaj.tables.forms import Form


def main() -> int:
    try:
        with client_of_environment() as client:
            return BatchJob(client, project_of_environment(""), sys.argv[1]).run()
    except FalajError as error:
        print(f"falaj: {error}", file=sys.stderr, flush=True)
        return 1


class BatchJob:
    def __init__(self, client: Client, project: str, batch: str) -> None:
        self._client, self._project = client, project
        self._one = OneBatch(project=project, batch=batch)
        self._tables: Any = tables_library("falaj.tables.predicted")

    def run(self) -> int:
        batch = self._client.call(SHOW_BATCH, self._one)
        named = f"{batch.model} v{batch.version} on {batch.dataset}@{batch.number}"
        if batch.state == "done":
            _say(f"{named} was done before: it is {batch.into}@{batch.made}.")
            return 0
        opened = self._opened(batch)
        if opened.state != "committed":
            self._write(batch, opened, named)
        done = self._client.call(FINISH_BATCH, self._one)
        version = self._version(batch, done.made)
        _say(f"{batch.into}@{version.version} has {version.rows:,} rows, predicted by {named}.")
        if version.quarantined:
            _say(f"It broke a check of {batch.into} and is in quarantine; what was current stays so.")
            return 1
        return 0

    def _opened(self, batch: Batch) -> Write:
        origin = f"{batch.model} v{batch.version} on {batch.dataset}@{batch.number}"
        request = OpenWrite(
            project=self._project,
            dataset=batch.into,
            mode="append" if batch.append else "overwrite",
            form=Form(format="arrow"),
            origin=origin,
            key=batch.key,
        )
        return self._client.call(OPEN_WRITE, request)

    def _version(self, batch: Batch, number: int) -> Version:
        return self._client.call(SHOW_VERSION, OneVersion(project=self._project, dataset=batch.into, version=str(number)))

    def _write(self, batch: Batch, opened: Write, named: str) -> None:
        source = dataset(f"{batch.dataset}@{batch.number}", project=self._project, client=self._client)
        total = max(1, -(-len(source) // batch.rows))
        there = _prefix(opened)
        if there:
            _say(f"{there} of {total} pieces were written before; it goes on from there.")
        _say(f"{named}: {len(source):,} rows in {total} pieces of {batch.rows:,}.")
        predictor = Predictor(batch, self._contents(batch), threads=_cores())
        try:
            count = self._send_all(batch, opened, self._predicted(batch, source, predictor, there), there, total)
        finally:
            predictor.close()
        commit = CommitWrite(project=self._project, dataset=batch.into, write=opened.id, pieces=count)
        try:
            self._client.call(COMMIT_WRITE, commit)
        except Conflict:  # a version came between, or columns do not go together: the next try begins anew
            self._client.call(ABANDON_WRITE, OneWrite(project=self._project, dataset=batch.into, write=opened.id))
            raise

    def _contents(self, batch: Batch) -> dict[str, bytes]:
        found = {}
        for file in batch.files:
            request = ReadBatchFile(project=self._project, batch=batch.id, file=file.name)
            content = patiently(partial(self._fetched, request))
            if hashlib.sha256(content).hexdigest() != file.digest:
                raise Corrupt(f"The model's file {file.name!r} arrived as another than was planned.")
            found[file.name] = content
        return found

    def _fetched(self, request: ReadBatchFile) -> bytes:
        return b"".join(self._client.call(READ_BATCH_FILE, request).chunks)

    def _predicted(self, batch: Batch, source: Dataset, predictor: Predictor, skip: int) -> Iterator[tuple[bytes, int]]:
        """Pieces as they are sent, with how many rows each has."""
        if missing := [name for name in predictor.columns if name not in source.schema.names]:
            raise Conflict(f"The model takes {missing[0]!r}, which {batch.dataset}@{batch.number} has not.")
        wanted = list(dict.fromkeys((*predictor.columns, *batch.keep)))
        first = skip * batch.rows
        for piece in self._tables.pieces(source.batches(wanted), batch.rows, skip=skip):
            runs = []
            for start in range(0, piece.num_rows, predictor.at_once):
                rows = self._tables.plain_rows(piece, predictor.columns, start, predictor.at_once)
                runs.append(predictor.predict(rows, first + start))
            outputs = list(zip(predictor.outputs, joined(runs), strict=True))
            yield self._tables.with_predictions(piece, batch.keep, outputs), piece.num_rows
            first += piece.num_rows

    def _send_all(self, batch: Batch, opened: Write, made: Iterator[tuple[bytes, int]], there: int, total: int) -> int:
        """One after the other, so that what is there is always a beginning; while one is sent the next is predicted."""
        began, rows, number = time.monotonic(), 0, there
        with ThreadPoolExecutor(1, thread_name_prefix="sending") as sending:
            under_way: Future[None] | None = None
            for content, count in made:
                if under_way is not None:
                    under_way.result()
                number += 1
                under_way = sending.submit(self._send, batch, opened, number, content, total)
                rows += count
                seconds = max(time.monotonic() - began, 1e-9)
                _say(f"Piece {number} of {total}: {rows:,} rows predicted, {rows / seconds:,.0f} a second.")
            if under_way is not None:
                under_way.result()
        return number

    def _send(self, batch: Batch, opened: Write, number: int, content: bytes, total: int) -> None:
        part = WritePart(project=self._project, dataset=batch.into, write=opened.id, piece=number)
        patiently(lambda: self._client.call(WRITE_PART, part, chunks=[content]))
        if job := os.environ.get("FALAJ_JOB", ""):
            with suppress(FalajError):  # how far it is, is not worth failing for
                report = Report(project=self._project, job=job, checkpoint=True, progress=min(1.0, number / total))
                self._client.call(REPORT_JOB, report)


def _prefix(opened: Write) -> int:
    """How many of the first pieces are there, without a gap."""
    known, number = {piece.piece for piece in opened.pieces}, 0
    while number + 1 in known:
        number += 1
    return number


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _say(words: str) -> None:
    print(words, flush=True)


if __name__ == "__main__":
    sys.exit(main())
