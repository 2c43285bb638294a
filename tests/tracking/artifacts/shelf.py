"""A small platform for the tests of artifacts: storage's own, with runs and logged models to keep files for."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import func, select

from falaj.base.clock import Clock
from falaj.base.ids import new_id
from falaj.base.operation import Download, Operation, Record
from falaj.base.pages import Limit
from falaj.database.binding import Bound
from falaj.database.work import UnitOfWork
from falaj.storage import store as storage_store
from falaj.tracking.artifacts import store
from falaj.tracking.artifacts.service import ArtifactService
from falaj.tracking.models.service import LoggedModelService
from falaj.tracking.operations import artifacts as declared
from falaj.tracking.operations import models
from falaj.tracking.store.runs import ACTIVE, add_run, set_deleted
from tests.storage.platform import Caller as StorageCaller
from tests.storage.platform import Platform as StoragePlatform

Res = TypeVar("Res")


class NoWork(UnitOfWork):
    """What a first step is given for a transaction."""

    def __init__(self) -> None: ...

    def execute(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("the first step has no transaction")


class Caller(StorageCaller):
    """Somebody in a project, who calls operations as the dispatcher would."""

    platform: "Shelf"

    def call(self, operation: Operation[Any, Res], chunks: Iterator[bytes] | None = None, **fields: Any) -> Res:
        first = self.begin(operation, chunks, **fields)
        return self.complete(operation, first, **fields)

    def begin(self, operation: Operation[Any, Any], chunks: Iterator[bytes] | None = None, **fields: Any) -> tuple[Any, ...]:
        """Only the step before the transaction."""
        request = operation.request(project=self.facts.name, **fields)
        return self.platform.bound[operation.name].first_step(self.context(NoWork()), request, chunks)

    def complete(self, operation: Operation[Any, Res], first: tuple[Any, ...], **fields: Any) -> Res:
        request, bound = operation.request(project=self.facts.name, **fields), self.platform.bound[operation.name]
        reads = operation.record in (Record.PLAIN_READ, Record.SENSITIVE_READ)
        result: Res = (self.read if reads else self.write)(lambda context: bound.handle(context, request, *first))
        return result

    # Files

    def save(self, holder: str, name: str, content: bytes | Iterator[bytes] = b"x", zone: str = "") -> declared.Artifact:
        chunks = iter([content]) if isinstance(content, bytes) else content
        return self.call(declared.PUT_ARTIFACT, chunks, holder=holder, name=name, zone=zone)

    def load(self, holder: str, name: str, offset: int = 0, length: int = 0) -> bytes:
        download = self.download(holder, name, offset, length)
        content = b"".join(download.chunks)
        assert len(content) == download.size
        return content

    def download(self, holder: str, name: str, offset: int = 0, length: int = 0) -> Download:
        return self.call(declared.GET_ARTIFACT, holder=holder, name=name, offset=offset, length=length)

    def entries(self, holder: str, folder: str = "", *, deep: bool = False, limit: Limit = 1000) -> list[declared.Entry]:
        """All pages of a listing."""
        found: list[declared.Entry] = []
        cursor = ""
        while True:
            page = self.call(declared.LIST_ARTIFACTS, holder=holder, folder=folder, deep=deep, limit=limit, cursor=cursor)
            found += page.items
            assert len(page.items) == limit or not page.next
            if not page.next:
                return found
            cursor = page.next

    def names(self, holder: str, folder: str = "", *, deep: bool = False, limit: Limit = 1000) -> list[str]:
        """Folders are marked by a slash."""
        return [entry.name + "/" * entry.folder for entry in self.entries(holder, folder, deep=deep, limit=limit)]

    def remove(self, holder: str, name: str = "") -> int:
        return self.call(declared.DELETE_ARTIFACTS, holder=holder, name=name).count

    # Parts

    def begin_upload(self, holder: str, name: str) -> str:
        return self.call(declared.BEGIN_UPLOAD, holder=holder, name=name).id

    def put_part(self, upload: str, part: int, content: bytes) -> declared.Part:
        return self.call(declared.PUT_PART, iter([content]), upload=upload, part=part)

    def finish_upload(self, upload: str, *parts: declared.Part) -> declared.Artifact:
        return self.call(declared.FINISH_UPLOAD, upload=upload, parts=parts)

    # Holders

    def new_run(self) -> str:
        now = self.platform.clock.now()
        row = {"experiment": 0, "name": "r", "user": "", "status": "RUNNING", "started": 0, "ended": None, "deleted": ACTIVE}
        row |= {"id": new_id(now), "created": now, "created_by": self.identity.principal}
        assert self.write(lambda context: add_run(context.work, self.facts.id, row)) is not None
        return str(row["id"])

    def set_run(self, run: str, state: int) -> None:
        self.write(lambda context: set_deleted(context.work, self.facts.id, run, state))

    def new_model(self, run: str = "") -> str:
        return self.call(models.CREATE_LOGGED_MODEL, run=run).id


class Shelf(StoragePlatform):
    def __init__(self, folder: Path, postgres_url: str | None = None, clock: Clock | None = None) -> None:
        super().__init__(folder, postgres_url, clock)
        self.artifacts = ArtifactService(self.service, self.database)
        services = (self.artifacts, LoggedModelService())
        self.bound: dict[str, Bound] = {bound.operation.name: bound for one in services for bound in one.bindings()}

    def caller(self, project: str = "alpha", person: str = "amal") -> Caller:
        return Caller(self, project, person)

    def settle(self) -> None:
        """Everything that waits in the background is done: expiry, releases and garbage collection."""
        while self.artifacts.step(self.clock.now()):
            pass
        self.collect()

    def count(self, *tables: Any) -> list[int]:
        def counted(work: UnitOfWork) -> list[int]:
            return [int(work.execute(select(func.count()).select_from(table)).scalar_one()) for table in tables]

        return self.database.read(counted)

    def assert_nothing_leaks(self) -> None:
        """Every blob is referred to by exactly the rows that name it, and every object is a blob's."""
        self.settle()

        def look(work: UnitOfWork) -> tuple[set[tuple[str, str, str]], set[tuple[str, str, str]], set[str]]:
            named = {(row.blob, store.ARTIFACT, row.id) for row in work.execute(select(store.artifacts))}
            named |= {(row.blob, store.UPLOAD, row.id) for row in work.execute(select(store.parts))}
            references = select(storage_store.references).where(storage_store.references.c.kind != "user")
            referred = {(row.blob, row.kind, row.owner) for row in work.execute(references)}
            return named, referred, set(work.execute(select(storage_store.blobs.c.object)).scalars())

        named, referred, objects = self.database.read(look)
        assert named == referred
        assert self.objects() == objects
        assert self.count(store.leftovers) == [0]
