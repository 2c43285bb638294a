"""The pages of the platform itself: home, zones, people, tokens, policies, audit."""

from typing import Any, Final

from falaj.base.operation import Group
from falaj.base.values import Nothing
from falaj.collaboration.operations import notices, reviews
from falaj.governance.identity import member_operations as members
from falaj.governance.identity import operations as identity
from falaj.governance.ledger import operations as ledger
from falaj.governance.policies import operations as policies
from falaj.governance.projects import operations as projects
from falaj.governance.sessions import operations as sessions
from falaj.governance.zones import operations as zones
from falaj.jobs.operations import jobs
from falaj.lifecycle.operations import pipelines
from falaj.monitoring.operations import alerts
from falaj.operations import operations as platform
from falaj.registry.operations import models, promotions, versions
from falaj.serving.operations import endpoints
from falaj.web import audit, home
from falaj.web.forms import request_from
from falaj.web.jobs import stuck
from falaj.web.models import moves
from falaj.web.monitoring import needs as monitoring_needs
from falaj.web.pages import Fetch, Form, Load, Page
from falaj.web.pipelines import needs as pipeline_needs
from falaj.web.sitemap.asking import ALL_PROJECTS, ALL_ZONES, PEOPLE_FOR_CHOICE, PLATFORM, always, may, paged, to
from falaj.web.visits import Visit


def _open_approvals(visit: Visit) -> list[Any]:
    """Those to decide, and those that the reader may have asked for."""
    asked = home.projects_with(visit, Group.APPROVE, Group.DEPLOY)
    return [promotions.ListApprovals(project=project, limit=20) for project in asked]


def _models_asked(visit: Visit) -> list[Any]:
    return moves.models_asked(home.approvals_told(visit))


def _versions_left(visit: Visit) -> list[Any]:
    return moves.versions_left(visit, home.approvals_told(visit))


def _reviews_to_answer(visit: Visit) -> list[Any]:
    asked = home.projects_with(visit, Group.READ)
    return [reviews.ListReviews(project=project, whose="mine-to-answer", state="open", limit=20) for project in asked]


def _unread_notices(visit: Visit) -> list[Any]:
    asked = home.projects_with(visit, Group.READ)
    return [notices.ListNotices(project=project, unread=True, limit=20) for project in asked]


def _endpoints(visit: Visit) -> list[Any]:
    return [endpoints.ListEndpoints(project=project) for project in home.projects_with(visit, Group.READ)]


def _open_alerts(visit: Visit) -> list[Any]:
    return monitoring_needs.asked(home.projects_with(visit, Group.READ))


def _live_runs(visit: Visit) -> list[Any]:
    return pipeline_needs.asked(home.projects_with(visit, Group.DEPLOY))


def _waiting_jobs(visit: Visit) -> list[Any]:
    return stuck.waiting(home.projects_with(visit, Group.READ))


def _ended_jobs(visit: Visit) -> list[Any]:
    return stuck.over(home.projects_with(visit, Group.READ))


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
            "approvals": Load(operation=promotions.LIST_APPROVALS, request=_open_approvals, each=True),
            "models_asked": Load(operation=models.SHOW_MODEL, request=_models_asked, each=True),
            "versions_left": Load(operation=versions.SHOW_VERSION, request=_versions_left, each=True),
            "reviews": Load(operation=reviews.LIST_REVIEWS, request=_reviews_to_answer, each=True),
            "notices": Load(operation=notices.LIST_NOTICES, request=_unread_notices, each=True),
            "endpoints": Load(operation=endpoints.LIST_ENDPOINTS, request=_endpoints, each=True),
            "alerts": Load(operation=alerts.LIST_ALERTS, request=_open_alerts, each=True),
            "live_runs": Load(operation=pipelines.LIST_RUNS, request=_live_runs, each=True),
            "waiting_jobs": Load(operation=jobs.LIST_JOBS, request=_waiting_jobs, each=True),
            "ended_jobs": Load(operation=jobs.LIST_JOBS, request=_ended_jobs, each=True),
        },
        forms=(Form(operation=platform.CREATE_BACKUP, then=to("/")),),
        derive=lambda visit: audit.with_names(visit) | home.what_needs_me(visit),
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
    members.MAP_PLATFORM_GROUP.name: "The group brings that role from its members' next sign-in on.",
    members.UNMAP_PLATFORM_GROUP.name: "The group brings that role no more.",
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
