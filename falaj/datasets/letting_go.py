"""Forgetting parts: of datasets that were deleted, and of writes that were given up. The first at once, many beside."""

from collections.abc import Sequence
from typing import Final

from falaj.base.caller import Identity, ProjectFacts
from falaj.base.clock import DAY, Moment
from falaj.base.ids import PrincipalId, ProjectId
from falaj.database.work import Context, Database, UnitOfWork
from falaj.datasets.store import checks as check_store
from falaj.datasets.store import pushes as push_store
from falaj.datasets.store import versions as version_store
from falaj.datasets.store import writes as write_store
from falaj.datasets.store.tables import Found
from falaj.storage.service import BlobService, Owner

PART: Final = "dataset-part"
COPY: Final = "dataset-copy"
EVIDENCE: Final = "dataset-evidence"
PROFILE: Final = "dataset-profile"
WRITES_LIVE: Final = DAY  # without progress
PUSHES_KNOWN: Final = 2 * DAY  # by their keys, after they were published
AT_ONCE: Final = 200


class LettingGo:
    def __init__(self, database: Database, blobs: BlobService) -> None:
        self._database = database
        self._blobs = blobs

    def of_dataset(self, context: Context, dataset: str) -> None:
        """The first parts of one that was just deleted, and what is kept of rows that broke its checks."""
        for row in check_store.with_evidence(context.work, dataset):
            self._blobs.release(context, Owner(kind=EVIDENCE, id=row.version))
        self._profiles(context, version_store.forget_profiles(context.work, dataset, pruned=False))
        self._drop(context, version_store.parts_of_deleted(context.work, AT_ONCE, dataset))

    def of_pruned(self, context: Context, dataset: str) -> None:
        """The first parts that only pruned versions had, and their profiles."""
        self._profiles(context, version_store.forget_profiles(context.work, dataset, pruned=True))
        self._drop(context, version_store.parts_of_pruned(context.work, AT_ONCE, dataset))

    def of_write(self, context: Context, write: str) -> None:
        """The first parts of one that was just given up."""
        self._drop(context, write_store.parts_of_abandoned(context.work, AT_ONCE, write))

    def of_parts(self, context: Context, ids: Sequence[str]) -> None:
        """Parts that belong to nothing any more."""
        for id in ids:
            self._blobs.release(context, Owner(kind=PART, id=id))
            self._blobs.release(context, Owner(kind=COPY, id=id))
        version_store.drop_parts(context.work, ids)

    def step(self, now: Moment) -> bool:
        """One round; whether there is more."""
        self._database.write(lambda work: write_store.abandon_old(work, Moment(now - WRITES_LIVE)))
        self._database.write(lambda work: push_store.forget_old(work, Moment(now - PUSHES_KNOWN)))
        return self._database.write(lambda work: self._some(work, now)) == AT_ONCE

    def _some(self, work: UnitOfWork, now: Moment) -> int:
        due = list(version_store.parts_of_deleted(work, AT_ONCE))
        due += write_store.parts_of_abandoned(work, AT_ONCE - len(due))
        due += push_store.parts_of_done(work, AT_ONCE - len(due))
        if not due:  # the one that takes longest to find
            due += version_store.parts_of_pruned(work, AT_ONCE)
        for project in sorted({row.project for row in due}):
            self._drop(of_itself(work, project, now), [row for row in due if row.project == project])
        return len(due)

    def _profiles(self, context: Context, versions: Sequence[str]) -> None:
        for version in versions:
            self._blobs.release(context, Owner(kind=PROFILE, id=version))

    def _drop(self, context: Context, rows: Sequence[Found]) -> None:
        self.of_parts(context, [row.id for row in rows])


def of_itself(work: UnitOfWork, project: str, now: Moment) -> Context:
    """The context of what the platform does by itself for a project."""
    nobody = Identity(principal=PrincipalId(""), kind="process", name="datasets", token=None, zone="")
    facts = ProjectFacts(id=ProjectId(project), name="", places=())
    return Context(work=work, identity=nobody, project=facts, now=now, request_id="", facts={})
