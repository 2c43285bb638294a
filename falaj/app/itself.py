"""The handlers of what the platform tells about itself."""

import json
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from falaj import __version__
from falaj.api.openapi import document_of
from falaj.base.errors import Unavailable
from falaj.base.operation import Download, Operation
from falaj.base.values import Nothing
from falaj.database.binding import Bound, bind, bind_prepared
from falaj.database.work import Context
from falaj.operations import operations as declared

if TYPE_CHECKING:
    from falaj.app.platform import Platform


class PlatformService:
    def __init__(self, platform: "Platform", operations: Sequence[Operation[Any, Any]]) -> None:
        self._platform = platform
        self._operations = operations

    def bindings(self) -> list[Bound]:
        return [
            bind(declared.HEALTH, self.health),
            bind_prepared(declared.READY, self.probe, self.ready),
            bind(declared.OPENAPI, self.openapi),
            bind(declared.METRICS, self.metrics),
            bind(declared.SHOW, self.show),
        ]

    def health(self, _context: Context, _request: Nothing) -> declared.Health:
        return declared.Health(status="ok", version=__version__)

    def probe(self, _context: Context, _request: Nothing) -> dict[str, str]:
        """How the parts are that live outside the database."""
        parts = {f"loop {loop.name}": loop.failure or "ok" for loop in self._platform.loops}
        for name, blobs in self._platform.places.items():
            try:
                blobs.probe()
                parts[f"storage {name}"] = "ok"
            except Unavailable as error:
                parts[f"storage {name}"] = str(error)
        return parts

    def ready(self, _context: Context, _request: Nothing, parts: dict[str, str]) -> declared.Readiness:
        if broken := [f"{part}: {state}" for part, state in parts.items() if state != "ok"]:
            raise Unavailable("; ".join(broken))
        return declared.Readiness(ready=True, parts={"database": "ok", **parts})

    def openapi(self, _context: Context, _request: Nothing) -> Download:
        content = self._document()
        return Download(chunks=iter((content,)), size=len(content), name="openapi.json", media_type="application/json")

    def metrics(self, _context: Context, _request: Nothing) -> Download:
        content = self._platform.metrics.exposition()
        return Download(chunks=iter((content,)), size=len(content), name="metrics.txt", media_type="text/plain; version=0.0.4")

    def show(self, _context: Context, _request: Nothing) -> declared.PlatformInfo:
        settings = self._platform.settings
        return declared.PlatformInfo(
            version=__version__,
            profile=settings.platform.profile,
            zone=settings.platform.zone,
            country=settings.platform.country,
            storages=tuple(sorted(self._platform.places)),
            oidc=bool(settings.oidc.issuer),
        )

    @cache  # noqa: B019  (one platform per process)
    def _document(self) -> bytes:
        return json.dumps(document_of(self._operations, __version__)).encode()
