"""The pages of projects: what each owns, who may do what in it, and its files."""

from typing import Any, Final

from falaj.base.operation import Group
from falaj.collaboration.operations import activity, links, notices
from falaj.governance.identity import member_operations as members
from falaj.governance.identity import operations as identity
from falaj.governance.projects import operations as projects
from falaj.jobs.operations import jobs
from falaj.registry.operations import models
from falaj.serving.operations import endpoints
from falaj.storage import operations as storage
from falaj.tracking.operations import experiments, runs
from falaj.web import things
from falaj.web.jobs import listing
from falaj.web.pages import Fetch, Form, Forward, Load, Page, Upload
from falaj.web.serving import endpoint
from falaj.web.sitemap.asking import ALL_ZONES, PEOPLE_FOR_CHOICE, PLATFORM, THIS_PROJECT, here, may_here, paged_here, to
from falaj.web.visits import Visit


def _to_new_project(_visit: Visit, made: projects.ProjectView) -> str:
    return f"/projects/{made.name}"


def _all_experiments(visit: Visit) -> experiments.SearchExperiments:
    return experiments.SearchExperiments(project=visit.project, limit=1000)


def _newest_runs(visit: Visit) -> runs.SearchRuns | None:
    found = visit.loaded["experiments"]
    numbers = tuple(experiment.id for experiment in found.items) if found is not None else ()
    return runs.SearchRuns(project=visit.project, experiments=numbers, limit=5) if numbers else None


def _some_models(visit: Visit) -> models.SearchModels:
    return models.SearchModels(project=visit.project, limit=5)


def _some_endpoints(visit: Visit) -> endpoints.ListEndpoints:
    return endpoints.ListEndpoints(project=visit.project, limit=5)


def _newest_jobs(visit: Visit) -> jobs.ListJobs:
    return jobs.ListJobs(project=visit.project, limit=5)


def _told(visit: Visit) -> dict[str, Any]:
    found, ran = visit.loaded["endpoints"], visit.loaded["jobs"]
    told = [(one, endpoint.split_words(one), *endpoint.state_of(one)) for one in found.items] if found else []
    return {"endpoint_rows": told, "job_rows": [(job, listing.tone(job, visit.now)) for job in ran.items] if ran else []}


def _things(visit: Visit) -> dict[str, Any]:
    listed = [visit.loaded[name].items for name in ("activity", "notices") if visit.loaded[name] is not None]
    return {"addresses": things.addresses(visit.project, (item.thing for items in listed for item in items))}


