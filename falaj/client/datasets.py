"""Datasets in notebooks and jobs: `falaj.dataset("flights@3").arrow()`, and `falaj.save_dataset("flights", frame)`."""

import io
import weakref
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import IO, TYPE_CHECKING, Any, Final

from falaj.base.errors import Conflict, Unavailable
from falaj.client.dataset_loaders import Feeds
from falaj.client.dataset_pieces import PieceToSend, tables_library
from falaj.client.dataset_writes import write
from falaj.client.environments import client_of_environment, project_of_environment
from falaj.client.http import Client
from falaj.datasets.operations.reading import GRANT_READ, READ_PART, GrantedPart, GrantRead, ReadGrant, ReadPart
from falaj.datasets.operations.versions import Version
from falaj.datasets.operations.words import Mode
from falaj.datasets.operations.writing import OpenWrite
from falaj.tables.forms import Form
from falaj.tables.schemas import Schema

if TYPE_CHECKING:
    from falaj.tables.granted import GrantedTable

_ATTEMPTS: Final = 4


def dataset(reference: str, *, project: str = "", client: Client | None = None) -> "Dataset":
    """A version to read: `flights` is the current one, `flights@3` and `flights@audited` are others.

    Which version that is, is decided now: later ones do not change it. The platform is the client's, or that of FALAJ_URL and
    FALAJ_TOKEN; the project FALAJ_PROJECT's.
    """
    name, _, version = reference.partition("@")
    request = GrantRead(project=project_of_environment(project), dataset=name, version=version or "current")
    if client is not None:
        return Dataset(client, request.project, client.call(GRANT_READ, request))
    own = client_of_environment()
    try:
        opened = Dataset(own, request.project, own.call(GRANT_READ, request))
    except BaseException:
        own.close()
        raise
    weakref.finalize(opened, own.close)  # with the last that reads it
    return opened


def save_dataset(
    name: str,
    data: Any,
    *,
    mode: Mode = "append",
    keys: Sequence[str] = (),
    evolve: bool = False,
    origin: str = "",
    project: str = "",
    client: Client | None = None,
) -> Version:
    """Write a version from rows in memory: an Arrow table or batches, a pandas or polars frame, a list of dictionaries.

    `mode` is append, overwrite or merge, which replaces rows by `keys`. With `evolve` columns may be added and widened. A
    dataset that is not there is made. Raises `Conflict` where the version broke a check of the dataset, and is in quarantine.
    """
    streams = tables_library("falaj.tables.outgoing").streams(data)
    pieces = (PieceToSend(number=number, content=content) for number, content in enumerate(streams, 1))
    request = OpenWrite(
        project=project_of_environment(project),
        dataset=name,
        mode=mode,
        form=Form(format="arrow"),
        keys=tuple(keys),
        evolve=evolve,
        create=True,
        origin=origin,
    )
    with nullcontext(client) if client else client_of_environment() as caller:
        return published(write(caller, request, pieces).version)


def published(version: Version) -> Version:
    """Raises `Conflict` where it is not: it broke a check, and is in quarantine."""
    if not version.quarantined:
        return version
    broken = "; ".join(f"{one.check}: {one.says} ({one.rows:,} rows)" for one in version.findings if one.severity == "fail")
    raise Conflict(f"{version.dataset}@{version.version} is in quarantine, and what was current stays so: {broken}.")


class Dataset(Feeds):
    """One version, opened here: the platform gives keys and sealed bytes. Thread-safe."""

    def __init__(self, caller: Client, project: str, grant: ReadGrant) -> None:
        self._caller, self._project = caller, project
        self._parts = grant.parts
        self.name: str = grant.dataset
        self.version, self.rows, self.digest, self.lineage = grant.version, grant.rows, grant.digest, grant.lineage
        self.schema = Schema(columns=grant.columns)

    def __repr__(self) -> str:
        return f"<dataset {self.name}@{self.version}: {self.rows:,} rows, columns {', '.join(self.schema.names)}>"

    def __len__(self) -> int:
        return self.rows

    def columns(self, names: Sequence[str] | None = None) -> Schema:
        """What a reading of these columns has; all of them where none are named."""
        return self.schema if names is None else Schema(columns=tuple(self.schema.column(name) for name in names))

    def arrow(self, columns: Sequence[str] | None = None) -> Any:
        """All rows as a `pyarrow.Table`."""
        return self._table().table(columns)

    def batches(self, columns: Sequence[str] | None = None, *, rows: int = 65_536) -> Iterator[Any]:
        """Arrow batches of at most so many rows, in their order, with no more than two parts in memory."""
        return self._table().batches(columns, rows=rows)

    def pandas(self, columns: Sequence[str] | None = None) -> Any:
        return self._table().pandas(columns)

    def polars(self, columns: Sequence[str] | None = None) -> Any:
        return self._table().polars(columns)

    def share(self, number: int, of: int, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """Arrow batches of one of `of` equal shares of its row groups: for those who read beside each other."""
        return self._table().share(number, of, columns)

    def _table(self) -> "GrantedTable":
        granted = tables_library("falaj.tables.granted")
        parts = [
            granted.SealedPart(
                object_id=part.object,
                key=bytes.fromhex(part.key),
                renamed=part.renamed or {},
                fetch=_Fetching(self, part).all,
                seek=_Fetching(self, part).file,
            )
            for part in self._parts
        ]
        table: GrantedTable = granted.GrantedTable(self.schema, parts)
        return table

    def fetched(self, part: str, offset: int, length: int) -> bytes:
        """Some sealed bytes of a part; asked for again where the connection broke."""
        request = ReadPart(project=self._project, dataset=self.name, part=part, offset=offset, length=length)
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return b"".join(self._caller.call(READ_PART, request).chunks)
            except Unavailable:
                if attempt == _ATTEMPTS:
                    raise
        raise AssertionError("unreachable")


class _Fetching:
    def __init__(self, dataset: Dataset, part: GrantedPart) -> None:
        self._dataset, self._part = dataset, part

    def all(self) -> bytes:
        return self._dataset.fetched(self._part.id, 0, self._part.size)

    def file(self) -> IO[bytes]:
        return io.BufferedReader(_Remote(self._dataset, self._part), 1 << 16)


class _Remote(io.RawIOBase):
    """A sealed part over there, as a file that can be read at any place."""

    def __init__(self, dataset: Dataset, part: GrantedPart) -> None:
        self._dataset, self._part, self._at = dataset, part, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._part.size}[whence]
        return self._at

    def readinto(self, into: Any) -> int:
        view = memoryview(into)
        length = min(len(view), self._part.size - self._at)
        if length <= 0:
            return 0
        data = self._dataset.fetched(self._part.id, self._at, length)
        view[: len(data)] = data
        self._at += len(data)
        return len(data)
