"""A registered model's page: its versions, where its aliases point and pointed, and what waits for approval."""

import re
from typing import Any, Final

from falaj.registry.operations.promotions import HISTORY, LIST_APPROVALS, MODEL_AS_OF
from falaj.registry.operations.versions import SEARCH_VERSIONS
from falaj.registry.operations.words import CHAMPION, REPLAY_OF
from falaj.registry.promotions import previous
from falaj.web.experiments.run import names_of
from falaj.web.forms import checked, request_from
from falaj.web.models.moves import before_of, wish
from falaj.web.visits import Visit

MOST_VERSIONS: Final = 100
_COMPARES: Final = re.compile(r"[=<>~!]|\bI?LIKE\b|\bIN\s*\(|\bIS\s+(NOT\s+)?NULL\b", re.IGNORECASE)


def named(visit: Visit) -> str:
    return str(visit.loaded["model"].name)


def quoted(text: str) -> str:
    """As a text in a filter: in whichever quotes it does not hold."""
    return f'"{text}"' if "'" in text else f"'{text}'"


def as_filter(typed: str) -> str:
    """Words that compare nothing are part of a name, in small or capital letters."""
    plain = not _COMPARES.search(typed) and not ("'" in typed and '"' in typed)
    return f"name ILIKE {quoted(f'%{typed.strip()}%')}" if plain else typed


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
    open_approvals = visit.loaded["approvals"].items if visit.loaded["approvals"] is not None else ()
    return {
        "aliases": aliases,
        "wishes": [
            wish(visit.project, approval, before, ids.get(before, ""))
            for approval in open_approvals
            for before in (before_of(approval, model),)
        ],
        "back_to": {alias.alias: _back_to(visit, alias.alias, set(ids)) for alias in aliases},
        "moves": moves,
        "latest_move": latest,
        "listed": versions,
        "version_ids": ids,
        "names": names_of(visit),
        "champion": CHAMPION,
        "replay_tag": REPLAY_OF,
        "newest": max(ids, default=0),
    }


def _back_to(visit: Visit, alias: str, listed: set[int]) -> int | None:
    """The version that a rollback leads to, 0 for none; None where the page holds too little to know."""
    history = visit.loaded["history"]
    if history is None or len(listed) < visit.loaded["model"].versions:
        return None
    done: list[Any] = [move for move in reversed(history.items) if move.alias == alias and move.kind != "stage"]
    return previous(done, listed) or (None if history.next else 0)
