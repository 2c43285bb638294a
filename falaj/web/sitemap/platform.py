"""Every page of the console, each a few lines: what it loads, which forms it offers, where they lead."""

from typing import Any, Final

from falaj.base.operation import Group
from falaj.base.values import Nothing
from falaj.governance.identity import member_operations as members
from falaj.governance.identity import operations as identity
from falaj.governance.ledger import operations as ledger
from falaj.governance.policies import operations as policies
from falaj.governance.projects import operations as projects
from falaj.governance.sessions import operations as sessions
from falaj.governance.zones import operations as zones
from falaj.operations import operations as platform
from falaj.storage import operations as storage
from falaj.web import audit, home
from falaj.web.forms import request_from
from falaj.web.pages import Fetch, Form, Load, Page, Upload
from falaj.web.visits import Visit


def may(group: Group) -> Any:
    return lambda visit: visit.standing.may(group)


def may_here(group: Group) -> Any:
    return lambda visit: visit.standing.may(group, visit.project)


def always(request: Any) -> Any:
    return lambda visit: request


def paged(request: Any) -> Any:
    """The page's own list, continued where the reader left off."""
    return lambda visit: request(cursor=visit.query.get("cursor", "")[:500])


def paged_here(request: Any) -> Any:
    return lambda visit: request(project=visit.project, cursor=visit.query.get("cursor", "")[:500])


def here(request: Any) -> Any:
    return lambda visit: request(project=visit.project)


def to(path: str) -> Any:
    return lambda visit, result: path.format(**visit.path)


def _to_new_project(_visit: Visit, made: projects.ProjectView) -> str:
    return f"/projects/{made.name}"


def _chosen_project(visit: Visit) -> str:
    return visit.query.get("project", "")


def _explained(visit: Visit) -> policies.Explain:
    asked = {name: [visit.query.get(name, "")] for name in ("action", "principal", "project", "zone")}
    return request_from(policies.EXPLAIN, asked, {})  # type: ignore[no-any-return]


def _policies_of_chosen(visit: Visit) -> policies.ListPolicies:
    return policies.ListPolicies(project=_chosen_project(visit))


def _may_read_chosen(visit: Visit) -> bool:
    return bool(_chosen_project(visit)) and visit.standing.may(Group.READ, _chosen_project(visit))


def _proof(visit: Visit) -> ledger.ProveLeaf:
    asked = {name: [visit.query[name]] for name in ("leaf", "index") if visit.query.get(name)}
    return request_from(ledger.PROVE, asked, {})  # type: ignore[no-any-return]


def _for_policies(visit: Visit) -> dict[str, Any]:
    listings = [visit.loaded[name].items for name in ("in_project", "everywhere") if visit.loaded[name] is not None]
    rule = visit.query.get("edit", "")
    editing = next((policy for items in listings for policy in items if policy.rule == rule and "/" in rule), None)
    return {"actions": visit.operation_names, "chosen": _chosen_project(visit), "editing": editing}


PEOPLE_FOR_CHOICE: Final = Load(operation=identity.LIST_USERS, request=audit.everybody, when=may(Group.READ))
ALL_ZONES: Final = Load(operation=zones.LIST_ZONES, request=always(zones.ListZones(limit=1000)))
ALL_PROJECTS: Final = Load(operation=projects.LIST_PROJECTS, request=always(projects.ListProjects(limit=1000)))
PLATFORM: Final = Load(operation=platform.SHOW, request=always(Nothing()))
THIS_PROJECT: Final = Load(operation=projects.SHOW_PROJECT, request=here(projects.OneProject))

