"""Data workers: processes inside walls that read and write what users bring, so that the control plane never parses data.

`falaj.tables.worker` is the program inside. It gets descriptors and keys with each order, and has no network, no files and no
environment of its own. `working` has the rest of the outside.
"""

import fcntl
import itertools
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import IO, Any, Final

from falaj.base.errors import TooLarge
from falaj.base.values import value
from falaj.datasets.working import answers
from falaj.datasets.working.errors import WorkerFailed
from falaj.datasets.working.pools import Pool
from falaj.datasets.working.processes import DataWorker
from falaj.datasets.working.spooling import Spools
from falaj.runtimes.sandbox import Sandbox
from falaj.runtimes.walls import Bounds
from falaj.tables.forms import Form
from falaj.tables.orders import Bins, Looked, PartFacts, QueryLimits, Rows, Surveyed, TableToRead
from falaj.tables.schemas import Schema
from falaj.tables.telling import told_form, told_key, told_schema, told_table

__all__ = ["Answer", "DataWorkers", "MadePart", "Source", "WorkerFailed", "in_memory"]

Source = int | Iterable[bytes]
"""Where bytes come from: a descriptor of a file, or chunks as they arrive, which touch no disk."""

MEMORY_BYTES: Final = 4 << 30
_SQL_SHARE: Final = 0.6  # of that; the rest is for reading, decrypting and answering
_LARGEST_FILE: Final = 16 << 30
_FILES: Final = 16_384
_SPARE: Final = 256  # of these, for the libraries
_PROFILED: Final = 6000  # columns whose profiles are merged at a time
_AHEAD: Final = 8 << 20
_GRACE: Final = 5.0
_LIMITS: Final = QueryLimits()
_PREVIEW_WITHIN: Final = 60.0
_COUNT_WITHIN: Final = 600.0


@value
class MadePart:
    """A sealed part in a file without a name, at its start, with what is known of it. Whoever asked for it closes `file`."""

    file: IO[bytes]
    facts: PartFacts


@value
class Answer:
    """What a query found, as an Arrow stream in memory, at its start. Whoever asked closes `file`. `more`: the limit cut it."""

    file: IO[bytes]
    schema: Schema
    rows: int
    size: int
    more: bool


