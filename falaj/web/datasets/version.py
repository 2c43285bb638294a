"""A version's page: its first rows, what each column looks like, and why it is in quarantine where it is."""

import json
from collections.abc import Mapping
from typing import Any, Final

from markupsafe import Markup

from falaj.base.values import value
from falaj.datasets.operations.checks import SHOW_FINDINGS
from falaj.datasets.operations.profiles import PROFILE_VERSION
from falaj.datasets.operations.reading import PREVIEW
from falaj.web.datasets.dataset import class_of, itself
from falaj.web.drawing.histograms import histogram
from falaj.web.drawing.quotas import meter
from falaj.web.experiments.numbers import number_text
from falaj.web.forms import checked
from falaj.web.models.version import drawn
from falaj.web.visits import Visit

ROWS: Final = 20
COLUMNS: Final = 40  # that are shown at once; the others have pages of their own
LONGEST: Final = 200
_TOP: Final = 8


@value
class Chart:
    """One column of a profile, ready to be drawn. `facts` are pairs of words; `top` has a bar for each value."""

    name: str
    type: str
    kind: str
    facts: tuple[tuple[str, str], ...]
    picture: Markup
    top: tuple[tuple[str, str, Markup], ...]


def _number(visit: Visit) -> dict[str, Any]:
    """By its number, whatever the address called it: a tag may move between two questions."""
    return itself(visit) | {"version": str(visit.loaded["shown"].version)}


def first_column(visit: Visit) -> int:
    asked = visit.query.get("from", "")
    place = int(asked) if asked.isascii() and asked.isdigit() and len(asked) < 6 else 0
    return place if place < len(visit.loaded["shown"].columns) else 0


def _shown_columns(visit: Visit) -> tuple[Any, ...]:
    at = first_column(visit)
    columns: tuple[Any, ...] = visit.loaded["shown"].columns[at : at + COLUMNS]
    return columns


def preview(visit: Visit) -> Any:
    columns = [column.name for column in _shown_columns(visit)]
    return checked(PREVIEW, _number(visit) | {"columns": columns, "limit": ROWS})


def profile(visit: Visit) -> Any:
    return checked(PROFILE_VERSION, _number(visit))


def findings(visit: Visit) -> Any:
    return checked(SHOW_FINDINGS, _number(visit)) if visit.loaded["shown"].quarantined else None


def story(visit: Visit) -> dict[str, Any]:
    version, kinds = visit.loaded["shown"], class_of(visit)
    at, names = first_column(visit), {column.name for column in _shown_columns(visit)}
    found = visit.loaded["profile"]
    columns = [column for column in found.columns if column["name"] in names] if found is not None else []
    return {
        "class_of": kinds,
        "charts": [chart(column, found.rows, kinds.get(column["name"], "")) for column in columns],
        "cell": cell,
        "at": at,
        "before": max(0, at - COLUMNS) if at else None,
        "after": at + COLUMNS if at + COLUMNS < len(version.columns) else None,
        "drawing": drawn(visit, version.lineage),
    }


def chart(column: Mapping[str, Any], rows: int, kind: str) -> Chart:
    bars = column.get("histogram") or {}
    edges = [cell(edge) for edge in bars.get("edges", ())]
    top = [(cell(one), int(count)) for one, count in column.get("top", ())[:_TOP] if count > 1 or rows == 1]
    return Chart(
        name=column["name"],
        type=column["type"],
        kind=kind,
        facts=tuple(_facts(column, rows)),
        picture=histogram(bars.get("counts", ()), edges, label=f"How the values of {column['name']} are spread"),
        top=tuple((one, f"{count:,}", meter(count / rows if rows else 0.0)) for one, count in top),
    )


def _facts(column: Mapping[str, Any], rows: int) -> list[tuple[str, str]]:
    nulls = column["nulls"]
    facts = [("Nulls", f"{nulls:,} ({nulls / rows:.1%})" if rows else "0")]
    if "distinct" in column:
        about = "" if column.get("distinct_is_exact") else "about "
        facts.append(("Different", f"{about}{round(column['distinct']):,}"))
    if column.get("nans"):
        facts.append(("NaN", f"{column['nans']:,}"))
    names = {"min": "Least", "max": "Most", "mean": "Mean", "deviation": "Deviation"}
    facts += [(words, cell(column[name])) for name, words in names.items() if name in column]
    if "longest" in column:
        facts.append(("Length", f"{column['shortest']:,} to {column['longest']:,}"))
    quantiles = column.get("quantiles") or {}
    facts += [(f"{float(rank):.0%} below", cell(one)) for rank, one in quantiles.items()]
    bars = column.get("histogram") or {}
    facts += [(f"Further {word}", f"{bars[word]:,}") for word in ("below", "above") if bars.get(word)]
    return facts


def cell(one: Any) -> str:
    """A value as a person reads it, cut where it goes on for long."""
    if isinstance(one, bool):
        text = "true" if one else "false"
    elif isinstance(one, float):
        text = number_text(one)
    elif isinstance(one, dict | list | tuple):
        text = json.dumps(one, ensure_ascii=False, default=str)
    else:
        text = str(one)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
