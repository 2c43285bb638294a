"""Endpoints: looking at them, setting how they answer, and letting go of them. Who gets what is decided in `deploying.py`."""

from falaj.base.pages import page_of, read_cursor, read_text_cursor
from falaj.base.values import Nothing
from falaj.database.binding import Bound, bind
from falaj.database.work import Context
from falaj.serving.logs import LOG
from falaj.serving.operations import endpoints as declared
from falaj.serving.operations.endpoints import Endpoint
from falaj.serving.revisions import REVISION
from falaj.serving.states import PURPOSE
from falaj.serving.store import endpoints as store
from falaj.serving.store import logs as log_store
from falaj.serving.store import states
from falaj.serving.views import (
    changes_shown,
    endpoint_shown,
    endpoints_shown,
    options_written,
    required_endpoint,
    revisions_shown,
)
from falaj.storage.service import BlobService, Owner


class EndpointService:
    def __init__(self, blobs: BlobService) -> None:
        self._blobs = blobs

    def bindings(self) -> list[Bound]:
        return [
            bind(declared.LIST_ENDPOINTS, self.list),
            bind(declared.SHOW_ENDPOINT, self.show),
            bind(declared.CONFIGURE, self.configure),
            bind(declared.DELETE_ENDPOINT, self.delete),
            bind(declared.READ_CHANGES, self.changes),
            bind(declared.READ_REVISIONS, self.revisions),
        ]

    def list(self, context: Context, request: declared.ListEndpoints) -> declared.Endpoints:
        after = read_text_cursor(request.cursor)
        found = store.page(context.work, context.required_project.id, after, request.limit + 1)
        page, following = page_of(found, request.limit, lambda row: (row.name,))
        return declared.Endpoints(items=endpoints_shown(context.work, page, context.now), next=following)

    def show(self, context: Context, request: declared.OneEndpoint) -> Endpoint:
        return endpoint_shown(context.work, required_endpoint(context, request.endpoint), context.now)

    def configure(self, context: Context, request: declared.Configure) -> Endpoint:
        endpoint = required_endpoint(context, request.endpoint, hold=True)
        serial = states.bump(context.work, endpoint.zone, PURPOSE, context.now)
        options = options_written(request.options)
        store.change(context.work, endpoint.id, options=options, serial=serial, changed=context.now)
        context.facts.update(endpoint=endpoint.id, serial=serial)
        return endpoint_shown(context.work, required_endpoint(context, request.endpoint), context.now)

    def delete(self, context: Context, request: declared.OneEndpoint) -> Nothing:
        endpoint = required_endpoint(context, request.endpoint, hold=True)
        for revision in store.delete(context.work, endpoint.id, context.now):
            self._blobs.release(context, Owner(kind=REVISION, id=revision))
        for holder in log_store.forget_endpoint(context.work, endpoint.id):
            self._blobs.release(context, Owner(kind=LOG, id=holder))
        serial = states.bump(context.work, endpoint.zone, PURPOSE, context.now)
        context.facts.update(endpoint=endpoint.id, serial=serial)
        return Nothing()

    def changes(self, context: Context, request: declared.ReadChanges) -> declared.Changes:
        endpoint = required_endpoint(context, request.endpoint)
        before = int(read_cursor(request.cursor, int)[0]) if request.cursor else None
        found = store.changes_before(context.work, endpoint.id, before, request.limit + 1)
        page, following = page_of(found, request.limit, lambda row: (row.place,))
        return declared.Changes(items=changes_shown(context.work, page), next=following)

    def revisions(self, context: Context, request: declared.ReadRevisions) -> declared.Revisions:
        endpoint = required_endpoint(context, request.endpoint)
        before = int(read_cursor(request.cursor, int)[0]) if request.cursor else None
        found = store.revisions_before(context.work, endpoint.id, before, request.limit + 1)
        page, following = page_of(found, request.limit, lambda row: (row.number,))
        return declared.Revisions(items=revisions_shown(context.work, page), next=following)