PAGES: Final = (
    Page(
        path="/projects",
        section="projects",
        template="projects.html",
        loads={
            "projects": Load(
                operation=projects.LIST_PROJECTS,
                request=lambda visit: projects.ListProjects(
                    archived="archived" in visit.query, cursor=visit.query.get("cursor", "")[:500]
                ),
            ),
            "zones": ALL_ZONES,
            "platform": PLATFORM,
        },
        forms=(Form(operation=projects.CREATE_PROJECT, then=_to_new_project, beside=True),),
    ),
    Page(
        path="/projects/{project}",
        section="projects",
        template="project.html",
        loads={
            "project": THIS_PROJECT,
            "zones": ALL_ZONES,
            "members": Load(operation=members.LIST_MEMBERS, request=here(members.ListMembers), when=may_here(Group.READ)),
            "blobs": Load(operation=storage.BLOB_LIST, request=here(storage.ListBlobs), when=may_here(Group.READ)),
            "key": Load(operation=storage.KEY_SHOW, request=here(storage.OneProject), when=may_here(Group.READ)),
            "experiments": Load(operation=experiments.SEARCH_EXPERIMENTS, request=_all_experiments, when=may_here(Group.READ)),
            "latest": Load(operation=runs.SEARCH_RUNS, request=_newest_runs, when=may_here(Group.READ)),
            "models": Load(operation=models.SEARCH_MODELS, request=_some_models, when=may_here(Group.READ)),
            "endpoints": Load(operation=endpoints.LIST_ENDPOINTS, request=_some_endpoints, when=may_here(Group.READ)),
            "jobs": Load(operation=jobs.LIST_JOBS, request=_newest_jobs, when=may_here(Group.READ)),
        },
        forms=(
            Form(operation=storage.KEY_ROTATE, then=to("/projects/{project}")),
            Form(operation=projects.UPDATE_PROJECT, then=to("/projects/{project}"), beside=True),
            Form(operation=projects.DELETE_PROJECT, then=to("/projects")),
            Form(operation=projects.RESTORE_PROJECT, then=to("/projects/{project}")),
        ),
        derive=_told,
    ),
    Page(
        path="/projects/{project}/members",
        section="projects",
        template="members.html",
        loads={
            "project": THIS_PROJECT,
            "members": Load(operation=members.LIST_MEMBERS, request=paged_here(members.ListMembers), when=may_here(Group.READ)),
            "services": Load(operation=identity.LIST_SERVICES, request=here(identity.ListServices), when=may_here(Group.READ)),
            "groups": Load(operation=members.LIST_GROUPS, request=here(members.OfProject), when=may_here(Group.READ)),
            "people": PEOPLE_FOR_CHOICE,
            "platform": PLATFORM,
        },
        forms=(
            Form(operation=members.MAP_GROUP, then=to("/projects/{project}/members"), beside=True),
            Form(operation=members.UNMAP_GROUP, then=to("/projects/{project}/members")),
            Form(operation=members.ADD_MEMBER, then=to("/projects/{project}/members"), beside=True),
            Form(operation=members.REMOVE_MEMBER, then=to("/projects/{project}/members")),
            Form(operation=identity.CREATE_SERVICE, then=to("/projects/{project}/members"), beside=True),
            Form(operation=identity.CREATE_SERVICE_TOKEN),
            Form(operation=identity.DISABLE_SERVICE, then=to("/projects/{project}/members")),
            Form(operation=identity.ENABLE_SERVICE, then=to("/projects/{project}/members")),
        ),
    ),
    Page(
        path="/projects/{project}/activity",
        section="projects",
        template="activity.html",
        loads={
            "project": THIS_PROJECT,
            "activity": Load(
                operation=activity.LIST_ACTIVITY, request=paged_here(activity.ListActivity), when=may_here(Group.READ)
            ),
            "notices": Load(operation=notices.LIST_NOTICES, request=here(notices.ListNotices), when=may_here(Group.READ)),
        },
        forms=(Form(operation=notices.MARK_READ, then=to("/projects/{project}/activity")),),
        forwards=(Forward(path="/projects/{project}/links/{link}", operation=links.OPEN_LINK, target=lambda link: link.path),),
        derive=_things,
    ),
    Page(
        path="/projects/{project}/blobs",
        section="projects",
        template="blobs.html",
        loads={
            "project": THIS_PROJECT,
            "blobs": Load(operation=storage.BLOB_LIST, request=paged_here(storage.ListBlobs), when=may_here(Group.READ)),
        },
        forms=(Form(operation=storage.BLOB_DELETE, then=to("/projects/{project}/blobs")),),
        upload=Upload(operation=storage.BLOB_PUT),
        fetches=(Fetch(path="/projects/{project}/blobs/{blob}", operation=storage.BLOB_GET),),
    ),
)

# What is said when a form has done its work.
DONE: Final = {
    projects.CREATE_PROJECT.name: "The project is there, with a key of its own. You are its admin.",
    projects.UPDATE_PROJECT.name: "The project was changed.",
    projects.DELETE_PROJECT.name: "The project is archived. Its data stays until it is shredded.",
    projects.RESTORE_PROJECT.name: "The project is back.",
    members.ADD_MEMBER.name: "The role was given.",
    members.REMOVE_MEMBER.name: "The role was taken back; it fails from the next call on.",
    members.MAP_GROUP.name: "The group brings that role from its members' next sign-in on.",
    members.UNMAP_GROUP.name: "The group brings that role no more.",
    identity.CREATE_SERVICE.name: "The service account is there. Make a token for it next.",
    identity.DISABLE_SERVICE.name: "The service account is shut out; its tokens have stopped.",
    identity.ENABLE_SERVICE.name: "The service account may come in again. Old tokens stay revoked; make it a new one.",
    storage.KEY_ROTATE.name: "The project has a new key. What was sealed before is wrapped anew in the background.",
    notices.MARK_READ.name: "Nothing is new any more.",
    storage.BLOB_PUT.name: "The file is stored, sealed under the project's key.",
    storage.BLOB_DELETE.name: "The file is dropped.",
}
