"""Questions about a small cluster, asked as the platform asks them: from what its database says, at the moment of its clock."""

from falaj.base.caller import Identity
from falaj.base.ids import PrincipalId, ProjectId
from falaj.database.work import Context
from falaj.governance.gate import project_facts
from falaj.governance.projects.store import project_by_id
from falaj.jobs import documents
from falaj.jobs.controller import SHIPPED_RULES
from falaj.jobs.documents import Document
from falaj.jobs.explaining import Explainer
from falaj.jobs.operations.jobs import Forecast, OneJob, Why
from falaj.jobs.operations.queues import CohortSpec, QueueSpec, Scenario, Simulate, Simulation
from falaj.jobs.scheduler.facts import Facts
from falaj.jobs.simulating import SimulationService
from falaj.jobs.standing import Standing
from falaj.jobs.store import queues
from tests.jobs.cluster import Cluster


def standing(cluster: Cluster) -> Standing:
    """Anew each time, for one that is kept answers from a moment ago."""
    return Standing(cluster.database, cluster.clock, SHIPPED_RULES.half_life)


def facts_of(cluster: Cluster) -> Facts:
    return standing(cluster).facts()


def explainer(cluster: Cluster) -> Explainer:
    return Explainer(cluster.database, standing(cluster), SHIPPED_RULES)


def context_of(cluster: Cluster) -> Context:
    found = cluster.database.read(lambda work: project_by_id(work, ProjectId(cluster.project)))
    assert found is not None
    identity = Identity(principal=PrincipalId(cluster.user), kind="person", name="owner", token=None, zone="home")
    made: Context = cluster.database.read(
        lambda work: Context(
            work=work, identity=identity, project=project_facts(found), now=cluster.clock.now(), request_id="", facts={}
        )
    )
    return made


def why(cluster: Cluster, job: str) -> Why:
    return explainer(cluster).why(context_of(cluster), OneJob(project="default", job=job))


def eta(cluster: Cluster, job: str) -> Forecast:
    return explainer(cluster).eta(context_of(cluster), OneJob(project="default", job=job))


def simulate(cluster: Cluster, *, now: bool = False, days: int = 14, **scenario: object) -> Simulation:
    service = SimulationService(cluster.database, cluster.clock, standing(cluster), SHIPPED_RULES)
    asked = Scenario(**scenario)  # type: ignore[arg-type]
    return service.simulate(context_of(cluster), Simulate(scenario=asked, days=days, now=now))


def set_queues(cluster: Cluster, *given: QueueSpec, cohorts: tuple[CohortSpec, ...] = (), serial: int = 1) -> None:
    document = documents.write(Document(queues=given, cohorts=cohorts))
    now = cluster.clock.now()
    cluster.database.write(lambda work: queues.add(work, serial=serial, document=document, by="", now=now))
