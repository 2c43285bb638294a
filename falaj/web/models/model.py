"""A registered model's page: its versions, where its aliases point and pointed, and what waits for approval."""

from typing import Any, Final

from falaj.registry.operations.promotions import HISTORY, LIST_APPROVALS, MODEL_AS_OF
from falaj.registry.operations.versions import SEARCH_VERSIONS
from falaj.registry.operations.words import CHAMPION
from falaj.web.experiments.run import names_of
from falaj.web.forms import checked, request_from
from falaj.web.visits import Visit

MOST_VERSIONS: Final = 100


def named(visit: Visit) -> str:
    return str(visit.loaded["model"].name)


def quoted(text: str) -> str:
    """As a text in a filter: in whichever quotes it does not hold."""
    return f'"{text}"' if "'" in text else f"'{text}'"


def versions_of(name: str, visit: Visit) -> Any:
    """None where its name holds both kinds of quotes, so that no filter can say it."""
    if "'" in name and '"' in name:
        return None
    asked = {"filter": f"name = {quoted(name)}", "order": ["version_number DESC"], "limit": MOST_VERSIONS}
    return checked(SEARCH_VERSIONS, {"project": visit.project, "cursor": visit.query.get("cursor", ""), **asked})


def versions(visit: Visit) -> Any:
    return versions_of(named(visit), visit)


def history(visit: Visit) -> Any:
    return checked(HISTORY, {"project": visit.project, "model": named(visit), "limit": 50})


def approvals(visit: Visit) -> Any:
    return checked(LIST_APPROVALS, {"project": visit.project, "model": named(visit), "state": "open"})


def as_of(visit: Visit) -> Any:
    """What the form asked; None where nobody asked."""
    if not visit.query.get("at"):
        return None
    asked = {"alias": [visit.query.get("alias", "")], "at": [visit.query["at"]]}
    return request_from(MODEL_AS_OF, asked, {"project": visit.project, "model": named(visit)})


def story(visit: Visit) -> dict[str, Any]:
    model = visit.loaded["model"]
    found = visit.loaded["versions"]
    versions = found.items if found is not None else model.latest
    moves = visit.loaded["history"].items if visit.loaded["history"] is not None else ()
    latest: dict[str, Any] = {}
    for move in moves:
        latest.setdefault(move.alias, move)
    aliases = sorted(model.aliases, key=lambda alias: (alias.alias != CHAMPION, alias.alias))
    ids = {version.version: version.id for version in versions}
    return {
        "aliases": aliases,
        "moves": moves,
        "latest_move": latest,
        "listed": versions,
        "version_ids": ids,
        "names": names_of(visit),
        "champion": CHAMPION,
        "newest": max(ids, default=0),
    }
