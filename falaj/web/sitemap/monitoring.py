"""The pages of monitoring: health at a glance, an endpoint's drift and quality, alerts, and where alerts are sent."""

from typing import Any, Final

from falaj.base.operation import Group
from falaj.datasets.operations import datasets
from falaj.monitoring.operations import alerts, labels, monitors, objectives
from falaj.serving.operations import endpoints
from falaj.web.monitoring import fields, health, inbox, monitor, quality
from falaj.web.pages import Form, Load, Page
from falaj.web.serving import endpoint
from falaj.web.sitemap.asking import THIS_PROJECT, here, may_here, of_path, to
from falaj.web.visits import Visit

READS: Final = may_here(Group.READ)
MONITORS: Final = "/projects/{project}/monitors"
MONITOR: Final = "/projects/{project}/endpoints/{endpoint}/monitor"
ALERTS: Final = "/projects/{project}/alerts"
ALERT: Final = f"{ALERTS}/{{alert}}"
CHANNELS: Final = "/projects/{project}/channels"
ALL_CHANNELS: Final = Load(operation=alerts.LIST_CHANNELS, request=here(alerts.ListChannels), when=READS)
ALL_ENDPOINTS: Final = Load(operation=endpoints.LIST_ENDPOINTS, request=endpoint.all_endpoints, when=READS)


def _of_whole(visit: Visit) -> bool:
    return monitor.is_whole(visit) and visit.standing.may(Group.READ, visit.project)


def _to_monitor(visit: Visit, made: monitors.Monitor) -> str:
    return f"/projects/{visit.project}/endpoints/{made.endpoint}/monitor"


def _monitor_story(visit: Visit) -> dict[str, Any]:
    return monitor.story(visit) | {"quality_told": quality.story(visit)}


PAGES: Final = (
    Page(
        path=MONITORS,
        section="projects",
        template="monitors.html",
        loads={
            "project": THIS_PROJECT,
            "monitors": Load(operation=monitors.LIST_MONITORS, request=health.monitors, when=READS, every=True),
            "endpoints": ALL_ENDPOINTS,
            "alerts": Load(operation=alerts.LIST_ALERTS, request=health.open_alerts, when=READS),
            "traffic": Load(operation=endpoints.READ_TRAFFIC, request=health.traffic, when=READS, each=True),
            "objectives": Load(operation=objectives.READ_OBJECTIVES, request=health.objectives, when=READS, each=True),
            "datasets": Load(operation=datasets.LIST_DATASETS, request=monitor.datasets, when=may_here(Group.DEPLOY)),
            "channels": ALL_CHANNELS,
        },
        forms=(Form(operation=monitors.APPLY_MONITOR, then=_to_monitor, beside=True, request=fields.application),),
        derive=health.story,
    ),
    Page(
        path=MONITOR,
        section="projects",
        template="monitor.html",
        loads={
            "project": THIS_PROJECT,
            "endpoint": Load(operation=endpoints.SHOW_ENDPOINT, request=of_path(endpoints.SHOW_ENDPOINT), essential=True),
            "watched": Load(operation=monitors.SHOW_MONITOR, request=monitor.monitors, when=READS, each=True),
            "windows": Load(operation=monitors.READ_WINDOWS, request=monitor.windows, when=READS),
            "alerts": Load(operation=alerts.LIST_ALERTS, request=monitor.alerts, when=READS),
            "objectives": Load(operation=objectives.READ_OBJECTIVES, request=monitor.objectives, when=_of_whole),
            "spread": Load(operation=monitors.READ_COLUMN, request=monitor.column, when=READS),
            "quality": Load(operation=labels.READ_QUALITY, request=quality.asked, when=READS),
            "datasets": Load(operation=datasets.LIST_DATASETS, request=monitor.datasets, when=_of_whole),
            "channels": Load(operation=alerts.LIST_CHANNELS, request=monitor.channels, when=_of_whole),
        },
        forms=(
            Form(operation=monitors.APPLY_MONITOR, then=to(MONITOR), beside=True, request=fields.application),
            Form(operation=monitors.DELETE_MONITOR, then=to(MONITORS)),
        ),
        derive=_monitor_story,
    ),
    Page(
        path=ALERTS,
        section="projects",
        template="alerts.html",
        loads={
            "project": THIS_PROJECT,
            "alerts": Load(operation=alerts.LIST_ALERTS, request=inbox.listing, when=READS),
            "endpoints": ALL_ENDPOINTS,
        },
        forms=(
            Form(operation=alerts.ACKNOWLEDGE_ALERT, then=inbox.back),
            Form(operation=alerts.DECIDE_ACTION, then=inbox.back),
        ),
        derive=inbox.story,
    ),
    Page(
        path=ALERT,
        section="projects",
        template="alert.html",
        loads={
            "project": THIS_PROJECT,
            "alert": Load(operation=alerts.SHOW_ALERT, request=of_path(alerts.SHOW_ALERT), essential=True),
        },
        forms=(
            Form(operation=alerts.ACKNOWLEDGE_ALERT, then=to(ALERT)),
            Form(operation=alerts.DECIDE_ACTION, then=to(ALERT)),
        ),
        derive=inbox.one,
    ),
    Page(
        path=CHANNELS,
        section="projects",
        template="channels.html",
        loads={"project": THIS_PROJECT, "channels": ALL_CHANNELS},
        forms=(
            Form(operation=alerts.SET_CHANNEL, beside=True),
            Form(operation=alerts.DELETE_CHANNEL, then=to(CHANNELS)),
        ),
    ),
)

DONE: Final = {
    monitors.APPLY_MONITOR.name: "It is watched so from now on; planes follow within a second.",
    monitors.DELETE_MONITOR.name: "It is watched no more. Its alerts stay.",
    alerts.ACKNOWLEDGE_ALERT.name: "You see to it: it goes to nobody else.",
    alerts.DECIDE_ACTION.name: "Decided. What comes of it is told with its alert.",
    alerts.DELETE_CHANNEL.name: "Alerts are sent there no more.",
}
