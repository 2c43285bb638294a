"""One endpoint's page, and the list of them: what is asked for beside the endpoint itself, and what is made of the answers."""

import json
from typing import Any, Final
from urllib.parse import urlsplit

from markupsafe import Markup

from falaj.base.values import value
from falaj.monitoring.operations.monitors import SHOW_MONITOR
from falaj.registry.operations.versions import FIND_VERSION
from falaj.serving.operations.endpoints import (
    LIST_ENDPOINTS,
    READ_CHANGES,
    READ_LOGS,
    READ_REVISIONS,
    READ_TRAFFIC,
    ListEndpoints,
    ReadTraffic,
)
from falaj.serving.operations.keys import LIST_KEYS
from falaj.serving.splits import main_revision
from falaj.web.drawing.shares import Part, bar
from falaj.web.drawing.sparklines import sparkline
from falaj.web.forms import checked
from falaj.web.models.version import ports
from falaj.web.monitoring.words import health_of
from falaj.web.serving.fields import percent
from falaj.web.serving.figures import Figures, course, figures, sparks
from falaj.web.serving.trying import example
from falaj.web.visits import Visit

SPANS: Final = (
    (900, "15 minutes"),
    (3600, "hour"),
    (6 * 3600, "6 hours"),
    (86_400, "day"),
    (7 * 86_400, "week"),
    (30 * 86_400, "30 days"),
)
ON_A_PAGE: Final = 50
MOST_CHANGES: Final = 50
CHOSEN_FROM: Final = 20  # the newest revisions that a split can be made of
_CHANGED: Final = {
    "deploy": "Deployed",
    "split": "Split changed",
    "promote": "Promoted",
    "rollback": "Rolled back",
    "step": "Canary went on",
    "quarantine": "Quarantined",
}


@value
class Row:
    """An endpoint in a list."""

    endpoint: Any
    bar: Markup
    words: str
    figures: Figures
    spark: Markup
    tone: str
    state: str


# What is asked for


def listing(visit: Visit) -> Any:
    cursor = visit.query.get("cursor", "")
    return checked(LIST_ENDPOINTS, {"project": visit.project, "limit": ON_A_PAGE, "cursor": cursor})


def all_endpoints(visit: Visit) -> ListEndpoints:
    return ListEndpoints(project=visit.project, limit=1000)


def traffic_of_each(visit: Visit) -> list[Any]:
    found = visit.loaded["endpoints"]
    return [ReadTraffic(project=visit.project, endpoint=one.name) for one in found.items] if found is not None else []


def named(visit: Visit) -> dict[str, Any]:
    return {"project": visit.project, "endpoint": visit.path["endpoint"]}


def span(visit: Visit) -> int:
    """How far back the charts go, of the few spans that one can choose."""
    text = visit.query.get("seconds", "")
    return next((seconds for seconds, _ in SPANS if str(seconds) == text), SPANS[0][0])


def traffic(visit: Visit) -> Any:
    return checked(READ_TRAFFIC, named(visit) | {"seconds": span(visit)})


def changes(visit: Visit) -> Any:
    return checked(READ_CHANGES, named(visit) | {"limit": MOST_CHANGES})


def revisions(visit: Visit) -> Any:
    return checked(READ_REVISIONS, named(visit) | {"limit": CHOSEN_FROM})


def main_version(visit: Visit) -> Any:
    """The version that most answers come from: its signature says what a record holds."""
    endpoint = visit.loaded["endpoint"]
    main = main_revision(endpoint.arms)
    found = next((one.version_id for one in endpoint.revisions if one.number == main), "")
    return checked(FIND_VERSION, {"project": visit.project, "id": found}) if found else None


def monitors(visit: Visit) -> list[Any]:
    """One, or none where nobody watches the endpoint."""
    return [checked(SHOW_MONITOR, named(visit))]


def calls(visit: Visit) -> Any:
    return checked(READ_LOGS, named(visit) | {"limit": 50, "cursor": visit.query.get("cursor", "")})


def keys(visit: Visit) -> Any:
    return checked(LIST_KEYS, {"project": visit.project, "cursor": visit.query.get("cursor", "")})


# What is made of it


def split_bar(endpoint: Any, *, width: float = 160) -> Markup:
    live = [arm for arm in endpoint.arms if arm.role == "live"]
    names = versions_by_number(endpoint)
    words = {arm.revision: f"{percent(arm.share)} to revision {arm.revision}, {names[arm.revision]}" for arm in live}
    return bar([Part(size=arm.share, series=arm.revision % 10, words=words[arm.revision]) for arm in live], width=width)


def versions_by_number(endpoint: Any) -> dict[int, str]:
    """What each revision of the split is, in words."""
    known = {one.number: _named(one) for one in endpoint.revisions}
    return {arm.revision: known.get(arm.revision, "a version that is gone") for arm in endpoint.arms} | known


def _named(revision: Any) -> str:
    return f"{revision.model} v{revision.version}{f' as {revision.variant}' if revision.variant else ''}"


