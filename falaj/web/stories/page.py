"""The page of a version's story."""

from typing import Any
from urllib.parse import quote, urlencode

from falaj.base.operation import Group
from falaj.lifecycle.operations.stories import READ_STORY, Thing
from falaj.web.forms import checked
from falaj.web.models.version import itself
from falaj.web.stories.chapters import chapters, hidden, line
from falaj.web.stories.parts import Leaves, Links
from falaj.web.visits import Visit


def asked(visit: Visit) -> Any:
    return checked(READ_STORY, itself(visit))


def shown(visit: Visit) -> dict[str, Any]:
    story, links = visit.loaded["story"], _links(visit)
    return {
        "line": line(story),
        "chapters": chapters(story, links, _leaves(visit)),
        "hidden": hidden(story),
        "address": {"model": story.version.model, "version": story.version.version},
    }


def _leaves(visit: Visit) -> Leaves:
    audits = visit.standing.may(Group.AUDIT)
    return lambda leaf: f"/audit/proof?{urlencode({'leaf': leaf})}" if audits and leaf else ""


def _links(visit: Visit) -> Links:
    version = visit.loaded["registered"]

    def address(thing: Thing) -> str:
        base = f"/projects/{visit.project}"
        match thing.kind:
            case "":
                return ""
            case "dataset":
                return f"{base}/datasets/{quote(thing.id, safe='')}/versions/{quote(thing.part, safe='')}"
            case "variant":
                named = urlencode({"model": version.model, "version": version.version, "variant": thing.part})
                return f"{base}/certificate?{named}"
            case kind:
                return f"{base}/{kind}s/{quote(thing.id, safe='')}"

    return address
