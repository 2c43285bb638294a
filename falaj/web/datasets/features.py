"""The feature views of a project: what each takes from which dataset, and of when the values are that are served."""

from typing import Any, Final

from falaj.datasets.operations.features import LIST_VIEWS, SHOW_VIEW, FeatureView, Freshness, OneView
from falaj.tables.joining.views import Feature
from falaj.web.experiments.numbers import duration_text
from falaj.web.forms import checked
from falaj.web.visits import Visit

MOST: Final = 25
LOOKED_BACK: Final = 10  # versions of a view, for one that is served


def views(visit: Visit) -> Any:
    return checked(LIST_VIEWS, {"project": visit.project, "limit": MOST, "cursor": visit.query.get("cursor", "")[:500]})


def earlier(visit: Visit) -> list[OneView]:
    """Until a new version is materialised, the newest that was is served."""
    found = visit.loaded["views"]
    waiting = [one for one in found.items if one.materialised is None] if found is not None else []
    return [
        OneView(project=visit.project, view=f"{one.view}@{number}")
        for one in waiting
        for number in range(one.version - 1, max(0, one.version - 1 - LOOKED_BACK), -1)
    ]


def chosen(visit: Visit) -> Any:
    """A view, or a version of it, that the address asks for."""
    asked = visit.query.get("view", "")
    return checked(SHOW_VIEW, {"project": visit.project, "view": asked}) if asked else None


def story(visit: Visit) -> dict[str, Any]:
    served: dict[str, FeatureView] = {}
    for one in (visit.loaded["earlier"] or {}).values():
        if one.materialised is not None:
            served.setdefault(one.view, one)
    return {
        "served_before": served,
        "looked_back": LOOKED_BACK,
        "words_of": words_of,
        "span": span,
        "types_of": types_of,
        "behind": behind,
        "share": share,
    }


def words_of(feature: Feature) -> str:
    """What is taken, of what, over which time."""
    of = f" of {feature.column}" if feature.column else ""
    over = f" over {span(feature.period)}" if feature.period is not None else ""
    return f"{feature.function}{of}{over}"


def span(microseconds: int) -> str:
    return duration_text(microseconds // 1000) if microseconds >= 1000 else f"{microseconds} µs"


def behind(fresh: Freshness) -> str:
    """How far what is served lies behind its dataset."""
    if not fresh.behind:
        return "nothing: it is of the newest version"
    return f"{fresh.behind} version{'s' if fresh.behind > 1 else ''} behind {fresh.current}"


def share(log: float) -> str:
    return f"{100 * log:g} % of what is served" if log else "nothing"


def types_of(view: FeatureView) -> dict[str, str]:
    return {column.name: column.type for column in view.columns}