PAGES: Final = (
    Page(
        path="/",
        section="home",
        template="home.html",
        loads={
            "platform": PLATFORM,
            "projects": Load(operation=projects.LIST_PROJECTS, request=always(projects.ListProjects(limit=100))),
            "tokens": Load(operation=identity.LIST_TOKENS, request=always(identity.ListTokens(limit=1000))),
            "ready": Load(operation=platform.READY, request=always(Nothing())),
            "ledger": Load(operation=ledger.HEAD, request=always(ledger.ReadHead()), when=may(Group.AUDIT)),
            "recent": Load(
                operation=ledger.FOLLOW,
                request=lambda visit: ledger.FollowLog(after=home.after_recent(visit), limit=home.READ_BACK),
                when=may(Group.AUDIT),
            ),
            "backups": Load(operation=platform.LIST_BACKUPS, request=always(Nothing()), when=may(Group.OPERATE)),
            "people": PEOPLE_FOR_CHOICE,
        },
        forms=(Form(operation=platform.CREATE_BACKUP, then=to("/")),),
        derive=lambda visit: audit.with_names(visit) | home.what_needs_me(visit),
    ),
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
        },
        forms=(
            Form(operation=storage.KEY_ROTATE, then=to("/projects/{project}")),
            Form(operation=projects.UPDATE_PROJECT, then=to("/projects/{project}"), beside=True),
            Form(operation=projects.DELETE_PROJECT, then=to("/projects")),
            Form(operation=projects.RESTORE_PROJECT, then=to("/projects/{project}")),
        ),
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
    Page(
        path="/zones",
        section="zones",
        template="zones.html",
        loads={"zones": Load(operation=zones.LIST_ZONES, request=paged(zones.ListZones)), "platform": PLATFORM},
        forms=(
            Form(operation=zones.CREATE_ZONE, then=to("/zones"), beside=True),
            Form(operation=zones.DELETE_ZONE, then=to("/zones")),
        ),
    ),
    Page(
        path="/people",
        section="people",
        template="people.html",
        loads={
            "people": Load(operation=identity.LIST_USERS, request=paged(identity.ListUsers)),
            "zones": ALL_ZONES,
            "projects": ALL_PROJECTS,
            "groups": Load(operation=members.LIST_PLATFORM_GROUPS, request=always(Nothing()), when=may(Group.READ)),
            "platform": PLATFORM,
        },
        forms=(
            Form(operation=members.MAP_PLATFORM_GROUP, then=to("/people"), beside=True),
            Form(operation=members.UNMAP_PLATFORM_GROUP, then=to("/people")),
            Form(operation=identity.CREATE_USER, beside=True),
            Form(operation=identity.INVITE_USER),
            Form(operation=identity.DISABLE_USER, then=to("/people")),
            Form(operation=identity.ENABLE_USER, then=to("/people")),
            Form(operation=members.ADD_PLATFORM_MEMBER, then=to("/people"), beside=True),
            Form(operation=members.REMOVE_PLATFORM_MEMBER, then=to("/people")),
        ),
    ),
    Page(
        path="/tokens",
        section="tokens",
        template="tokens.html",
        loads={
            "tokens": Load(operation=identity.LIST_TOKENS, request=paged(identity.ListTokens)),
            "projects": ALL_PROJECTS,
            "zones": ALL_ZONES,
        },
        forms=(
            Form(operation=identity.CREATE_TOKEN, beside=True),
            Form(operation=identity.REVOKE_TOKEN, then=to("/tokens")),
            Form(operation=sessions.LINK_SESSION),
        ),
    ),
    Page(
        path="/policies",
        section="policies",
        template="policies.html",
        loads={
            "projects": ALL_PROJECTS,
            "everywhere": Load(operation=policies.LIST_PLATFORM_POLICIES, request=always(Nothing()), when=may(Group.READ)),
            "in_project": Load(
                operation=policies.LIST_POLICIES,
                request=_policies_of_chosen,
                when=_may_read_chosen,
            ),
            "explanation": Load(
                operation=policies.EXPLAIN, request=_explained, when=lambda visit: bool(visit.query.get("action"))
            ),
            "people": PEOPLE_FOR_CHOICE,
            "zones": ALL_ZONES,
        },
        forms=(
            Form(operation=policies.PUT_PLATFORM_POLICY, then=to("/policies"), beside=True),
            Form(operation=policies.DELETE_PLATFORM_POLICY, then=to("/policies")),
            Form(operation=policies.PUT_POLICY, then=lambda visit, result: _back_to_policies(visit), beside=True),
            Form(operation=policies.DELETE_POLICY, then=lambda visit, result: _back_to_policies(visit)),
        ),
        derive=_for_policies,
    ),
    Page(
        path="/audit",
        section="audit",
        template="audit.html",
        loads={
            "ledger": Load(operation=ledger.HEAD, request=always(ledger.ReadHead()), when=audit.audits_more_than_projects),
            "people": PEOPLE_FOR_CHOICE,
            "projects": ALL_PROJECTS,
            "log": Load(operation=ledger.LOG, request=audit.platform_log, when=audit.audits_platform, essential=True),
            "project_log": Load(
                operation=ledger.LOG_PROJECT, request=audit.project_log, when=audit.audits_projects_only, essential=True
            ),
        },
        forms=(Form(operation=ledger.VERIFY),),
        fetches=(Fetch(path="/audit/export", operation=ledger.EXPORT),),
        derive=audit.with_names,
    ),
    Page(
        path="/audit/proof",
        section="audit",
        template="proof.html",
        loads={"proof": Load(operation=ledger.PROVE, request=_proof)},
    ),
)

