"""The pages of experiments, runs and the files they keep."""

from typing import Any, Final

from falaj.base.operation import Group
from falaj.registry.operations import models, versions
from falaj.serving.operations import endpoints
from falaj.tracking.operations import artifacts, experiments, runs
from falaj.tracking.operations import models as logged
from falaj.web.experiments import compared, deploying, listing, run, stored, study, table
from falaj.web.forms import checked
from falaj.web.pages import Data, Fetch, Form, Load, Page, Picture
from falaj.web.serving.endpoint import all_endpoints
from falaj.web.sitemap import discussion
from falaj.web.sitemap.asking import THIS_PROJECT, here, may_here, of_path, to
from falaj.web.sitemap.serving import to_deployed
from falaj.web.visits import Visit

READS: Final = may_here(Group.READ)
EXPERIMENTS: Final = "/projects/{project}/experiments"
EXPERIMENT: Final = "/projects/{project}/experiments/{experiment}"
RUN: Final = "/projects/{project}/runs/{run}"


def _to_experiment(visit: Visit, made: experiments.Experiment) -> str:
    return f"/projects/{visit.project}/experiments/{made.id}"


def _to_version(visit: Visit, made: versions.Version) -> str:
    return f"/projects/{visit.project}/versions/{made.id}"


def _experiment_of_run(visit: Visit) -> Any:
    return checked(experiments.SHOW_EXPERIMENT, run.experiment(visit))


PAGES: Final = (
    Page(
        path=EXPERIMENTS,
        section="projects",
        template="experiments.html",
        loads={
            "project": THIS_PROJECT,
            "experiments": Load(operation=experiments.SEARCH_EXPERIMENTS, request=listing.experiments, when=READS),
            "latest": Load(operation=runs.SEARCH_RUNS, request=listing.latest_runs, when=READS),
        },
        forms=(
            Form(operation=experiments.CREATE_EXPERIMENT, then=_to_experiment, beside=True),
            Form(operation=experiments.RENAME_EXPERIMENT, then=to(EXPERIMENTS)),
            Form(operation=experiments.DELETE_EXPERIMENT, then=to(EXPERIMENTS)),
            Form(operation=experiments.RESTORE_EXPERIMENT, then=to(EXPERIMENTS)),
        ),
        derive=listing.story,
    ),
    Page(
        path=EXPERIMENT,
        section="projects",
        template="runs.html",
        loads={
            "project": THIS_PROJECT,
            "experiment": Load(
                operation=experiments.SHOW_EXPERIMENT, request=of_path(experiments.SHOW_EXPERIMENT), essential=True
            ),
            "keys": Load(operation=runs.LIST_KEYS, request=table.keys, when=lambda visit: not table.goes_on(visit)),
            "runs": Load(operation=runs.SEARCH_RUNS, request=table.search),
            "curves": Load(operation=runs.READ_CURVES, request=table.curves),
            **discussion.about("experiment", lambda visit: visit.loaded["experiment"].id),
        },
        forms=discussion.forms(to(EXPERIMENT)),
        derive=table.drawn,
    ),
    Page(
        path=f"{EXPERIMENT}/study",
        section="projects",
        template="study.html",
        loads={
            "project": THIS_PROJECT,
            "experiment": Load(
                operation=experiments.SHOW_EXPERIMENT, request=of_path(experiments.SHOW_EXPERIMENT), essential=True
            ),
            "runs": Load(operation=runs.SEARCH_RUNS, request=study.trials),
        },
        derive=study.story,
    ),
    Page(
        path=RUN,
        section="projects",
        template="run.html",
        loads={
            "project": THIS_PROJECT,
            "run": Load(operation=runs.SHOW_RUN, request=of_path(runs.SHOW_RUN), essential=True),
            "experiment": Load(operation=experiments.SHOW_EXPERIMENT, request=_experiment_of_run),
            "curves": Load(operation=runs.READ_CURVES, request=run.first_curves),
            "parent": Load(operation=runs.SHOW_RUN, request=run.parent),
            "children": Load(operation=runs.SEARCH_RUNS, request=run.children),
            "models": Load(operation=logged.SHOW_LOGGED_MODEL, request=run.models_made, each=True),
            "versions": Load(operation=versions.SEARCH_VERSIONS, request=run.versions_made),
            "registry": Load(operation=models.SEARCH_MODELS, request=here(models.SearchModels)),
            "artifacts": Load(operation=artifacts.LIST_ARTIFACTS, request=run.all_files("run")),
            "verdicts": Load(
                operation=versions.CHECK_SERVABLE, request=deploying.verdicts, when=deploying.may_register, each=True
            ),
            "endpoints": Load(operation=endpoints.LIST_ENDPOINTS, request=all_endpoints, when=deploying.may_register),
            **discussion.about("run", lambda visit: visit.loaded["run"].info.id),
        },
        forms=(
            Form(operation=runs.UPDATE_RUN, then=to(RUN)),
            Form(operation=runs.DELETE_RUN, then=to(RUN)),
            Form(operation=runs.RESTORE_RUN, then=to(RUN)),
            Form(operation=versions.CREATE_VERSION, then=_to_version),
            Form(operation=endpoints.DEPLOY_REVISION, then=to_deployed, beside=True, before=deploying.registered),
            *discussion.forms(to(RUN)),
        ),
        data=(Data(path=f"{RUN}/now", operation=runs.SHOW_RUN, request=of_path(runs.SHOW_RUN)),),
        derive=lambda visit: run.story(visit) | deploying.story(visit),
    ),
    Page(
        path="/projects/{project}/compare",
        section="projects",
        template="compare.html",
        loads={
            "project": THIS_PROJECT,
            "answers": Load(operation=runs.SHOW_RUN, request=compared.each_run, essential=True, each=True),
        },
        data=(Data(path="/projects/{project}/curves", operation=runs.READ_CURVES, request=compared.curves),),
        derive=compared.story,
    ),
    Page(
        path="/projects/{project}/artifacts/{holder}",
        section="projects",
        template="artifact.html",
        loads={
            "project": THIS_PROJECT,
            "artifacts": Load(operation=artifacts.LIST_ARTIFACTS, request=run.all_files("holder"), essential=True),
            "file": Load(operation=artifacts.GET_ARTIFACT, request=stored.beginning, essential=True),
        },
        fetches=(Fetch(path="/projects/{project}/artifacts/{holder}/file", operation=artifacts.GET_ARTIFACT),),
        pictures=(Picture(path="/projects/{project}/artifacts/{holder}/picture", operation=artifacts.GET_ARTIFACT),),
        about=("name",),
        derive=stored.story,
    ),
)

DONE: Final = discussion.DONE | {
    experiments.CREATE_EXPERIMENT.name: "The experiment is there. Runs that name it show below.",
    experiments.RENAME_EXPERIMENT.name: "The experiment has its new name.",
    experiments.DELETE_EXPERIMENT.name: "The experiment and its runs are hidden. Restoring brings them back.",
    experiments.RESTORE_EXPERIMENT.name: "The experiment is back.",
    runs.UPDATE_RUN.name: "The run was changed.",
    runs.DELETE_RUN.name: "The run is hidden. Restoring brings it back.",
    runs.RESTORE_RUN.name: "The run is back.",
    versions.CREATE_VERSION.name: "The version is registered: a snapshot of its files, signed by the project's key.",
}
