"""How datasets, their versions and their rows look to people."""

from typing import Any

from falaj.cli.layout import Layout, brief, tell_of_more
from falaj.datasets.operations import comparing, datasets, profiles, reading, versions


def dataset_list(layout: Layout, page: datasets.Datasets) -> None:
    rows = ([one.name, one.current or None, one.rows, one.size, one.zone, brief(one.changed)] for one in page.items)
    layout.table(["name", "version", "rows", "size", "zone", "changed"], rows)
    tell_of_more(page)


def version_list(layout: Layout, page: versions.Versions) -> None:
    rows = (
        [
            one.version,
            _mode(one),
            one.rows,
            len(one.columns),
            one.tags,
            one.origin,
            brief(one.created),
            one.digest[:12],
        ]
        for one in page.items
    )
    layout.table(["version", "mode", "rows", "columns", "tags", "origin", "created", "digest"], rows)
    tell_of_more(page)


def version(layout: Layout, one: versions.Version) -> None:
    layout.pairs(
        [
            ("dataset", f"{one.dataset}@{one.version}{_standing(one)}"),
            ("made by", f"{one.mode}{f' of version {one.parent}' if one.parent else ''}"),
            ("rows", f"{one.rows:,}"),
            ("parts", f"{one.parts} ({'external: they stay where they are' if one.mode == 'pin' else f'{one.size:,} bytes'})"),
            ("zone", one.zone),
            ("origin", one.origin),
            *([] if one.derivation is None else [("derived by", f"{one.derivation.kind}: {one.derivation.code}")]),
            ("tags", one.tags),
            ("created", one.created),
            ("digest", one.digest),
            ("lineage", one.lineage),
        ]
    )
    layout.line()
    if all(column.nullable for column in one.columns):
        layout.table(["column", "type"], ([column.name, column.type] for column in one.columns))
    else:
        rows = ([column.name, column.type, "may be missing" if column.nullable else "always there"] for column in one.columns)
        layout.table(["column", "type", "value"], rows)


def parts(count: int) -> str:
    return "1 part" if count == 1 else f"{count:,} parts"


def _standing(one: versions.Version) -> str:
    if one.pruned:
        return " (released or dropped)" if one.quarantined else " (pruned)"
    return " (current)" if one.current else " (in quarantine)" if one.quarantined else ""


def _mode(one: versions.Version) -> str:
    if one.quarantined:
        return "was quarantined" if one.pruned else "quarantined"
    return one.mode


def difference(layout: Layout, found: comparing.Difference) -> None:
    layout.pairs(
        [
            ("versions", f"{found.dataset}@{found.before} and @{found.after}"),
            ("columns added", tuple(f"{column.name} ({column.type})" for column in found.columns_added)),
            ("columns removed", tuple(f"{column.name} ({column.type})" for column in found.columns_removed)),
            ("columns retyped", tuple(f"{one.name} ({one.before} to {one.after})" for one in found.columns_retyped)),
            ("rows", f"{found.rows_before:,} and {found.rows_after:,}"),
            ("rows added", f"{found.rows_added:,}"),
            ("rows removed", f"{found.rows_removed:,}"),
            ("rows changed", f"{found.rows_changed:,}"),
        ]
    )
    if found.changed:
        layout.line()
        layout.table(["column", "rows changed"], ([one.name, one.rows] for one in found.changed))
    if found.shifts:
        layout.line()
        rows = (
            [one.name, one.distance, *_pair(one.nulls, "{:.2%}"), *_pair(one.mean, "{}"), *_pair(one.distinct, "{:,}")]
            for one in found.shifts
        )
        layout.table(["column", "distance", "no value", "", "mean", "", "different", ""], rows)


def profile(layout: Layout, found: profiles.Profile) -> None:
    rows = (
        [
            column["name"],
            column["type"],
            f"{column['nulls'] / found.rows:.2%}" if found.rows else None,
            _different(column),
            _short(column["min"]) if "min" in column else _length(column.get("shortest")),
            _short(column.get("mean")),
            _short(column.get("quantiles", {}).get("0.5")),
            _short(column["max"]) if "max" in column else _length(column.get("longest")),
            ", ".join(f"{_short(one)} ({count:,})" for one, count in column.get("top", [])[:3]),
        ]
        for column in found.columns
    )
    layout.table(["column", "type", "no value", "different", "least", "mean", "median", "most", "frequent"], rows)


def _different(column: dict[str, Any]) -> str | None:
    if "distinct" not in column:
        return None
    return f"{column['distinct']:,}" if column["distinct_is_exact"] else f"about {column['distinct']:,}"


def _length(letters: int | None) -> str | None:
    return None if letters is None else f"length {letters:,}"


def _pair(of: tuple[Any, Any] | None, words: str) -> tuple[str | None, str | None]:
    return (words.format(_short(of[0])), words.format(_short(of[1]))) if of else (None, None)


def _short(one: Any) -> Any:
    """Of a number six digits, of a text its beginning."""
    if isinstance(one, float):
        return float(f"{one:.6g}")
    return one[:40] if isinstance(one, str) else one


def found_rows(layout: Layout, found: reading.FoundRows) -> None:
    layout.table([], found.rows, named=[column.name for column in found.columns])
    if found.more:
        layout.line("There are more rows.")
