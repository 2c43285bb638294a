"""The home page's question: what needs me? Computed from what was loaded, most pressing first."""

from itertools import islice
from typing import Any, Final
from urllib.parse import urlencode

from falaj.base.clock import DAY, MINUTE, Moment
from falaj.base.operation import Group
from falaj.base.values import value
from falaj.operations.operations import CREATE_BACKUP
from falaj.web import things
from falaj.web.jobs.stuck import stuck
from falaj.web.models import moves
from falaj.web.monitoring import needs as monitoring_needs
from falaj.web.pipelines import needs as pipeline_needs
from falaj.web.serving.endpoint import state_of
from falaj.web.visits import Visit

SOON: Final = 14 * DAY
LATE: Final = MINUTE
BACKUP_WITHIN: Final = 7 * DAY
REFUSALS_WITHIN: Final = DAY
READ_BACK: Final = 500
MOST_PROJECTS: Final = 20
MOST_ASKED: Final = 12
MOST_FAILING: Final = 6
MOST_STUCK: Final = 6
MOST_ALERTS: Final = 6
MOST_QUESTIONS: Final = 6
GONE: Final = "something that is gone"
_NOTICED: Final = {"mention": "mentioned you on", "review-answer": "answered your review of"}


@value
class Need:
    """One thing to look at. `level` is bad or warn; `command` is what to type, `form` the operation a button submits.

    `comparison` is where the versions that it is about are compared.
    """

    level: str
    title: str
    detail: str
    link: str = ""
    link_text: str = ""
    comparison: str = ""
    command: str = ""
    form: str = ""


def after_recent(visit: Visit) -> int:
    """The index after which the newest leaves lie."""
    ledger = visit.loaded["ledger"]
    size = ledger.head.size if ledger is not None and ledger.head is not None else 0
    return int(max(-1, size - READ_BACK - 1))


def what_needs_me(visit: Visit) -> dict[str, Any]:
    recent = visit.loaded["recent"].items if visit.loaded["recent"] is not None else ()
    refusals = [leaf for leaf in reversed(recent) if leaf["outcome"] == "refused"]
    last_seen: dict[str, Moment] = {leaf["project"]: Moment.parse(leaf["inserted"]) for leaf in recent if leaf["project"]}
    fresh = [leaf for leaf in refusals if Moment.parse(leaf["inserted"]) > visit.now - REFUSALS_WITHIN]
    needs = [
        *_broken(visit),
        *_late(visit),
        *_failing(visit),
        *_alerts(visit),
        *_questions(visit),
        *_stuck(visit),
        *_asked(visit),
        *_refused(len(fresh)),
    ]
    needs += [*_expiring(visit), *_unsaved(visit), *_first_steps(visit)]
    projects = visit.loaded["projects"].items
    return {
        "needs": needs,
        "refusals": [_told(leaf) for leaf in refusals[:6]],
        "refused_today": len(fresh),
        "last_seen": last_seen,
        "by_activity": sorted(projects, key=lambda project: last_seen.get(project.id, project.created), reverse=True),
    }


def projects_with(visit: Visit, *groups: Group) -> list[str]:
    """The projects in which the reader's role promises one of these, as many as a home page can ask."""
    names = [project.name for project in visit.loaded["projects"].items]
    return [name for name in names if any(visit.standing.may(group, name) for group in groups)][:MOST_PROJECTS]


def approvals_told(visit: Visit) -> list[tuple[str, Any]]:
    """What others ask the reader to approve, and what the reader asked for and may do now; each with its project."""
    me = visit.standing.me.id
    return [
        (project, approval)
        for project, approval in _of_projects(visit, "approvals")
        if (approval.state == "ready" and approval.requested_by.id == me)
        or (approval.state == "waiting" and approval.requested_by.id != me and visit.standing.may(Group.APPROVE, project))
    ]


def _asked(visit: Visit) -> list[Need]:
    """What colleagues want: an approval, a review, a look."""
    return [*_approvals(visit), *_reviews(visit), *_notices(visit)][:MOST_ASKED]


def _of_projects(visit: Visit, name: str) -> list[tuple[str, Any]]:
    """What was asked of several projects, each thing with its project."""
    answers = visit.loaded[name] or {}
    return [(request.project, item) for request, found in answers.items() for item in found.items]


def _approvals(visit: Visit) -> list[Need]:
    return [_wished(wish) for wish in moves.wishes(visit, approvals_told(visit))]


def _wished(wish: moves.Wish) -> Need:
    approval = wish.approval
    ready = approval.state == "ready"
    asked = "You" if ready else approval.requested_by.name
    return Need(
        level="warn",
        title=f"{'Approved, make the move' if ready else 'Your approval is wanted'}: {approval.model}, {wish.words}",
        detail=f"{asked} asked in {wish.project}. {approval.reason}",
        link=f"/projects/{wish.project}/model?{urlencode({'model': approval.model})}",
        link_text="Make the move" if ready else "Decide",
        comparison=wish.comparison,
    )


