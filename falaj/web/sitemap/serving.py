"""The pages of endpoints, of the calls that were sampled, and of the keys that programs call with."""

from typing import Final

from falaj.base.operation import Group
from falaj.monitoring.operations import monitors
from falaj.registry.operations import versions
from falaj.serving.operations import endpoints, keys
from falaj.web.pages import Data, Form, Load, Page
from falaj.web.serving import endpoint, fields, trying
from falaj.web.sitemap.asking import THIS_PROJECT, may_here, of_path, to
from falaj.web.visits import Visit

READS: Final = may_here(Group.READ)
ENDPOINTS: Final = "/projects/{project}/endpoints"
ENDPOINT: Final = "/projects/{project}/endpoints/{endpoint}"
KEYS: Final = "/projects/{project}/endpoint-keys"
ALL_ENDPOINTS: Final = Load(operation=endpoints.LIST_ENDPOINTS, request=endpoint.all_endpoints, when=READS)
THIS_ENDPOINT: Final = Load(operation=endpoints.SHOW_ENDPOINT, request=of_path(endpoints.SHOW_ENDPOINT), essential=True)


def to_deployed(visit: Visit, made: endpoints.Deployment) -> str:
    """To the endpoint; where there is something to remark first, nowhere."""
    return "" if made.remarks else f"/projects/{visit.project}/endpoints/{made.endpoint.name}"


DEPLOYING: Final = Form(operation=endpoints.DEPLOY_REVISION, then=to_deployed, beside=True, request=fields.deployment)


PAGES: Final = (
    Page(
        path=ENDPOINTS,
        section="projects",
        template="endpoints.html",
        loads={
            "project": THIS_PROJECT,
            "endpoints": Load(operation=endpoints.LIST_ENDPOINTS, request=endpoint.listing, when=READS),
            "traffic": Load(operation=endpoints.READ_TRAFFIC, request=endpoint.traffic_of_each, when=READS, each=True),
        },
        derive=endpoint.rows,
    ),
    Page(
        path=ENDPOINT,
        section="projects",
        template="endpoint.html",
        loads={
            "project": THIS_PROJECT,
            "endpoint": THIS_ENDPOINT,
            "traffic": Load(operation=endpoints.READ_TRAFFIC, request=endpoint.traffic),
            "changes": Load(operation=endpoints.READ_CHANGES, request=endpoint.changes),
            "revisions": Load(operation=endpoints.READ_REVISIONS, request=endpoint.revisions),
            "main_version": Load(operation=versions.FIND_VERSION, request=endpoint.main_version),
            "watched": Load(operation=monitors.SHOW_MONITOR, request=endpoint.monitors, each=True),
        },
        forms=(
            Form(operation=endpoints.ROLL_BACK, then=to(ENDPOINT)),
            Form(operation=endpoints.PROMOTE_REVISION, then=to(ENDPOINT)),
            Form(operation=endpoints.SPLIT_TRAFFIC, then=to(ENDPOINT), beside=True, request=fields.split),
            Form(operation=endpoints.CONFIGURE, then=to(ENDPOINT), beside=True, request=fields.configuration),
            Form(operation=endpoints.DELETE_ENDPOINT, then=to(ENDPOINTS)),
            Form(operation=keys.ASK_FOR_TOKEN, beside=True, request=trying.token_wanted, after=trying.tried),
        ),
        data=(
            Data(path=f"{ENDPOINT}/now", operation=endpoints.SHOW_ENDPOINT, request=of_path(endpoints.SHOW_ENDPOINT)),
            Data(path=f"{ENDPOINT}/traffic", operation=endpoints.READ_TRAFFIC, request=endpoint.traffic),
        ),
        derive=endpoint.story,
    ),
    Page(
        path=f"{ENDPOINT}/calls",
        section="projects",
        template="endpoint_calls.html",
        loads={
            "project": THIS_PROJECT,
            "endpoint": THIS_ENDPOINT,
            "calls": Load(operation=endpoints.READ_LOGS, request=endpoint.calls, when=may_here(Group.WRITE)),
        },
        derive=endpoint.calls_story,
    ),
    Page(
        path=KEYS,
        section="projects",
        template="endpoint_keys.html",
        loads={
            "project": THIS_PROJECT,
            "keys": Load(operation=keys.LIST_KEYS, request=endpoint.keys, when=may_here(Group.DEPLOY)),
            "endpoints": ALL_ENDPOINTS,
        },
        forms=(
            Form(operation=keys.CREATE_KEY, beside=True),
            Form(operation=keys.REVOKE_KEY, then=to(KEYS)),
        ),
    ),
)

DONE: Final = {
    endpoints.DEPLOY_REVISION.name: "Deployed. Planes load it now; who gets what is shown below.",
    endpoints.ROLL_BACK.name: "Rolled back: the split before is in force again.",
    endpoints.PROMOTE_REVISION.name: "Promoted: that revision gets everything.",
    endpoints.SPLIT_TRAFFIC.name: "The split is changed.",
    endpoints.CONFIGURE.name: "The options are set; planes follow within a second.",
    endpoints.DELETE_ENDPOINT.name: "The endpoint is gone. What happened to it stays on record.",
    keys.REVOKE_KEY.name: "The key is revoked. Planes refuse it as soon as they have heard.",
}
