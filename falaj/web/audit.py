"""The auditor's questions: from a form with names to the ledger's ids, and back."""

import re
from typing import Any, Final

from falaj.base.clock import DAY, HOUR, Moment
from falaj.base.errors import Invalid
from falaj.base.operation import Group
from falaj.governance.identity.operations import ListUsers
from falaj.governance.ledger.operations import LOG, LOG_PROJECT, ReadLog, ReadProjectLog
from falaj.web.bodies import Fields
from falaj.web.forms import request_from
from falaj.web.visits import Visit

SPANS: Final = {"hour": HOUR, "day": DAY, "week": 7 * DAY, "month": 30 * DAY}
AT_ONCE: Final = "50"
_ID: Final = re.compile(r"[0-9a-f]{32}")


def everybody(_visit: Visit) -> ListUsers:
    return ListUsers(limit=1000)


def audits_platform(visit: Visit) -> bool:
    return visit.standing.may(Group.AUDIT)


def audits_projects_only(visit: Visit) -> bool:
    return not audits_platform(visit) and bool(visit.standing.audited_projects)


def audits_more_than_projects(visit: Visit) -> bool:
    """Everybody but a project's auditor is measured by the platform's ledger, so that others are refused by its rule."""
    return not audits_projects_only(visit)


def platform_log(visit: Visit) -> ReadLog:
    named = visit.query.get("project", "")
    fields = _asked(visit) | {"project": [_id_of(named, visit.loaded["projects"], "project")]}
    return request_from(LOG, fields, {})  # type: ignore[no-any-return]


def project_log(visit: Visit) -> ReadProjectLog:
    named = visit.query.get("project", "") or next(iter(visit.standing.audited_projects), "")
    return request_from(LOG_PROJECT, _asked(visit), {"project": named})  # type: ignore[no-any-return]


def _asked(visit: Visit) -> Fields:
    asked = {name: visit.query.get(name, "") for name in ("operation", "outcome", "since", "until", "cursor")}
    if (span := SPANS.get(visit.query.get("span", ""))) is not None and not asked["since"]:
        asked["since"] = str(Moment(visit.now - span))
    asked["principal"] = _id_of(visit.query.get("who", ""), visit.loaded["people"], "person")
    return {name: [text] for name, text in (asked | {"limit": AT_ONCE}).items()}


def _id_of(named: str, listing: Any, kind: str) -> str:
    """People ask by name; the ledger knows ids. An id is taken as it is, for the one who bears it may be gone."""
    if not named or _ID.fullmatch(named):
        return named
    for item in listing.items if listing is not None else ():
        if item.name == named:
            return str(item.id)
    raise Invalid(f"There is no {kind} {named!r} that you can see; give the id instead.")


def with_names(visit: Visit) -> dict[str, Any]:
    """What the ids in the records are called today, where the reader may know."""
    people = visit.loaded["people"].items if visit.loaded.get("people") is not None else ()
    projects = visit.loaded["projects"].items if visit.loaded.get("projects") is not None else ()
    names = {item.id: item.name for item in (*people, *projects)} | {visit.standing.me.id: visit.standing.me.name}
    entries = visit.loaded.get("log") or visit.loaded.get("project_log")
    asked = {name: text for name, text in visit.query.items() if name != "cursor" and text}
    return {"names": names, "entries": entries, "asked": asked, "actions": visit.operation_names}
