"""Letting go of searches: one that ends, and all of a version that is deleted, with every form that was made of it."""

import json
from collections.abc import Sequence
from typing import Final

from falaj.database.work import Context
from falaj.optimisation.names import WITH_FILES
from falaj.optimisation.store import optimisations as store
from falaj.optimisation.store import variants as variant_store
from falaj.optimisation.store.tables import Found
from falaj.optimisation.variants import OWNER as OF_VARIANT
from falaj.storage.service import BlobService, Owner

OWNER: Final = "optimisation"  # the kind of owner that its files have
_DELETED: Final = "The version was deleted."
_STUDENT_DELETED: Final = "The version that was to be taught was deleted."


class Ending:
    """Thread-safe. Implements the registry's `Dependents`."""

    def __init__(self, blobs: BlobService) -> None:
        self._blobs = blobs

    def end(self, context: Context, row: Found, state: str, remarks: Sequence[str], reason: str) -> None:
        """What was made stays, and what was certified; the rest is dropped for the reason, and nothing is held any more."""
        known = json.loads(row.found)
        known["remarks"] = [*known.get("remarks", ()), *remarks]
        store.end(context.work, row.id, state, json.dumps(known), context.now)
        for dropped in variant_store.give_up(context.work, row.id, reason, context.now):
            self._blobs.release(context, Owner(kind=OF_VARIANT, id=dropped))
        self._blobs.release(context, Owner(kind=OWNER, id=row.id))

    def let_go(self, context: Context, version: str) -> None:
        """Other forms of a version that is deleted are deleted with it: nobody could name them any more. Certificates stay, and
        so does what is deployed. A search that teaches it ends, and what it made so far stays."""
        for row in store.open_of_version(context.work, context.required_project.id, version):
            self.end(context, row, store.ABANDONED, (_DELETED,), _DELETED)
        for row in store.open_with_student(context.work, context.required_project.id, version):
            self.end(context, row, store.ABANDONED, (_STUDENT_DELETED,), _STUDENT_DELETED)
        for row in variant_store.of_version(context.work, version):
            if row.state in WITH_FILES:
                variant_store.remove(context.work, row.id)
                variant_store.change(context.work, row.id, state="dropped", reason=_DELETED, settled=context.now)
                self._blobs.release(context, Owner(kind=OF_VARIANT, id=row.id))
