"""What of monitoring needs the reader of the home page: alerts that nobody sees to, and actions that wait for a word."""

from collections.abc import Mapping
from typing import Any

from falaj.base.operation import Group
from falaj.base.values import value
from falaj.monitoring.operations.alerts import Alert, ListAlerts
from falaj.web.monitoring.words import ACTIONS
from falaj.web.standing import Standing


@value
class Pressing:
    level: str
    title: str
    detail: str
    path: str
    link_text: str


def asked(projects: list[str]) -> list[ListAlerts]:
    return [ListAlerts(project=project, which="open", limit=20) for project in projects]


def pressing(standing: Standing, found: Mapping[ListAlerts, Any]) -> list[Pressing]:
    """What waits for the reader's word, then what is critical, then the rest."""
    told = [(request.project, alert) for request, answer in found.items() for alert in answer.items]
    decides = [(project, alert) for project, alert in told if standing.may(Group.DEPLOY, project)]
    waiting = [one for project, alert in decides for one in _waiting(project, alert)]
    unseen = [_unseen(project, alert) for project, alert in told if alert.acknowledged is None]
    return [*waiting, *sorted(unseen, key=lambda one: one.level != "bad")]


def _waiting(project: str, alert: Alert) -> list[Pressing]:
    return [
        Pressing(
            level="warn",
            title=f"Your word is wanted: {ACTIONS.get(action.kind, action.kind).lower()} for {alert.endpoint}",
            detail=f"In {project}. {alert.title}.",
            path=_path(project, alert),
            link_text="Decide",
        )
        for action in alert.actions
        if action.state == "waiting"
    ]


def _unseen(project: str, alert: Alert) -> Pressing:
    return Pressing(
        level="bad" if alert.severity == "critical" else "warn",
        title=f"{alert.endpoint}: {alert.title}",
        detail=f"In {project}. {alert.sentences[0] if alert.sentences else ''}",
        path=_path(project, alert),
        link_text="Look",
    )


def _path(project: str, alert: Alert) -> str:
    return f"/projects/{project}/alerts/{alert.id}"