# What is said when a form has done its work.
DONE: Final = {
    platform.CREATE_BACKUP.name: "The backup is written. Keep a copy elsewhere, and what opens it: the recovery kit, or the "
    "hardware module.",
    projects.CREATE_PROJECT.name: "The project is there, with a key of its own. You are its admin.",
    projects.UPDATE_PROJECT.name: "The project was changed.",
    projects.DELETE_PROJECT.name: "The project is archived. Its data stays until it is shredded.",
    projects.RESTORE_PROJECT.name: "The project is back.",
    members.ADD_MEMBER.name: "The role was given.",
    members.REMOVE_MEMBER.name: "The role was taken back; it fails from the next call on.",
    members.MAP_GROUP.name: "The group brings that role from its members' next sign-in on.",
    members.UNMAP_GROUP.name: "The group brings that role no more.",
    members.MAP_PLATFORM_GROUP.name: "The group brings that role from its members' next sign-in on.",
    members.UNMAP_PLATFORM_GROUP.name: "The group brings that role no more.",
    identity.CREATE_SERVICE.name: "The service account is there. Make a token for it next.",
    identity.DISABLE_SERVICE.name: "The service account is shut out; its tokens have stopped.",
    identity.ENABLE_SERVICE.name: "The service account may come in again. Old tokens stay revoked; make it a new one.",
    storage.KEY_ROTATE.name: "The project has a new key. What was sealed before is wrapped anew in the background.",
    storage.BLOB_PUT.name: "The file is stored, sealed under the project's key.",
    storage.BLOB_DELETE.name: "The file is dropped.",
    zones.CREATE_ZONE.name: "The zone is there. A project can list it now.",
    zones.DELETE_ZONE.name: "The zone is gone.",
    identity.DISABLE_USER.name: "That person is shut out; their tokens have stopped.",
    identity.ENABLE_USER.name: "That person may come in again. Old tokens stay revoked.",
    members.ADD_PLATFORM_MEMBER.name: "The role on the platform was given.",
    members.REMOVE_PLATFORM_MEMBER.name: "The role on the platform was taken back.",
    identity.REVOKE_TOKEN.name: "The token is revoked; it fails from the next call on.",
    policies.PUT_PLATFORM_POLICY.name: "The policy holds from the next call on.",
    policies.DELETE_PLATFORM_POLICY.name: "The policy holds no more.",
    policies.PUT_POLICY.name: "The policy holds in this project from the next call on.",
    policies.DELETE_POLICY.name: "The policy holds no more in this project.",
}


def _back_to_policies(visit: Visit) -> str:
    return f"/policies?project={visit.submitted.get('project', '')}"
