"""Feature views as a plane reads them: from the online store, in process, by what the signed state opens of it."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from falaj.base.clock import Moment
from falaj.base.errors import Unavailable
from falaj.base.ids import ProjectId
from falaj.datasets.online.rows import Field
from falaj.datasets.online.sealing import ViewSecrets
from falaj.datasets.online.stores import OnlineStore
from falaj.datasets.online.views import Asked, Found, OnlineView, ViewShape, read_together
from falaj.serving.states import LookupView

_LOOKS: Final = 5.0  # seconds between looks at whether the store still has what was materialised
_LATER: Final = 5.0


class Views:
    """Opens the store when it is first needed. Thread-safe; `opening` None is a host that has no way to it."""

    def __init__(self, opening: Callable[[], OnlineStore] | None) -> None:
        self._opening = opening
        self._lock = threading.Lock()
        self._store: OnlineStore | None = None

    def of(self, project: str, told: Sequence[LookupView]) -> list["ReadView"]:
        """Raises `Unavailable` where they cannot be read here."""
        for one in told:
            if one.problem:
                raise Unavailable(one.problem, delay=_LATER)
        return [ReadView(self._opened(), project, one) for one in told]

    def close(self) -> None:
        with self._lock:
            if self._store is not None:
                self._store.close()

    def _opened(self) -> OnlineStore:
        if self._opening is None:
            raise Unavailable(
                "This host has no way to the online store that features are looked up in: set [features] redis "
                "(FALAJ_FEATURES_REDIS) to the server that the platform uses.",
                delay=_LATER,
            )
        with self._lock:
            if self._store is None:
                self._store = self._opening()
            return self._store


class ReadView:
    """One version of a view. Thread-safe."""

    def __init__(self, store: OnlineStore, project: str, told: LookupView) -> None:
        self.told, self.project = told, project
        self.keys = tuple(key.name for key in told.keys)
        names = [field.name for field in told.features]
        self.places = {name: names.index(name) for name in told.wanted}
        self.nothing: Mapping[str, Any] = {name: 0 if name in told.counts else None for name in told.wanted}
        secrets = ViewSecrets(
            place=bytes.fromhex(told.place),
            entities=bytes.fromhex(told.entities),
            rows={version: bytes.fromhex(key) for version, key in (told.seals or {}).items()},
        )
        shape = ViewShape(
            project=ProjectId(project),
            name=told.reference,
            entity=tuple(Field(name=key.name, type=key.type) for key in told.keys),
            features=tuple(Field(name=field.name, type=field.type) for field in told.features),
            time_to_live=told.time_to_live,
        )
        self.online = OnlineView(store, secrets, shape)
        self._looked = 0.0

    def check(self) -> None:
        """Whether anything of it is there: without that every entity would look like one that nobody knows."""
        now = time.monotonic()
        if now - self._looked > _LOOKS:
            if self.online.freshness().complete is None:
                raise Unavailable(
                    f"The online store has nothing of the feature view {self.told.reference!r}: materialise it again.",
                    delay=_LATER,
                )
            self._looked = now


def found_in(views: Sequence[ReadView], entities: Mapping[str, Sequence[Any]], now: Moment) -> list[list[Found | None]]:
    """What each view says of every row's entity, in one reading of the store. `entities` are the values of keys, by name."""
    for view in views:
        view.check()
    asked = [Asked(view.online, list(zip(*(entities[key] for key in view.keys), strict=True))) for view in views]
    return read_together(asked, now=now)
