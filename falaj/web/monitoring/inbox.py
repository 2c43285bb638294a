"""Alerts: those that need somebody, filtered as the reader likes, and one of them whole."""

from typing import Any, Final
from urllib.parse import urlencode

from falaj.monitoring.operations.alerts import LIST_ALERTS
from falaj.web.forms import checked
from falaj.web.monitoring.words import PARTS, part
from falaj.web.visits import Visit

ON_A_PAGE: Final = 30
EVERY: Final = 10
WHICH: Final = (("open", "Open"), ("over", "Over"), ("all", "All"))


def listing(visit: Visit) -> Any:
    asked = {name: visit.query[name] for name in ("endpoint", "cursor") if visit.query.get(name)}
    return checked(LIST_ALERTS, {"project": visit.project, "which": which(visit), "limit": ON_A_PAGE, **asked})


def which(visit: Visit) -> str:
    text = visit.query.get("which", "")
    return next((word for word, _ in WHICH if word == text), WHICH[0][0])


def story(visit: Visit) -> dict[str, Any]:
    found = visit.loaded["alerts"]
    return {
        "shown": sorted(found.items, key=lambda one: one.resolved is not None) if found is not None else [],
        "which": which(visit),
        "endpoint": visit.query.get("endpoint", ""),
        "choices": WHICH,
        "every": 0 if visit.query.get("cursor") else EVERY,
        "part": part,
        **PARTS,
    }


def one(visit: Visit) -> dict[str, Any]:
    alert = visit.loaded["alert"]
    return {"every": EVERY if alert.resolved is None else 0, "part": part, **PARTS}


def back(visit: Visit, _result: Any) -> str:
    """To the list as the reader had filtered it."""
    kept = {name: visit.submitted[f"_{name}"] for name in ("which", "endpoint") if visit.submitted.get(f"_{name}")}
    return f"/projects/{visit.project}/alerts{f'?{urlencode(kept)}' if kept else ''}"
