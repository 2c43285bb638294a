"""A version's whole life, by the platform's own operations: data with a check, a run on it, gates, approval, traffic, alert."""

from collections.abc import Callable
from typing import Any

from falaj.base.clock import DAY, HOUR
from falaj.database.work import UnitOfWork
from falaj.datasets.operations import checks
from falaj.governance.projects.store import project_named
from falaj.governance.roles import Role
from falaj.lifecycle.operations import pipelines
from falaj.lifecycle.operations.words import Definition, Step
from falaj.registry.evidence import Judgement, put_down
from falaj.registry.operations import promotions, versions
from falaj.registry.store import versions as version_store
from falaj.registry.store.evidence import define
from falaj.serving.operations import endpoints
from falaj.tracking.operations import experiments, runs
from tests.web import monitored, piped, scheduled, served, stored, tracked
from tests.web.conftest import Site

ROWS = b"id,amount,at\n" + b"".join(b"%d,%d,2026-11-%02dT09:00:00Z\n" % (n, 5 + n % 90, 1 + n % 28) for n in range(600))
MORE = b"id,amount,at\n" + b"".join(b"%d,%d,2026-12-%02dT09:00:00Z\n" % (n, 5 + n % 80, 1 + n % 28) for n in range(600, 840))


class Life:
    """In the project `fraud` of a platform with four eyes: Maryam trains and deploys, Khalid approves, Omar looks on.

    `later` is called with how long goes by between two chapters; a clock that cannot be turned lets none go by. With `jobs`,
    runs are those of jobs that take so many seconds, on a platform whose hosts are timers.
    """

    def __init__(self, site: Site, later: Callable[[int], None] = lambda span: None, *, jobs: float = 0) -> None:
        self.site, self.later, self.jobs = site, later, jobs
        site.project("fraud", "Card fraud")
        site.project("other")
        self.maryam = site.person("maryam", roles={"fraud": Role.ENGINEER})
        self.khalid = site.person("khalid", roles={"fraud": Role.VALIDATOR})
        self.omar = site.person("omar", roles={"fraud": Role.VIEWER})
        self.eve = site.person("eve", roles={"other": Role.ADMIN})

    def lived(self) -> versions.Version:
        """All of it; the version, which answers nine tenths at the end."""
        data = self.data()
        self.later(DAY)
        self.promoted(self.trained(data, "baseline", 0.81))
        self.deploy(version=1)
        self.later(DAY)
        version = self.trained(data, "deeper-trees", 0.88)
        self.later(5 * HOUR)
        self.promoted(version)
        self.later(HOUR)
        self.answering(version)
        self.watched()
        return version

    def data(self) -> Any:
        said = "card payments, cleaned"
        stored.write(self.site, ROWS, dataset="payments")
        stored.describe(self.site, said, dataset="payments")
        stored.declare(
            self.site,
            checks.Check(name="plausible", kind="range", columns=("amount",), least=0, most=60, severity="warn"),
            dataset="payments",
        )
        self.later(DAY)
        return stored.write(self.site, MORE, dataset="payments")

    def trained(self, data: Any, name: str, auc: float) -> versions.Version:
        """A version of `card-fraud`, of a run by Maryam on this data."""
        job = scheduled.submit(self.site, self.jobs, name=name, experiment="trees", token=self.maryam) if self.jobs else None
        if job is not None:
            scheduled.until(self.site, job, "running", "done")
        id = job.run if job is not None else self._run(name)
        tracked.log(
            self.site, id, params={"depth": "8", "rate": "0.05", "trees": "400"}, metrics={"auc": [auc], "log_loss": [0.21]}
        )
        used = runs.Dataset(name="payments", digest=data.lineage.rpartition("@")[2])
        self.site.call(
            runs.LOG_INPUTS,
            runs.LogInputs(project="fraud", run=id, datasets=(runs.DatasetInput(dataset=used),)),
            token=self.maryam,
        )
        self.later(HOUR // 2)
        ended = self.site.platform.clock.now() // 1000
        self.site.call(
            runs.UPDATE_RUN, runs.UpdateRun(project="fraud", run=id, status="FINISHED", ended=ended), token=self.maryam
        )
        if job is not None:
            scheduled.until(self.site, job, "done")
        found: versions.Version = tracked.register(self.site, id, token=self.maryam)
        self._judged(found, auc)
        return found

    def _run(self, name: str) -> str:
        known = self.site.call(experiments.SEARCH_EXPERIMENTS, experiments.SearchExperiments(project="fraud")).items
        number = next((one.id for one in known if one.name == "trees"), None) or tracked.experiment(self.site, "trees")
        started = self.site.platform.clock.now() // 1000
        request = runs.CreateRun(project="fraud", experiment=number, name=name, started=started)
        return str(self.site.call(runs.CREATE_RUN, request, token=self.maryam).info.id)

    def _judged(self, version: versions.Version, auc: float) -> None:
        """As the platform's own program does it, once its job has measured."""
        for gate, words in (("quality", f"auc {auc} on held-out rows, at least 0.8 wanted."), ("signature", "It is whole.")):

            def put(work: UnitOfWork, gate: str = gate, words: str = words) -> None:
                row = version_store.find_by_id(work, self._project(work), version.id)
                judged = Judgement(gate=gate, definition="d" * 64, passed=True, words=words, document={"auc": auc}, by="")
                now = self.site.platform.clock.now()
                defined = {"project": row.project, "name": gate, "definition": "{}", "digest": judged.definition}
                define(work, {**defined, "changed": now, "changed_by": row.created_by})
                put_down(work, project="fraud", version=row, judgement=judged, identity=None, now=now)

            self.site.platform.database.write(put)

    def _project(self, work: UnitOfWork) -> str:
        found = project_named(work, "fraud")
        assert found is not None
        return found.id

    def promoted(self, version: versions.Version) -> None:
        """Asked for by Maryam, approved by Khalid, moved by Maryam."""
        wish = promotions.Promote(project="fraud", model="card-fraud", version=version.version, reason="better on June")
        asked = self.site.call(promotions.PROMOTE, wish, token=self.maryam)
        self.later(3 * HOUR)
        given = promotions.GiveApproval(project="fraud", approval=asked.approval, note="figures looked at")
        self.site.call(promotions.GIVE_APPROVAL, given, token=self.khalid)
        self.later(HOUR // 2)
        self.site.call(promotions.PROMOTE, wish, token=self.maryam)

    def asked(self, version: versions.Version) -> None:
        """In a run of a pipeline by Maryam, who is agreed with by the owner."""
        handed = {"model": version.model, "version": version.version}
        steps = (
            Step(name="model", kind="value", arguments={"value": handed}),
            Step(name="asks", kind="approval", question=f"Shall version {version.version} answer?", after=("model",)),
        )
        piped.apply(self.site, "rollout", Definition(steps=steps), token=self.maryam)
        run = piped.start(self.site, "rollout", token=self.maryam)
        piped.until(self.site, run, "asks", "asking")
        self.site.call(pipelines.DECIDE_STEP, pipelines.Decide(project="fraud", run=run, step="asks", agree=True))

    def answering(self, version: versions.Version) -> None:
        """Beside the one before it; gone back once; then half, then nine tenths."""
        self.deploy(version=version.version, mode="canary", share=1000)
        self.later(DAY)
        back = endpoints.RollBack(project="fraud", endpoint="scores", reason="latency doubled")
        self.site.call(endpoints.ROLL_BACK, back)
        self.later(DAY // 2)
        self.deploy(version=version.version, mode="canary", share=5000)
        self.later(DAY)
        arms = (endpoints.Arm(revision=1, share=1000), endpoints.Arm(revision=3, share=9000))
        self.site.call(endpoints.SPLIT_TRAFFIC, endpoints.Split(project="fraud", endpoint="scores", arms=arms))

    def deploy(self, **fields: Any) -> Any:
        request = endpoints.Deploy(project="fraud", endpoint="scores", model="card-fraud", **fields)
        return self.site.call(endpoints.DEPLOY_REVISION, request)

    def watched(self) -> None:
        """Calls, errors, an alert that is over and one that is not."""
        endpoint = served.show(self.site)
        plane = monitored.Plane(self.site)
        plane.report(endpoint, **served.did(4200, errors=6))
        self.later(DAY)
        monitored.apply(self.site)
        monitored.sight(self.site, monitored.drift())
        self.later(DAY)
        plane.report(endpoint, **served.did(3900, errors=2))
