"""An endpoint whose calls are logged and get labels, on a platform under a clock that tests turn."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from falaj.base.clock import Moment
from falaj.database.work import Context, UnitOfWork
from falaj.governance.projects.store import project_by_id
from falaj.monitoring.joined import Joined
from falaj.monitoring.operations.labels import (
    ADD_LABELS,
    READ_QUALITY,
    Added,
    AddLabels,
    Bucket,
    Figure,
    Label,
    Quality,
    ReadQuality,
)
from falaj.monitoring.sealing import inside
from falaj.monitoring.store import labels as store
from falaj.monitoring.store.tables import Found
from falaj.serving.operations.endpoints import Endpoint, Options
from falaj.serving.operations.planes import CallReport
from falaj.serving.store.endpoints import find_by_id
from tests.serving.control.platform import PROJECT, Platform, called


class Labelled:
    def __init__(self, platform: Platform) -> None:
        self.platform, self.clock = platform, platform.clock
        self.endpoint: Endpoint = platform.deploy(platform.register().version, options=Options(log_share=10_000)).endpoint
        self.plane = platform.plane()

    def call(
        self,
        id: str,
        outputs: Mapping[str, Any],
        inputs: Mapping[str, Any] | None = None,
        at: Moment | None = None,
        **fields: Any,
    ) -> CallReport:
        """One call as a plane writes it down."""
        given = {"inputs": json.dumps(inputs or {"x": [[1.5, 2.5]]}), "outputs": json.dumps(outputs)} | fields
        return called(self.endpoint, id, at or self.clock.now(), **given)

    def log(self, *calls: CallReport) -> None:
        self.plane.report(calls=calls)

    def add(self, *labels: Label, token: str = "", project: str = PROJECT, within: int = 86_400) -> Added:
        request = AddLabels(project=project, endpoint="scores", labels=labels, within=within)
        return self.platform.call(ADD_LABELS, request, token)

    def context(self, work: UnitOfWork) -> Context:
        project = project_by_id(work, self.row(work).project)
        assert project is not None
        return inside(work, project, self.endpoint.zone, self.clock.now())

    def row(self, work: UnitOfWork) -> Found:
        found = find_by_id(work, self.endpoint.id)
        assert found is not None
        return found

    def rows(self) -> list[Joined]:
        """All that was joined so far, as others of the room read it."""
        labels = self.platform.app.monitoring.labels

        def read(work: UnitOfWork) -> list[Joined]:
            return labels.rows(self.context(work), self.row(work), store.batches_after(work, self.endpoint.id, 0, 1000))

        return self.platform.app.database.read(read)

    def quality(self, **fields: Any) -> Quality:
        return self.platform.call(READ_QUALITY, ReadQuality(project=PROJECT, endpoint="scores", **fields))

    def predicted(self, answers: Sequence[Any], truths: Sequence[Any], **fields: Any) -> None:
        """One call for each answer, logged, and its truth told."""
        for start in range(0, len(answers), 500):
            some = range(start, min(start + 500, len(answers)))
            calls = [self.call(f"{self.clock.now()}-{place}", _outputs(answers[place]), **fields) for place in some]
            self.log(*calls)
            added = self.add(*(Label(id=call.id, truth=truths[place]) for call, place in zip(calls, some, strict=True)))
            assert added.taken == len(some)


def _outputs(answer: Any) -> dict[str, Any]:
    return answer if isinstance(answer, dict) else {"y": [answer]}


def figures(bucket: Bucket) -> dict[str, Figure]:
    return {one.name: one for one in bucket.figures}
