"""The pages of pipelines: a project's, one with its runs and triggers, and one run with its steps."""

from typing import Any, Final

from falaj.base.operation import Group
from falaj.lifecycle.operations import pipelines as declared
from falaj.lifecycle.operations import triggers
from falaj.registry.operations import versions
from falaj.web.pages import Form, Load, Page
from falaj.web.pipelines import listing, run
from falaj.web.sitemap.asking import THIS_PROJECT, may_here, of_path, paged_here, to
from falaj.web.visits import Visit

READS: Final = may_here(Group.READ)
PIPELINES: Final = "/projects/{project}/pipelines"
PIPELINE: Final = f"{PIPELINES}/{{pipeline}}"
RUN: Final = "/projects/{project}/pipeline-runs/{pipeline_run}"


def _to_run(visit: Visit, begun: declared.PipelineRun) -> str:
    return f"/projects/{visit.project}/pipeline-runs/{begun.id}"


def _to_pipelines(visit: Visit, _result: Any) -> str:
    return f"/projects/{visit.project}/pipelines"


PAGES: Final = (
    Page(
        path=PIPELINES,
        section="projects",
        template="pipelines.html",
        loads={
            "project": THIS_PROJECT,
            "pipelines": Load(operation=declared.LIST_PIPELINES, request=paged_here(declared.ListPipelines), when=READS),
            "runs": Load(operation=declared.LIST_RUNS, request=listing.runs, when=READS),
        },
        derive=listing.listed,
    ),
    Page(
        path=PIPELINE,
        section="projects",
        template="pipeline.html",
        loads={
            "project": THIS_PROJECT,
            "pipeline": Load(operation=declared.SHOW_PIPELINE, request=of_path(declared.SHOW_PIPELINE), essential=True),
            "runs": Load(operation=declared.LIST_RUNS, request=listing.own_runs),
            "triggers": Load(operation=triggers.LIST_TRIGGERS, request=of_path(triggers.LIST_TRIGGERS)),
        },
        forms=(
            Form(operation=declared.START_RUN, then=_to_run, beside=True, request=listing.start),
            Form(operation=declared.DELETE_PIPELINE, then=_to_pipelines),
            Form(operation=triggers.SET_TRIGGER, then=to(PIPELINE), beside=True, request=listing.scheduled),
            Form(operation=triggers.DELETE_TRIGGER, then=to(PIPELINE)),
        ),
        derive=listing.story,
    ),
    Page(
        path=RUN,
        section="projects",
        template="pipeline_run.html",
        loads={
            "project": THIS_PROJECT,
            "run": Load(operation=declared.SHOW_RUN, request=run.asked, essential=True),
            "pipeline": Load(operation=declared.SHOW_PIPELINE, request=run.definition),
            "versions": Load(operation=versions.SHOW_VERSION, request=run.versions, each=True),
        },
        forms=(
            Form(operation=declared.CANCEL_RUN, then=to(RUN), request=run.told),
            Form(operation=declared.RESUME_RUN, then=to(RUN), request=run.told),
            Form(operation=declared.DECIDE_STEP, then=to(RUN), request=run.told),
        ),
        derive=run.story,
    ),
)

DONE: Final = {
    declared.START_RUN.name: "It is under way. This page follows it.",
    declared.CANCEL_RUN.name: "Nothing more is begun, and its jobs are being stopped.",
    declared.RESUME_RUN.name: "It goes on: what was done stays done.",
    declared.DECIDE_STEP.name: "What you decided is on record.",
    declared.DELETE_PIPELINE.name: "The pipeline is deleted; what its runs did stays on record.",
    triggers.SET_TRIGGER.name: "It starts by itself from now on, in your name.",
    triggers.DELETE_TRIGGER.name: "That starts it no more.",
}
