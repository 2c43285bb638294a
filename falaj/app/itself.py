"""The handlers of what the platform tells about itself."""

import json
import logging
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from falaj import __version__
from falaj.api.openapi import document_of
from falaj.base.errors import FalajError, Unavailable
from falaj.base.operation import Download, Operation
from falaj.base.values import Nothing
from falaj.database.binding import Bound, bind, bind_prepared
from falaj.database.work import Context
from falaj.keys.ring import PLATFORM
from falaj.operations import operations as declared

if TYPE_CHECKING:
    from falaj.app.platform import Platform


log = logging.getLogger(__name__)


def _state(part: str, probe: Callable[[], object]) -> str:
    try:
        probe()
    except FalajError as error:
        log.warning("%s: %s", part, error)
        return "failing"
    return "ok"


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
        """How the parts are that live outside the database. Anybody may ask, so the answer names no path or address."""
        platform = self._platform
        parts = {f"loop {loop.name}": "failing" if loop.failure else "ok" for loop in platform.loops}
        parts["keys"] = _state("keys", lambda: platform.ring.versions(PLATFORM))
        for name, blobs in platform.places.items():
            parts[f"storage {name}"] = _state(f"storage {name}", blobs.probe)
        return parts

    def ready(self, _context: Context, _request: Nothing, parts: dict[str, str]) -> declared.Readiness:
        if broken := [part for part, state in parts.items() if state != "ok"]:
            raise Unavailable(f"Not ready: {', '.join(broken)}. `falaj doctor` says more.")
        return declared.Readiness(ready=True, parts={"database": "ok", **parts})

    def openapi(self, _context: Context, _request: Nothing) -> Download:
        content = self._document()
        return Download(chunks=iter((content,)), size=len(content), name="openapi.json", media_type="application/json")

    def metrics(self, context: Context, _request: Nothing) -> Download:
        content = self._platform.metrics.exposition() + self._platform.monitoring.metrics.exposition(context)
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
