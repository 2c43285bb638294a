"""What the engine itself remembers of an attempt: one ConfigMap each, made before anything else of it.

Whoever makes the record has begun the attempt, and whoever writes `stop` into it has ended it, whatever comes later; so two
controllers at once begin an attempt once, and one that was stopped before it began never does.
"""

import json
from collections.abc import Iterator
from typing import Any, Final

from falaj.base.clock import DAY, Moment
from falaj.base.errors import Conflict
from falaj.base.values import value
from falaj.jobs.engines.engine import Seen, Used
from falaj.jobs.engines.kube.api import Api, Object
from falaj.jobs.engines.kube.manifests import ATTEMPT, MANAGED, name_of
from falaj.jobs.engines.kube.pods import Ending
from falaj.jobs.engines.understanding import UNREADABLE, Senseless, over

_STATE: Final = "falaj/record"
_REMEMBERED: Final = 7 * DAY  # that an attempt was forgotten, so that nobody who comes late begins it again


@value
class Stop:
    """When somebody asked for it, and by when it is to be over."""

    at: int
    until: int


class Record:
    """One attempt, as it was read."""

    def __init__(self, told: Object) -> None:
        self._told = told
        self.attempt: str = told["metadata"]["labels"][ATTEMPT]
        self.version: str = told["metadata"]["resourceVersion"]
        data = told.get("data") or {}
        self.order: dict[str, Any] = json.loads(data.get("order", "{}"))
        self.is_made = "made" in data  # its Job was
        self.started = Moment(int(data["started"])) if "started" in data else None
        self.stop = Stop(**json.loads(data["stop"])) if "stop" in data else None
        self.ended: dict[str, Any] | None = json.loads(data["ended"]) if "ended" in data else None
        self.is_forgotten = told["metadata"]["labels"].get(_STATE) == "forgotten"
        self.created = Moment.parse(told["metadata"]["creationTimestamp"])

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(self.order.get("nodes", ()))

    @property
    def is_over(self) -> bool:
        return self.ended is not None or self.is_forgotten

    def seen(self) -> Seen:
        """As it ended."""
        assert self.ended is not None  # nosec B101 - asked for by those who looked
        try:
            return over(self.attempt, self.ended, self.nodes)
        except Senseless:
            lost = {"cause": "lost", "words": UNREADABLE, "ended": int(self.created)}
            return over(self.attempt, lost, self.nodes)


def ended_text(ending: Ending, started: Moment | None, ended: Moment, used: Used) -> str:
    about = {name: getattr(used, name) for name in Used.__dataclass_fields__}
    start = None if started is None else int(started)
    return json.dumps(
        {
            "cause": ending.cause,
            "code": ending.code,
            "words": ending.words,
            "started": start,
            "ended": int(max(ended, started or ended)),
            "used": about,
        }
    )


class Records:
    """Thread-safe."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._path = api.inside("", "configmaps")

    def all(self) -> Iterator[Record]:
        """Those that nobody has forgotten."""
        selector = ",".join(f"{key}={text}" for key, text in {**MANAGED, _STATE: "open"}.items())
        return (Record(told) for told in self._api.list(self._path, labelSelector=selector))

    def find(self, attempt: str) -> Record | None:
        told = self._api.get(f"{self._path}/{name_of(attempt)}")
        return None if told is None else Record(told)

    def add(self, attempt: str, data: dict[str, str]) -> Record | None:
        """None where there is one."""
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name_of(attempt), "labels": {**MANAGED, ATTEMPT: attempt, _STATE: "open"}},
            "data": data,
        }
        told = self._api.create(self._path, body)
        return None if told is None else Record(told)

    def write(self, record: Record, data: dict[str, str]) -> Record | None:
        """None where it was changed or removed since it was read: whoever asked looks again."""
        body = {"metadata": {"resourceVersion": record.version}, "data": data}
        try:
            told = self._api.patch(f"{self._path}/{name_of(record.attempt)}", body)
        except Conflict:
            return None
        return None if told is None else Record(told)

    def forget(self, record: Record, now: Moment) -> None:
        body = {
            "metadata": {"labels": {_STATE: "forgotten"}},
            "data": {"order": None, "ended": None, "forgotten": str(int(now))},
        }
        self._api.patch(f"{self._path}/{name_of(record.attempt)}", body)

    def clean(self, now: Moment) -> None:
        """What need not be remembered any more."""
        selector = ",".join(f"{key}={text}" for key, text in {**MANAGED, _STATE: "forgotten"}.items())
        for told in self._api.list(self._path, labelSelector=selector):
            if int(told["data"]["forgotten"]) < now - _REMEMBERED:
                self._api.delete(f"{self._path}/{told['metadata']['name']}")
