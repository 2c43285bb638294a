"""Alerts as people see to them: the inbox, saying that somebody is on it, and agreeing to what an alert would do."""

import msgspec

from falaj.base.errors import Conflict, Forbidden, NotFound
from falaj.base.pages import page_of, read_text_cursor
from falaj.database.binding import Bound, bind
from falaj.database.work import Context
from falaj.governance.gate import Gatekeeper
from falaj.monitoring import wishers, wishing
from falaj.monitoring.operations import alerts as declared
from falaj.monitoring.operations.alerts import Alert
from falaj.monitoring.operations.words import Act
from falaj.monitoring.retraining import Pipelines
from falaj.monitoring.store import alerts as store
from falaj.monitoring.store import monitors as monitor_store
from falaj.monitoring.store.tables import Found
from falaj.monitoring.views import alerts_shown, required_alert
from falaj.serving.store import endpoints as endpoint_store


class AlertService:
    """Thread-safe."""

    def __init__(self, gate: Gatekeeper, pipelines: Pipelines) -> None:
        self._gate, self._profile, self._pipelines = gate, gate.profile, pipelines

    def bindings(self) -> list[Bound]:
        return [
            bind(declared.LIST_ALERTS, self.list),
            bind(declared.SHOW_ALERT, self.show),
            bind(declared.ACKNOWLEDGE_ALERT, self.acknowledge),
            bind(declared.DECIDE_ACTION, self.decide),
        ]

    def list(self, context: Context, request: declared.ListAlerts) -> declared.Alerts:
        project, before = context.required_project.id, read_text_cursor(request.cursor)
        found = store.page(context.work, project, request.endpoint, request.which, before, request.limit + 1)
        page, following = page_of(found, request.limit, lambda row: (row.id,))
        return declared.Alerts(items=alerts_shown(context, page), next=following)

    def show(self, context: Context, request: declared.OneAlert) -> Alert:
        return _one(context, request.alert)

    def acknowledge(self, context: Context, request: declared.OneAlert) -> Alert:
        """The first one to say so is who sees to it."""
        row = required_alert(context, request.alert, hold=True)
        if row.resolved is not None:
            raise Conflict("This alert is over already: nobody has to see to it.")
        if row.acknowledged is None:
            store.change(context.work, row.id, acknowledged=context.now, acknowledged_by=context.identity.principal)
        context.facts["alert"] = row.id
        return _one(context, row.id)

    def decide(self, context: Context, request: declared.DecideAction) -> Alert:
        found = store.find_action(context.work, context.required_project.id, request.action)
        if found is None:
            raise NotFound(f"There is no action {request.action} here; `falaj alert show` has their ids.")
        monitor = monitor_store.by_id(
            context.work, found.monitor, hold=True
        )  # before its actions, as whoever raises alerts does
        action = store.find_action(context.work, context.required_project.id, request.action, hold=True)
        if action is None or action.state != "waiting" or monitor is None:
            raise Conflict(f"Nobody has to decide about this: it is {found.state}. {found.words}")
        if request.agree:
            self._check_other_eyes(context, monitor, action)
            self._check_right(context, monitor, action)
        name = context.identity.name
        store.change_action(
            context.work,
            action.id,
            state="ready" if request.agree else "refused",
            words=f"{name} agreed; it is about to be done." if request.agree else f"{name} refused it.",
            decided=context.now,
            decided_by=context.identity.principal,
        )
        context.facts.update(alert=action.alert, kind=action.kind)
        return _one(context, action.alert)

    def _check_right(self, context: Context, monitor: Found, action: Found) -> None:
        """Whoever agrees may do it, by the very token that agrees."""
        endpoint = endpoint_store.find_by_id(context.work, monitor.endpoint)
        if endpoint is None:
            raise Conflict("Nobody has to decide about this: the endpoint is gone.")
        wanted = msgspec.json.decode(action.wanted, type=Act)
        wishing.check_right(context, self._gate, self._pipelines, endpoint.name, wanted)

    def _check_other_eyes(self, context: Context, monitor: Found, action: Found) -> None:
        """As with approvals of promotions, whose law this is: a person, and another one than who wished for it, then or since,
        also by a token that they made."""
        if not self._profile.four_eyes:
            return
        if context.identity.kind != "person":
            raise Forbidden(
                "People agree to what an alert does, signed in as themselves; a service account or a short-lived token cannot.",
                rule="approval.person",
            )
        if any(wishers.decode(one.wisher).is_behind(context.identity.principal) for one in (action, monitor)):
            raise Forbidden(
                "You set the monitor that wishes for this, yourself or by a token you made: somebody else who may deploy has "
                "to agree.",
                rule="approval.self",
            )


def _one(context: Context, id: str) -> Alert:
    return alerts_shown(context, [required_alert(context, id)])[0]
