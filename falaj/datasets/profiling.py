"""Profiles of versions: merged by a data worker from those of their parts, which were made as these were written and are kept
sealed beside them. No row is read. What was merged once is kept, too, sealed by the version."""

import contextlib
import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from falaj.base.errors import NotFound, TemporaryError
from falaj.base.values import value
from falaj.database.binding import Bound, bind_prepared
from falaj.database.work import Context, Database, UnitOfWork
from falaj.datasets.letting_go import PROFILE
from falaj.datasets.operations import profiles as declared
from falaj.datasets.operations.versions import OneVersion
from falaj.datasets.sight import Sight
from falaj.datasets.store import versions as store
from falaj.datasets.store.tables import Found
from falaj.datasets.views import required_dataset, required_version, schema_of
from falaj.datasets.workers import DataWorkers
from falaj.storage.service import BlobService, Owner, Reader
from falaj.tables.masking import shown_profile
from falaj.tables.schemas import Schema


@value
class Profiled:
    """What the profile of a version is merged from, or what was `merged` before. Needs no transaction."""

    schema: Schema
    parts: Sequence[tuple[Reader, Mapping[str, str] | None]]
    merged: Reader | None = None


class Profiles:
    """Thread-safe."""

    def __init__(self, database: Database, blobs: BlobService, workers: DataWorkers) -> None:
        self._database = database
        self._blobs = blobs
        self._workers = workers

    def opened(self, context: Context, version: Found) -> Profiled:
        if version.profile:
            return Profiled(schema=schema_of(version), parts=(), merged=self._blobs.open(context, version.profile))
        rows = [row for row in store.parts_of(context.work, version) if row.profile]
        parts = [(self._blobs.open(context, row.profile), json.loads(row.renamed) if row.renamed else None) for row in rows]
        return Profiled(schema=schema_of(version), parts=parts)

    def merged(self, of: Profiled) -> dict[str, Any]:
        """With the sketches, from which profiles are compared."""
        if of.merged is not None:
            kept: dict[str, Any] = json.loads(b"".join(of.merged.read()))
            return kept
        profiles = (json.loads(b"".join(reader.read())) for reader, _ in of.parts)
        found = self._workers.merge_profiles(profiles, of.schema, [renamed for _, renamed in of.parts])
        return found or self._workers.merge_profiles([_NOTHING], of.schema)

    def keep(self, context: Context, dataset: str, version: Found, merged: Mapping[str, Any]) -> None:
        """For those who come later. In a transaction of its own: merging again would give the same."""
        content = iter([json.dumps(merged).encode()])
        received = self._blobs.receive(context.required_project, version.zone, content)

        def enter(work: UnitOfWork) -> None:
            inside = dataclasses.replace(context, work=work)
            held = required_dataset(inside, dataset, hold=True)
            # Else it went meanwhile, or somebody else kept one: this is a leftover, and collected.
            if store.lacks_profile(work, held.id, version.id):
                blob = self._blobs.keep(inside, received, Owner(kind=PROFILE, id=version.id))
                store.keep_profile(work, version.id, blob.id)

        self._database.write(enter)

    def compared(self, before: Profiled, after: Profiled) -> list[dict[str, Any]]:
        return self._workers.compare_profiles(self.merged(before), self.merged(after))


class ProfileService:
    def __init__(self, database: Database, profiles: Profiles, sight: Sight) -> None:
        self._database = database
        self._sight = sight
        self._profiles = profiles

    def bindings(self) -> list[Bound]:
        return [bind_prepared(declared.PROFILE_VERSION, self.profile, _told)]

    def profile(self, context: Context, request: OneVersion) -> declared.Profile:
        version, opened, masked = self._database.read(
            lambda work: self._opened(dataclasses.replace(context, work=work), request)
        )
        merged = self._profiles.merged(opened)
        if len(opened.parts) > 1:
            with contextlib.suppress(TemporaryError, NotFound):  # as of a full disk: who asks is answered all the same
                self._profiles.keep(context, request.dataset, version, merged)
        found = shown_profile(merged, masked)
        return declared.Profile(
            dataset=request.dataset, version=version.number, rows=found["rows"], columns=tuple(found["columns"])
        )

    def _opened(self, context: Context, request: OneVersion) -> tuple[Found, Profiled, tuple[str, ...]]:
        dataset = required_dataset(context, request.dataset)
        version = required_version(context, dataset, request.version, quarantined_too=True)
        context.facts.update(dataset=dataset.id, version=version.id, number=version.number)
        return version, self._profiles.opened(context, version), self._sight.masked(context, dataset)


_NOTHING: Mapping[str, Any] = {"format": 1, "rows": 0, "columns": []}


def _told(_: Context, __: object, found: declared.Profile) -> declared.Profile:
    return found
