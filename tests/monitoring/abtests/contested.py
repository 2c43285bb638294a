"""An endpoint with revisions to test against each other, whose calls are logged and get labels."""

import json
from collections.abc import Sequence
from typing import Any

from falaj.base.clock import SECOND
from falaj.monitoring.operations import abtests as declared
from falaj.monitoring.operations.abtests import Abtest, Candidate, Design
from falaj.monitoring.operations.labels import ADD_LABELS, Added, AddLabels, Label
from falaj.serving.operations.endpoints import CONFIGURE, Configure, Options
from tests.serving.control.platform import PROJECT, Platform, called, said


class Contested:
    """Revision 1 answers everything; `revisions` are there."""

    def __init__(self, platform: Platform, revisions: int = 3) -> None:
        self.platform, self.clock, self.revisions = platform, platform.clock, revisions
        platform.deployed(revisions)
        self.endpoint = platform.promote(1)
        platform.call(CONFIGURE, Configure(project=PROJECT, endpoint="scores", options=Options(log_share=10_000)))
        self.plane = platform.plane()
        self.made = 0

    def begin(self, *candidates: int, token: str = "", name: str = "trial", **fields: Any) -> Abtest:
        chosen = tuple(Candidate(revision=one) for one in candidates or (2,))
        request = declared.CreateAbtest(
            project=PROJECT, endpoint="scores", name=name, design=Design(candidates=chosen, **fields)
        )
        return self.platform.call(declared.CREATE_ABTEST, request, token)

    def begun(self, *candidates: int, **fields: Any) -> Abtest:
        """And all planes have taken it up."""
        self.begin(*candidates, **fields)
        self.take_up()
        return self.show()

    def take_up(self) -> None:
        self.plane.report(*(said(self.endpoint, one) for one in range(1, self.revisions + 1)))
        self.step()
        self.clock.forward(SECOND)

    def step(self, seconds: float = 0) -> None:
        self.clock.forward(round(seconds * SECOND))
        while self.platform.app.monitoring._abtests.step(self.clock.now()):
            pass

    def served(
        self, revision: int, outcomes: Sequence[float], units: Sequence[str] = (), values: Sequence[dict[str, float]] = ()
    ) -> Added:
        """Predictions of a revision that were right (1) or not (0), with their labels: one batch."""
        start, self.made = self.made, self.made + len(outcomes)
        ids = [f"call-{start + place}" for place in range(len(outcomes))]
        now = self.clock.now()
        calls = [called(self.endpoint, id, now, revision=revision, outputs=json.dumps({"y": [1]})) for id in ids]
        self.plane.report(calls=calls)
        labels = [
            Label(
                id=id,
                truth=float(outcome),
                unit=units[place] if units else "",
                values=values[place] if values else None,
            )
            for place, (id, outcome) in enumerate(zip(ids, outcomes, strict=True))
        ]
        return self.platform.call(ADD_LABELS, AddLabels(project=PROJECT, endpoint="scores", labels=tuple(labels)))

    def round(self, rights: dict[int, tuple[int, int]]) -> None:
        """By revision: so many right ones of so many."""
        for revision, (right, rows) in rights.items():
            self.served(revision, [1.0] * right + [0.0] * (rows - right))

    def show(self, which: str = "trial", token: str = "") -> Abtest:
        return self.platform.call(declared.SHOW_ABTEST, declared.OneAbtest(project=PROJECT, abtest=which), token)

    def stop(self, which: str = "trial", token: str = "", **fields: Any) -> Abtest:
        return self.platform.call(declared.STOP_ABTEST, declared.StopAbtest(project=PROJECT, abtest=which, **fields), token)

    def points(self, which: str = "trial") -> declared.Points:
        return self.platform.call(declared.READ_POINTS, declared.OneAbtest(project=PROJECT, abtest=which))

    def shares(self) -> dict[int, int]:
        return {arm.revision: arm.share for arm in self.platform.show().arms}
