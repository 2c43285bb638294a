"""How good the predictions were, over time: one figure drawn with its intervals, all of them in a table."""

from collections.abc import Sequence
from typing import Any, Final

from markupsafe import Markup

from falaj.base.clock import HOUR
from falaj.monitoring.operations.labels import READ_QUALITY, Bucket, Figure, Quality
from falaj.web.drawing.bands import Point, bands
from falaj.web.forms import checked
from falaj.web.monitoring.monitor import is_whole, link, monitor_of, named
from falaj.web.visits import Visit

SPANS: Final = (("day", 30, "by day"), ("hour", 3, "by hour"), ("whole", 30, "in all"))
SERIES: Final = 10
MOST_BUCKETS: Final = 40
ACCURACY: Final = "accuracy"
ESTIMATED: Final = "estimated accuracy"  # from how sure the model was, where no truth is known: drawn beside the real one


def asked(visit: Visit) -> Any:
    if monitor_of(visit) is None or not is_whole(visit):
        return None
    words = {"slices": [visit.query["slice"]]} if visit.query.get("slice") else {}
    span, days = _span(visit)
    return checked(
        READ_QUALITY, named(visit) | {"span": span, "days": days, "positive": visit.query.get("positive", "")} | words
    )


def _span(visit: Visit) -> tuple[str, int]:
    text = visit.query.get("span", "")
    return next(((span, days) for span, days, _ in SPANS if span == text), SPANS[0][:2])


def story(visit: Visit) -> dict[str, Any]:
    """Under one name, for the page has much else."""
    found: Quality | None = visit.loaded["quality"]
    buckets = list(found.items) if found is not None else []
    names = figure_names(buckets)
    text = visit.query.get("figure", "")
    chosen = text if text in names else next(iter(names), "")
    return {
        "buckets": [one for one in buckets if one.rows][:MOST_BUCKETS],
        "names": names,
        "chosen": chosen,
        "chart": chart(buckets, chosen),
        "estimated": chosen == ACCURACY and any(figure_of(bucket, ESTIMATED) for bucket in buckets),
        "revisions": sorted({bucket.revision for bucket in buckets}),
        "first": min((bucket.at for bucket in buckets), default=None),
        "last": max((bucket.at for bucket in buckets), default=None),
        "gaps": [(bucket, gap) for bucket in buckets for gap in bucket.gaps][:MOST_BUCKETS],
        "span": _span(visit)[0],
        "spans": [(span, words, f"{link(visit, span=span)}#quality") for span, _, words in SPANS],
        "links": {name: f"{link(visit, figure=name)}#quality" for name in names},
        "figure_of": figure_of,
    }


def figure_names(buckets: Sequence[Bucket]) -> list[str]:
    """As they come; estimates stand with what they estimate."""
    found = dict.fromkeys(figure.name for bucket in buckets for figure in bucket.figures)
    return [name for name in found if name != ESTIMATED] if ACCURACY in found else list(found)


def figure_of(bucket: Bucket, name: str) -> Figure | None:
    return next((one for one in bucket.figures if one.name == name), None)


def chart(buckets: Sequence[Bucket], name: str) -> Markup:
    wanted = (name, ESTIMATED) if name == ACCURACY else (name,)
    points = [
        Point(
            at=bucket.at / HOUR,
            middle=figure.at,
            low=figure.low,
            high=figure.high,
            series=bucket.revision % SERIES,
            words=_words(bucket, figure),
            faint=figure.name == ESTIMATED,
        )
        for bucket in buckets
        for figure in bucket.figures
        if figure.name in wanted
    ]
    return bands(points, label=f"{name} over time, {len(points)} spans, each with its interval")


def _words(bucket: Bucket, figure: Figure) -> str:
    said = f"{figure.at:.4g}, between {figure.low:.4g} and {figure.high:.4g}"
    return f"{figure.name.capitalize()} of revision {bucket.revision}, {str(bucket.at)[:16]}: {said}, of {figure.rows:,} rows"
