"""The pages of jobs and queues, and for who operates the platform those of hosts, capacity and what might be."""

from typing import Any, Final

from falaj.base.operation import Group
from falaj.base.values import Nothing
from falaj.jobs.operations import jobs, nodes, queues
from falaj.web.jobs import cluster, fields, job, listing
from falaj.web.jobs import queues as shares
from falaj.web.pages import Data, Form, Load, Page
from falaj.web.sitemap.asking import THIS_PROJECT, always, may_here, of_path, to
from falaj.web.visits import Visit

READS: Final = may_here(Group.READ)
JOBS: Final = "/projects/{project}/jobs"
JOB: Final = "/projects/{project}/jobs/{job}"
QUEUES: Final = "/projects/{project}/queues"
CLUSTER: Final = "/cluster"
ALL_QUEUES: Final = Load(operation=queues.LIST_ALL_QUEUES, request=always(Nothing()))
ALL_HOSTS: Final = Load(operation=nodes.LIST_NODES, request=always(Nothing()))


def _to_submitted(visit: Visit, made: jobs.Submitted) -> str:
    return f"/projects/{visit.project}/jobs/{made.job.id}"


def _back_to_job(visit: Visit, _result: Any) -> str:
    return f"/projects/{visit.project}/jobs/{visit.submitted.get('job', '')}"


PAGES: Final = (
    Page(
        path=JOBS,
        section="projects",
        template="jobs.html",
        loads={
            "project": THIS_PROJECT,
            "jobs": Load(operation=jobs.LIST_JOBS, request=listing.jobs, when=READS),
            "queues": Load(operation=queues.LIST_QUEUES, request=listing.queues, when=READS),
            "reasons": Load(operation=jobs.EXPLAIN_JOB, request=listing.reasons, when=READS, each=True),
        },
        forms=(
            Form(operation=jobs.SUBMIT_JOB, then=_to_submitted, beside=True, request=fields.submission),
            Form(operation=jobs.PLAN_JOB, beside=True, request=fields.submission, after=fields.foreseen),
            Form(operation=jobs.CANCEL_JOB, then=_back_to_job),
            Form(operation=jobs.RETRY_JOB, then=_to_submitted),
        ),
        derive=listing.rows,
    ),
    Page(
        path=JOB,
        section="projects",
        template="job.html",
        loads={
            "project": THIS_PROJECT,
            "job": Load(operation=jobs.SHOW_JOB, request=of_path(jobs.SHOW_JOB), essential=True),
            "why": Load(operation=jobs.EXPLAIN_JOB, request=job.why),
            "eta": Load(operation=jobs.FORECAST_JOB, request=job.why),
            "events": Load(operation=jobs.READ_EVENTS, request=job.events),
            "attempts": Load(operation=jobs.LIST_ATTEMPTS, request=job.this_job),
            "usage": Load(operation=jobs.READ_JOB_USAGE, request=job.used),
            "log": Load(operation=jobs.READ_LOG, request=job.first_part),
        },
        forms=(
            Form(operation=jobs.CANCEL_JOB, then=to(JOB)),
            Form(operation=jobs.RETRY_JOB, then=_to_submitted),
        ),
        data=(
            Data(path=f"{JOB}/usage", operation=jobs.READ_JOB_USAGE, request=of_path(jobs.READ_JOB_USAGE)),
            Data(path=f"{JOB}/log", operation=jobs.READ_LOG, request=job.log_part),
        ),
        derive=job.story,
    ),
    Page(
        path=QUEUES,
        section="projects",
        template="queues.html",
        loads={
            "project": THIS_PROJECT,
            "queues": Load(operation=queues.LIST_QUEUES, request=shares.asked, when=READS),
        },
        derive=shares.tree,
    ),
    Page(
        path=CLUSTER,
        section="cluster",
        template="cluster.html",
        loads={"nodes": ALL_HOSTS, "queues": ALL_QUEUES},
        forms=(
            Form(operation=nodes.DRAIN_NODE, then=to(CLUSTER)),
            Form(operation=nodes.RESUME_NODE, then=to(CLUSTER)),
        ),
        derive=cluster.hosts,
    ),
    Page(
        path=f"{CLUSTER}/queues",
        section="cluster",
        template="cluster_queues.html",
        loads={"queues": ALL_QUEUES},
        derive=shares.tree,
    ),
    Page(
        path=f"{CLUSTER}/capacity",
        section="cluster",
        template="capacity.html",
        loads={"capacity": Load(operation=nodes.READ_CAPACITY_REPORT, request=cluster.capacity)},
        data=(Data(path=f"{CLUSTER}/capacity/points", operation=nodes.READ_CAPACITY_REPORT, request=cluster.capacity),),
        derive=cluster.report,
    ),
    Page(
        path=f"{CLUSTER}/what-if",
        section="cluster",
        template="what_if.html",
        loads={
            "queues": ALL_QUEUES,
            "nodes": ALL_HOSTS,
            "simulation": Load(operation=queues.SIMULATE_QUEUES, request=fields.scenario),
        },
        derive=cluster.outcomes,
    ),
)

DONE: Final = {
    jobs.SUBMIT_JOB.name: "The job is submitted. This page follows it.",
    jobs.CANCEL_JOB.name: "The job is being stopped, or taken out of its queue.",
    jobs.RETRY_JOB.name: "The same job is submitted again, under this new id.",
    nodes.DRAIN_NODE.name: "Nothing new starts on that host.",
    nodes.RESUME_NODE.name: "Jobs may start on that host again.",
}