def _reviews(visit: Visit) -> list[Need]:
    return [
        Need(
            level="warn",
            title=f"{review.asked_by.name} asks you to review {review.thing.label or GONE}",
            detail=review.note or f"In {project}.",
            link=things.address(project, review.thing),
            link_text="Review",
        )
        for project, review in _of_projects(visit, "reviews")
    ]


def _notices(visit: Visit) -> list[Need]:
    """Requests for reviews are told by the reviews themselves, until they are answered."""
    return [
        Need(
            level="warn",
            title=f"{notice.by.name} {_NOTICED[notice.kind]} {notice.thing.label or GONE}",
            detail=notice.excerpt,
            link=things.address(project, notice.thing),
            link_text="Look",
        )
        for project, notice in _of_projects(visit, "notices")
        if notice.kind in _NOTICED
    ]


def _told(leaf: dict[str, Any]) -> dict[str, Any]:
    return {**leaf, "at": Moment.parse(leaf["inserted"])}


def _broken(visit: Visit) -> list[Need]:
    """Readiness answers with an error where a part is missing, and then there is nothing loaded."""
    if visit.loaded["ready"] is not None:
        return []
    detail = "What depends on it does not work now; the rest goes on."
    return [Need(level="bad", title="A part of the platform is not ready", detail=detail, command="falaj doctor")]


def _late(visit: Visit) -> list[Need]:
    ledger = visit.loaded["ledger"]
    if ledger is None or ledger.oldest_unsequenced is None or ledger.oldest_unsequenced > visit.now - LATE:
        return []
    return [
        Need(
            level="bad",
            title="The ledger falls behind",
            detail=f"{ledger.unsequenced} records wait to be sequenced, the oldest for more than a minute.",
            link="/audit",
            link_text="Ledger",
        )
    ]


def _failing(visit: Visit) -> list[Need]:
    """Endpoints that do not answer, then those that answer in part or with problems."""
    told = [(endpoint, project, *state_of(endpoint)) for project, endpoint in _of_projects(visit, "endpoints")]
    needs = [
        Need(
            level=tone,
            title=f"Endpoint {endpoint.name} {state}",
            detail=f"In {project}. {endpoint.problems[0] if endpoint.problems else 'Planes load what it should answer with.'}",
            link=f"/projects/{project}/endpoints/{endpoint.name}",
            link_text="Look",
        )
        for endpoint, project, tone, state in told
        if tone != "good"
    ]
    return sorted(needs, key=lambda need: need.level != "bad")[:MOST_FAILING]


def _alerts(visit: Visit) -> list[Need]:
    found = monitoring_needs.pressing(visit.standing, visit.loaded["alerts"] or {})
    return [
        Need(level=one.level, title=one.title, detail=one.detail, link=one.path, link_text=one.link_text)
        for one in found[:MOST_ALERTS]
    ]


def _questions(visit: Visit) -> list[Need]:
    found = islice(pipeline_needs.questions(visit.loaded["live_runs"] or {}), MOST_QUESTIONS)
    return [Need(level="warn", title=one.title, detail=one.detail, link=one.path, link_text="Decide") for one in found]


def _stuck(visit: Visit) -> list[Need]:
    """The reader's jobs that failed today or wait for long."""
    found = stuck(visit.standing.me.id, visit.now, visit.loaded["waiting_jobs"] or {}, visit.loaded["ended_jobs"] or {})
    return [
        Need(level="bad" if one.failed else "warn", title=one.title, detail=one.detail, link=one.path, link_text="Look")
        for one in found[:MOST_STUCK]
    ]


def _refused(count: int) -> list[Need]:
    if not count:
        return []
    title = "1 call was refused today" if count == 1 else f"{count} calls were refused today"
    detail = "Somebody reached for what policy does not give them."
    return [Need(level="warn", title=title, detail=detail, link="/audit?outcome=refused", link_text="Look")]


def _expiring(visit: Visit) -> list[Need]:
    tokens = [
        token
        for token in visit.loaded["tokens"].items
        if token.kind == "api" and token.revoked is None and visit.now < token.expires < visit.now + SOON
    ]
    needs = []
    for token in tokens[:3]:
        days = (token.expires - visit.now) // DAY
        when = "within a day" if days < 1 else "tomorrow" if days == 1 else f"in {days} days"
        title = f"Token {token.label or token.id[:8]} expires {when}"
        needs.append(Need(level="warn", title=title, detail="What uses it will stop then.", link="/tokens", link_text="Renew"))
    return needs


def _unsaved(visit: Visit) -> list[Need]:
    backups = visit.loaded["backups"]
    if backups is None or any(backup.created > visit.now - BACKUP_WITHIN for backup in backups.items):
        return []
    title = "No backup in the last week" if backups.items else "No backup yet"
    detail = "A backup is sealed and consistent, and is made while everything runs."
    return [Need(level="warn", title=title, detail=detail, form=CREATE_BACKUP.name, link_text="Back up now")]


def _first_steps(visit: Visit) -> list[Need]:
    if visit.loaded["projects"].items or not visit.standing.may(Group.ADMINISTER):
        return []
    detail = "Everything in Falaj belongs to one: data, members, keys."
    return [Need(level="warn", title="Create your first project", detail=detail, link="/projects", link_text="Projects")]