class DataWorkers:
    """Thread-safe. An order waits for a worker that is free; each is bounded in time and memory. Everything raises what the
    worker found (`Invalid`, `TooLarge`, `Altered`, ...) with its words, `WorkerFailed` where the worker failed, `Misconfigured`
    where there are no walls or no data libraries, `Unavailable` where none is free for long.

    At most `workers` at a time, each with so much memory and so many threads. `folder` is where parts lie until somebody stores
    them, sealed, in files without a name.
    """

    def __init__(
        self,
        *,
        workers: int = 2,
        memory_bytes: int = MEMORY_BYTES,
        threads: int = 2,
        folder: Path | None = None,
        interpreter: str = "",
    ) -> None:
        self._folder, self.memory_bytes, self._threads = folder, memory_bytes, threads
        sandbox = Sandbox(interpreter)
        bounds = Bounds(memory_bytes=memory_bytes, threads=threads, files=_FILES, file_bytes=_LARGEST_FILE)
        self._pool = Pool(lambda: DataWorker(sandbox, bounds), workers)
        self._spools = Spools(folder)

    def make_part(
        self, source: Source, *, form: Form, schema: Schema | None, key: bytes, object_id: str, seconds: float = 600.0
    ) -> MadePart:
        """Read a source and seal its rows as one part under a key of its own. With a schema rows are brought into it (columns
        by name, narrower types widened, columns that can be null may be absent) or refused; without one types are found."""
        told = {
            "order": "make",
            "form": told_form(form),
            "schema": None if schema is None else told_schema(schema),
            "key": told_key(key),
            "object_id": object_id,
        }
        if isinstance(source, int):
            return self.made(lambda into: self.do(told, [source, into], seconds=seconds))
        return self.made(lambda into: self.do(told, [into], seconds=seconds, chunks=source))

    def make_part_of(
        self,
        tables: Mapping[str, TableToRead],
        sql: str,
        *,
        schema: Schema | None,
        key: bytes,
        object_id: str,
        seconds: float = 600.0,
    ) -> MadePart:
        """What one SELECT over these tables finds, sealed as a part, without a row of it outside of the walls. With a schema it
        is brought into that. One thread does it: several would give the rows of a join in another order each time, and sums
        of floats other bits."""
        files = [-1]
        told = {
            **self._query("make_of_query", tables, sql, QueryLimits(seconds=seconds), files),
            "threads": 1,
            "schema": None if schema is None else told_schema(schema),
            "key": told_key(key),
            "object_id": object_id,
        }
        return self.made(lambda into: self.do(told, [into, *files[1:]], seconds=seconds + _GRACE))

    def query(self, tables: Mapping[str, TableToRead], sql: str, *, limits: QueryLimits = _LIMITS) -> Answer:
        """One SELECT over these tables and nothing else. A name like `sales@3` is quoted in SQL: `SELECT * FROM "sales@3"`."""
        into = in_memory(limits.bytes + _AHEAD)
        try:
            files = [into.fileno()]
            answer = self.do(self._query("query", tables, sql, limits, files), files, seconds=limits.seconds + _GRACE)
            schema, rows, size = answers.schema(answer), answers.number(answer, "rows"), answers.number(answer, "size")
            os.ftruncate(into.fileno(), min(size, limits.bytes + _AHEAD))
            into.seek(0)
            return Answer(file=into, schema=schema, rows=rows, size=size, more=answer.get("more") is True)
        except BaseException:
            into.close()
            raise

    def query_rows(self, tables: Mapping[str, TableToRead], sql: str, *, limits: QueryLimits = _LIMITS) -> Rows:
        """The same, as rows for JSON."""
        files: list[int] = []
        told = self._query("query_rows", tables, sql, limits, files)
        return answers.rows(self.do(told, files, seconds=limits.seconds + _GRACE), limits.rows)

    def refuse_unlike_condition(self, where: str, hidden: Sequence[str] = ()) -> None:
        """Raises `Invalid` unless the text is one expression about a row, with none of the hidden columns in it: only then may
        it be made a part of a query."""
        self.do({"order": "check_condition", "where": where, "hidden": list(hidden)}, [], seconds=_PREVIEW_WITHIN)

    def looked_through(self, sql: str) -> Looked:
        """What one SELECT reads, by its text. Raises `Invalid` for anything else."""
        return answers.looked(self.do({"order": "look_through", "sql": sql}, [], seconds=_PREVIEW_WITHIN))

    def preview(self, table: TableToRead, *, rows: int = 100, columns: Sequence[str] = ()) -> Rows:
        """The first rows."""
        files: list[int] = []
        told = {"order": "preview", "table": told_table(table, files), "rows": rows, "columns": list(columns)}
        return answers.rows(self.do(told, files, seconds=_PREVIEW_WITHIN), rows)

    def survey(
        self, table: TableToRead, names: Sequence[str], *, ranks: Sequence[float] = (), kinds: int = 0, sampled: int = 0
    ) -> dict[str, Surveyed]:
        """Where bins of these columns should lie: see `falaj.tables.counting`. As many rows are told as are `sampled`."""
        files: list[int] = []
        told = {
            "order": "survey",
            "table": told_table(table, files),
            "names": list(names),
            "ranks": list(ranks),
            "kinds": kinds,
            "sampled": sampled,
        }
        answer = self.do(told, files, seconds=_COUNT_WITHIN)
        return answers.surveyed(answer, names, ranks=len(ranks), kinds=kinds, sampled=sampled)

    def count(self, table: TableToRead, columns: Sequence[Bins], *, slot: str = "") -> dict[str, dict[str, tuple[int, ...]]]:
        """How many rows each bin holds, by column and by what `slot` makes of a row in SQL, or an empty text."""
        files: list[int] = []
        told = {
            "order": "count",
            "table": told_table(table, files),
            "bins": [[column.name, column.edges, column.kinds] for column in columns],
            "slot": slot,
            "seconds": _COUNT_WITHIN,
            "memory_bytes": int(self.memory_bytes * _SQL_SHARE),
            "threads": self._threads,
        }
        return answers.counted(self.do(told, files, seconds=_COUNT_WITHIN + _GRACE), columns)

    def merge_profiles(
        self, profiles: Iterable[Mapping[str, Any]], schema: Schema, renamed: Iterable[Mapping[str, str] | None] = ()
    ) -> dict[str, Any]:
        """The profile of a version with this schema from those of its parts. `renamed` says for each part what its columns are
        called now."""
        whole: list[Mapping[str, Any]] = []
        names: list[Mapping[str, str] | None] = []
        coming = zip(profiles, itertools.chain(renamed, itertools.repeat(None)), strict=False)
        while some := list(itertools.islice(coming, max(1, _PROFILED // len(schema.columns)))):
            told = {
                "order": "merge_profiles",
                "profiles": [*whole, *(profile for profile, _ in some)],
                "renamed": [*names, *(calls for _, calls in some)],
                "schema": told_schema(schema),
            }
            whole, names = [answers.profile(self.do(told, [], seconds=_PREVIEW_WITHIN))], [None]
        return dict(whole[0]) if whole else {}

    def compare_profiles(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[dict[str, Any]]:
        """What changed between two profiles, by column: see `falaj.tables.comparing`."""
        told = {"order": "compare_profiles", "before": before, "after": after}
        return answers.columns(self.do(told, [], seconds=_PREVIEW_WITHIN))

    def do(
        self, told: Mapping[str, Any], files: Sequence[int], *, seconds: float, chunks: Iterable[bytes] | None = None
    ) -> dict[str, Any]:
        """Any order of `falaj.tables.doing`. What comes back is what the worker says: believe nothing of it. `chunks` are read
        through a pipe, whose end goes before the other descriptors; a worker is taken once all of them are there."""
        if len(files) > _FILES - _SPARE:
            raise TooLarge(
                f"This reads {len(files)} parts, and at most {_FILES - _SPARE} can be open at a time: compact the dataset."
            )
        with nullcontext(None) if chunks is None else self._spools.whole(chunks) as arrived, self._pool.worker() as worker:
            answer = worker.do(told, files, seconds=seconds, chunks=arrived)
        answers.refuse_errors(answer)
        return answer

    def made(self, order: Callable[[int], dict[str, Any]]) -> MadePart:
        """A part, by an order that seals it into the descriptor it is given."""
        into = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 - whoever asked closes it
        try:
            facts = answers.facts(order(into.fileno()), os.fstat(into.fileno()).st_size)
            into.seek(0)
            return MadePart(file=into, facts=facts)
        except BaseException:
            into.close()
            raise

    def close(self) -> None:
        """Those at work are closed as they finish."""
        self._pool.close()

    def _query(
        self, order: str, tables: Mapping[str, TableToRead], sql: str, limits: QueryLimits, files: list[int]
    ) -> dict[str, Any]:
        return {
            "order": order,
            "tables": {name: told_table(table, files) for name, table in tables.items()},
            "sql": sql,
            "limits": {"seconds": limits.seconds, "rows": limits.rows, "bytes": limits.bytes},
            "memory_bytes": int(self.memory_bytes * _SQL_SHARE),
            "threads": self._threads,
        }


def in_memory(most: int) -> IO[bytes]:
    """A file that nobody can make larger than this, whoever has its descriptor."""
    file = os.memfd_create("answer", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(file, most)
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW)
    return os.fdopen(file, "r+b")
