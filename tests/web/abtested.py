"""A/B tests for the pages to show: an endpoint with two revisions, calls as a plane logs them, and labels for them."""

import json
from typing import Any

from falaj.base.clock import Moment
from falaj.monitoring.operations import abtests as declared
from falaj.monitoring.operations.abtests import Abtest, Candidate, Design
from falaj.monitoring.operations.labels import ADD_LABELS, AddLabels, Label
from falaj.serving.operations import endpoints
from falaj.serving.operations.endpoints import Options
from tests.web import served
from tests.web.conftest import Site


class Contested:
    """Revision 1 answers, revision 2 is there."""

    def __init__(self, site: Site) -> None:
        self.site = site
        for _ in range(2):
            served.version(site)
        served.deploy(site, 1, options=Options(log_share=10_000))
        served.deploy(site, 2)
        promoted = endpoints.PromoteRevision(project="fraud", endpoint="scores", revision=1)
        self.endpoint = site.call(endpoints.PROMOTE_REVISION, promoted)
        self.plane = served.Plane(site)
        self.made = 0

    def begin(self, name: str = "checkout", **fields: Any) -> Abtest:
        design = Design(candidates=(Candidate(revision=2),), **fields)
        request = declared.CreateAbtest(project="fraud", endpoint="scores", name=name, design=design)
        found: Abtest = self.site.call(declared.CREATE_ABTEST, request)
        self.plane.report(served.show(self.site))
        self.step()
        return found

    def step(self) -> None:
        self.site.platform.monitoring.step(self.site.platform.clock.now())

    def served(self, revision: int, right: int, rows: int) -> None:
        """So many predictions, of which so many were right."""
        now = self.site.platform.clock.now()
        ids = [f"call-{self.made + place}" for place in range(rows)]
        self.made += rows
        calls = [served.call(self.endpoint, id, Moment(now), revision=revision, outputs=json.dumps({"y": [1]})) for id in ids]
        self.plane.report(served.show(self.site), calls=tuple(calls))
        labels = tuple(Label(id=id, truth=float(place < right)) for place, id in enumerate(ids))
        self.site.call(ADD_LABELS, AddLabels(project="fraud", endpoint="scores", labels=labels))

    def show(self, which: str = "checkout") -> Abtest:
        found: Abtest = self.site.call(declared.SHOW_ABTEST, declared.OneAbtest(project="fraud", abtest=which))
        return found
