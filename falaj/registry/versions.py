"""Versions: looking at them, searching, tagging, reading and comparing their files, and letting go of them.

Registering one is in `registering.py`, verifying its bytes in `verifying.py`, moving its stage in `promotions.py`.
"""

import json
from typing import Final

from falaj.base.errors import Conflict, Corrupt, Invalid, NotFound
from falaj.base.operation import Download
from falaj.base.pages import cursor_after, page_of, read_cursor
from falaj.base.values import Nothing
from falaj.database.binding import Bound, bind
from falaj.database.filters import Ordering, Searchable, parse_filter, parse_order
from falaj.database.work import Context
from falaj.registry.comparing import file_changes, metric_changes, signature_of, text_changes
from falaj.registry.lineage import data_behind
from falaj.registry.operations import versions as declared
from falaj.registry.operations.versions import VersionFile
from falaj.registry.operations.words import ACTIVE_STAGES
from falaj.registry.sources import Dependents, RunFacts, Sources
from falaj.registry.store import approvals as approval_store
from falaj.registry.store import models as model_store
from falaj.registry.store import searching
from falaj.registry.store import versions as store
from falaj.registry.store.tables import Found
from falaj.registry.verifying import VERSION, Verifier, files_gone
from falaj.registry.views import is_convertible, required_model, required_version, version_shown, versions_shown
from falaj.storage.service import BlobService, Owner

_TEXTS: Final = frozenset({"name", "run_id", "source_path"})
_FILTERED: Final = Searchable(texts=_TEXTS, numbers=frozenset({"version_number"}), aliases={"version": "version_number"})
_ORDERED: Final = Searchable(
    texts=_TEXTS,
    numbers=frozenset({"version_number", "creation_timestamp", "last_updated_timestamp"}),
    aliases={"timestamp": "last_updated_timestamp", "version": "version_number"},
    kinds=frozenset(),
)
_NEWEST_FIRST: Final = (
    Ordering(kind="attribute", key="last_updated_timestamp", descending=True),
    Ordering(kind="attribute", key="name"),
    Ordering(kind="attribute", key="version_number", descending=True),
)
_NOTHING_KNOWN: Final = RunFacts(params={}, metrics={})