def split_words(endpoint: Any) -> str:
    names = versions_by_number(endpoint)
    parts = [f"{percent(arm.share)} {names[arm.revision]}" for arm in endpoint.arms if arm.role == "live"]
    parts += [f"{names[arm.revision]} as a shadow" for arm in endpoint.arms if arm.role == "shadow"]
    return ", ".join(parts) or "nothing is deployed"


def state_of(endpoint: Any) -> tuple[str, str]:
    """A tone and a word."""
    if endpoint.planes and endpoint.ready == endpoint.planes:
        return ("warn", "answers, with problems") if endpoint.problems else ("good", "answers")
    if endpoint.ready:
        return "warn", "answers in part"
    return "bad", "does not answer"


def shadows_of(endpoint: Any) -> set[int]:
    return {arm.revision for arm in endpoint.arms if arm.role == "shadow"}


def rows(visit: Visit) -> dict[str, Any]:
    found = visit.loaded["endpoints"]
    return {"rows": [_row(visit, endpoint) for endpoint in found.items] if found is not None else []}


def _row(visit: Visit, endpoint: Any) -> Row:
    asked = ReadTraffic(project=visit.project, endpoint=endpoint.name)
    told = (visit.loaded["traffic"] or {}).get(asked)
    past = course(told.points if told else (), asked.seconds, visit.now, shadows=shadows_of(endpoint))
    tone, state = state_of(endpoint)
    return Row(
        endpoint=endpoint,
        bar=split_bar(endpoint),
        words=split_words(endpoint),
        figures=figures(past),
        spark=sparkline(past.rate),
        tone=tone,
        state=state,
    )


def story(visit: Visit) -> dict[str, Any]:
    endpoint, told, done = visit.loaded["endpoint"], visit.loaded["traffic"], visit.loaded["changes"]
    past = course(told.points if told else (), span(visit), visit.now, shadows=shadows_of(endpoint))
    tone, state = state_of(endpoint)
    names = versions_by_number(endpoint)
    listed = visit.loaded["revisions"].items if visit.loaded["revisions"] is not None else endpoint.revisions
    names |= {one.number: _named(one) for one in listed}
    history = done.items if done is not None else ()
    live = [arm for arm in endpoint.arms if arm.role == "live"]
    record = _record(visit)
    monitor = next(iter((visit.loaded["watched"] or {}).values()), None)
    return {
        "state": state,
        "tone": tone,
        "seconds": span(visit),
        "spans": SPANS,
        "figures": figures(past),
        "sparks": sparks(past),
        "bar": split_bar(endpoint, width=640),
        "revision_names": names,
        "revision_ids": {one.number: one.version_id for one in (*listed, *endpoint.revisions)},
        "listed_revisions": listed,
        "revisions_now": {one.number: one for one in endpoint.revisions},
        "arms_now": {arm.revision: arm for arm in endpoint.arms},
        "splittable": _splittable(endpoint, listed),
        "history": [{"change": one, "words": _CHANGED[one.kind], "arms": _arms_words(one.arms, names)} for one in history],
        "markers": [_marker(one, names) for one in history],
        "last_change": history[0] if history else None,
        "newest": max((arm.revision for arm in live), default=0) if len(endpoint.arms) > 1 else 0,
        "percent": percent,
        "monitor": monitor,
        "health": health_of(monitor) if visit.loaded["watched"] is not None else None,
        "record": record,
        "on_one_line": json.dumps(json.loads(record), ensure_ascii=False),
        "host": urlsplit(endpoint.url).netloc or "HOST:8500",
        "tls": endpoint.url.startswith("https:"),
    }


def _splittable(endpoint: Any, listed: Any) -> list[Any]:
    """The revisions a split can be made of, newest first: those that have a part now, and the newest others that may."""
    known = {one.number: one for one in (*endpoint.revisions, *listed) if not one.quarantined}
    return [known[number] for number in sorted(known, reverse=True)][:CHOSEN_FROM]


def _arms_words(arms: Any, names: dict[int, str]) -> str:
    parts = [
        f"{percent(arm.share)}{' of copies' if arm.role == 'shadow' else ''} to revision {arm.revision}"
        + (f" ({names[arm.revision]})" if arm.revision in names else "")
        for arm in arms
    ]
    return ", ".join(parts) or "nothing"


def _marker(change: Any, names: dict[int, str]) -> dict[str, Any]:
    """A line in the charts: when, and in a few words what."""
    return {"at": int(change.at) // 1000, "words": f"{_CHANGED[change.kind]}: {_arms_words(change.arms, names)}"}


def _record(visit: Visit) -> str:
    version, endpoint = visit.loaded["main_version"], visit.loaded["endpoint"]
    main = next((one for one in endpoint.revisions if one.number == main_revision(endpoint.arms)), None)
    inputs = ports(version.inputs) if version is not None else []
    return example(inputs) if main is None else example(inputs, keys=main.keys, looked=main.features)


def calls_story(visit: Visit) -> dict[str, Any]:
    options = visit.loaded["endpoint"].options
    return {"percent": percent, "sampled": options.log_share, "masked": options.masked}