class VersionService:
    def __init__(self, blobs: BlobService, sources: Sources, verifier: Verifier, dependents: Dependents | None = None) -> None:
        self._blobs = blobs
        self._dependents = dependents
        self._sources = sources
        self._verifier = verifier

    def bindings(self) -> list[Bound]:
        return [
            bind(declared.SHOW_VERSION, self.show),
            bind(declared.FIND_VERSION, self.find),
            bind(declared.SEARCH_VERSIONS, self.search),
            bind(declared.DESCRIBE_VERSION, self.describe),
            bind(declared.DELETE_VERSION, self.delete),
            bind(declared.TAG_VERSION, self.tag),
            bind(declared.UNTAG_VERSION, self.untag),
            bind(declared.LIST_VERSION_FILES, self.files),
            bind(declared.GET_VERSION_FILE, self.file),
            bind(declared.GET_SIGNATURE, self.signature),
            bind(declared.GET_SBOM, self.sbom),
            bind(declared.CHECK_SERVABLE, self.servable),
            bind(declared.DIFF_VERSIONS, self.diff),
        ]

    # For the models they belong to

    def let_go(self, context: Context, version: str) -> None:
        """Drop a version's files, and what was made of them; its row stays, for the history that speaks of it."""
        self._blobs.release(context, Owner(kind=VERSION, id=version))
        if self._dependents is not None:
            self._dependents.let_go(context, version)
        store.update_version(context.work, version, deleted=context.now)

    # Handlers

    def show(self, context: Context, request: declared.OneVersion) -> declared.Version:
        return version_shown(context.work, required_version(context, request.model, request.version))

    def find(self, context: Context, request: declared.FindVersion) -> declared.Version:
        found = store.find_by_id(context.work, context.required_project.id, request.id)
        if found is None:
            raise NotFound(f"There is no version with the id {request.id} here.")
        return version_shown(context.work, found)

    def search(self, context: Context, request: declared.SearchVersions) -> declared.Versions:
        offset = max(int(read_cursor(request.cursor, int)[0]), 0) if request.cursor else 0
        filters, orders = parse_filter(request.filter, _FILTERED), parse_order(request.order, _ORDERED)
        found = searching.search_versions(
            context.work,
            context.required_project.id,
            filters,
            (*orders, *_NEWEST_FIRST),
            offset=offset,
            limit=request.limit + 1,
        )
        page = versions_shown(context.work, found[: request.limit])
        return declared.Versions(items=page, next=cursor_after(offset + len(page)) if len(found) > len(page) else "")

    def describe(self, context: Context, request: declared.DescribeVersion) -> declared.Version:
        version = required_version(context, request.model, request.version)
        store.update_version(context.work, version.id, description=request.description, changed=context.now)
        return version_shown(context.work, required_version(context, request.model, request.version))

    def delete(self, context: Context, request: declared.OneVersion) -> Nothing:
        model = required_model(context, request.model, hold=True)
        version = required_version(context, request.model, request.version)
        pointing = [row.alias for row in model_store.aliases_of(context.work, [model.id]) if row.version == request.version]
        if pointing:
            named = ", ".join(pointing)
            raise Conflict(f"The alias {named} points at version {request.version} of {request.model!r}; move it first.")
        if version.stage in ACTIVE_STAGES:
            raise Conflict(
                f"Version {request.version} of {request.model!r} is in the stage {version.stage}; move it to another first."
            )
        approval_store.void(context.work, model.id, request.version)
        self.let_go(context, version.id)
        context.facts["version"] = version.id
        return Nothing()

    def tag(self, context: Context, request: declared.TagVersion) -> Nothing:
        version = required_version(context, request.model, request.version)
        store.set_tag(context.work, version.id, request.key, request.value)
        return Nothing()

    def untag(self, context: Context, request: declared.UntagVersion) -> Nothing:
        """A tag that is not there is no trouble, as clients expect."""
        version = required_version(context, request.model, request.version)
        store.remove_tag(context.work, version.id, request.key)
        return Nothing()

    def files(self, context: Context, request: declared.ListVersionFiles) -> declared.VersionFiles:
        version = required_version(context, request.model, request.version)
        after = int(read_cursor(request.cursor, int)[0]) if request.cursor else -1
        found = store.files_after(context.work, version.id, after, request.limit + 1)
        page, following = page_of(found, request.limit, lambda row: (row.position,))
        return declared.VersionFiles(items=tuple(_file(row) for row in page), next=following)

    def file(self, context: Context, request: declared.GetVersionFile) -> Download:
        version = required_version(context, request.model, request.version)
        row = store.file_named(context.work, version.id, request.name)
        if row is None or row.name != request.name:
            raise NotFound(f"Version {request.version} of {request.model!r} has no file {request.name!r}.")
        self._verifier.check_file(context.work, version, row)
        try:
            stored = self._blobs.show(context, row.blob)
        except NotFound:
            raise files_gone(version, [row.name]) from None
        if stored.digest != row.digest:
            raise Corrupt(f"What is stored as {request.name!r} is not what was registered.")
        reader = self._blobs.open(context, row.blob)
        if request.offset > reader.size:
            raise Invalid(f"The offset {request.offset} lies behind the end of the file, which has {reader.size} bytes.")
        size = min(request.length or reader.size, reader.size - request.offset)
        context.facts.update(version=version.id, digest=row.digest)
        return Download(chunks=reader.read(request.offset, size), size=size, name=row.name.rpartition("/")[2])

    def signature(self, context: Context, request: declared.OneVersion) -> Download:
        version = required_version(context, request.model, request.version)
        bundle = store.documents_of(context.work, version.id).bundle
        if not bundle:
            raise NotFound(f"Version {request.version} of {request.model!r} is not signed: its files are not in Falaj.")
        return _document(bundle, "model.sig", "application/json")

    def sbom(self, context: Context, request: declared.OneVersion) -> Download:
        version = required_version(context, request.model, request.version)
        bill = store.documents_of(context.work, version.id).sbom
        return _document(bill, f"version-{request.version}.cdx.json", "application/vnd.cyclonedx+json")

    def servable(self, context: Context, request: declared.OneVersion) -> declared.ServableCheck:
        version = required_version(context, request.model, request.version)
        return declared.ServableCheck(
            model=version.model_name,
            version=version.number,
            ok=version.servable,
            convertible=is_convertible(version),
            runtime=version.runtime,
            reasons=tuple(json.loads(version.reasons)),
        )

    def diff(self, context: Context, request: declared.DiffVersions) -> declared.VersionDiff:
        before = required_version(context, request.model, request.version)
        after = required_version(context, request.other_model or request.model, request.other)
        shown, other = versions_shown(context.work, [before, after])
        old, new = self._run(context, before.run), self._run(context, after.run)
        listed = [[_file(row) for row in store.files_of(context.work, version.id)] for version in (before, after)]
        return declared.VersionDiff(
            version=shown,
            other=other,
            files=file_changes(*listed),
            signature=text_changes(signature_of(shown), signature_of(other)),
            params=text_changes(old.params, new.params),
            metrics=metric_changes(old.metrics, new.metrics),
            data_before=data_behind(context, before.id),
            data_after=data_behind(context, after.id),
        )

    def _run(self, context: Context, run: str) -> RunFacts:
        return (self._sources.run(context, run) if run else None) or _NOTHING_KNOWN


def _file(row: Found) -> VersionFile:
    return VersionFile(name=row.name, size=row.size, digest=row.digest)


def _document(text: str, name: str, media_type: str) -> Download:
    content = text.encode()
    return Download(chunks=iter((content,)), size=len(content), name=name, media_type=media_type)
